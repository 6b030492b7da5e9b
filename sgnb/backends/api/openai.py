"""OpenAI's chat and completion endpoints, and compatible servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import OptionError
from ...lang.chat import PLAIN, ChatTemplate
from ...lang.executor import ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from .clients import make_client, place_of, secrets_of
from .collecting import Collected, tokens_of
from .echo import Echo, alone
from .endpoint import Answer, Ask, Failure, Scored, Tokens, ignore, refuse
from .executor import ApiExecutor
from .failures import translated
from .limits import Limits
from .usage import fixed_price, listed_price, no_price

ROLES_AS_TEXT = ChatTemplate("as text", PLAIN.roles)
"""Role format in a program's text; the service applies its own chat template."""

COMPLETION_MODELS = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
MOST_STOPS = 4

_REFUSED = ("min_new_tokens", "stop_token_ids", "stop_regex", "ignore_eos", "thinking")
_IGNORED = ("top_k", "min_p", "repetition_penalty", "json_whitespace")
LARGEST_BIAS = 100.0


class OpenAIEndpoint:
    """An `Endpoint` through a client of the `openai` package."""

    continues = False
    samples = True

    def __init__(
        self,
        client: Any,
        model: str,
        is_chat: bool,
        chat: ChatTemplate,
        own: bool,  # OpenAI's service: known defaults and newer arguments
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.client, self.model, self.is_chat, self.chat = client, model, is_chat, chat
        self.enforces = frozenset({"json_schema"} if is_chat else ())
        self._own, self._extra, self.secrets = own, dict(extra_body or {}), secrets_of(client)
        self.scores = not is_chat  # until the service returns no log-probabilities
        self._service = f"the service of {model!r}"
        if not own:
            self._service += f" at {place_of(client)}"

    def check(self, params: SamplingParams, location: Location | None) -> None:
        hint = "leave it out; extra_body= of the backend sends what a server takes beyond OpenAI's"
        refuse(self._service, params, _REFUSED, hint)
        if params.return_logprob and params.logprob_start_len != -1:
            raise OptionError(
                f"{self._service} scores no prompt: logprob_start_len={params.logprob_start_len}",
                "leave it out",
            )
        if params.max_new_tokens == 0:
            raise OptionError(f"{self._service} cannot answer with 0 tokens", "ask for 1 or more")
        ignore(self._service, params, _IGNORED, location)

    async def ask(self, ask: Ask, piece: Callable[[str], None]) -> Answer:
        body = self._body(ask)
        try:
            return await self._ask(ask, body, piece)
        except Failure as failure:
            if "response_format" in body and "response_format" in str(failure.error):
                self.enforces = frozenset()  # from now on, only check answers
                raise Failure(failure.reason, failure.error, again=True, wait=0.0) from None
            raise

    async def _ask(self, ask: Ask, body: dict[str, Any], piece: Callable[[str], None]) -> Answer:
        create = self.client.completions.create
        if self.is_chat:
            create = self.client.chat.completions.create
        with translated(self._service, self.secrets):
            if not ask.stream:
                return Collected(await create(**body)).answer(ask.params)
            collected = Collected()
            stream = await create(stream=True, stream_options={"include_usage": True}, **body)
            async with stream:
                async for chunk in stream:
                    piece(collected.add(chunk))
            return collected.answer(ask.params)

    def _body(self, ask: Ask) -> dict[str, Any]:
        params = ask.params
        body: dict[str, Any] = {"model": self.model, "extra_body": self._extra or None}
        body |= {"messages": list(ask.messages)} if self.is_chat else {"prompt": ask.prompt}
        newer = self.is_chat and self._own
        body["max_completion_tokens" if newer else "max_tokens"] = params.max_new_tokens
        given: dict[str, tuple[Any, Any]] = {
            "temperature": (params.temperature, 1.0),
            "top_p": (params.top_p, 1.0),
            "n": (params.n, 1),
            "frequency_penalty": (params.frequency_penalty, 0.0),
            "presence_penalty": (params.presence_penalty, 0.0),
            "seed": (params.seed, None),
            "stop": (list(params.stop[:MOST_STOPS]), []),
            "logit_bias": (bias_of(params, LARGEST_BIAS), {}),
        }
        body |= {name: value for name, (value, default) in given.items() if value != default}
        if not self._own:
            body.setdefault("temperature", params.temperature)  # server defaults differ
        if params.return_logprob:
            top = params.top_logprobs_num
            body |= {"logprobs": True, "top_logprobs": top} if self.is_chat else {"logprobs": top}
        if params.json_schema is not None and "json_schema" in self.enforces:
            body["response_format"] = response_format(json.loads(params.json_schema))
        return body

    async def score(self, call: ScoreCall) -> Scored:
        try:
            scored = await self._score(call)
        except Failure as failure:
            if failure.again:
                raise
            scored = (), Tokens()
        self.scores = bool(scored[0])
        return scored

    async def _score(self, call: ScoreCall) -> Scored:
        with translated(self._service, self.secrets):
            answer = await self._echoed([call.prompt + choice for choice in call.choices])
            tokens, echo = tokens_of(answer.usage), Echo.read(call, answer)
            if echo is None or not call.unconditional:
                return () if echo is None else echo.choices(), tokens
            answer = await self._echoed(echo.own_texts())
            return echo.choices(alone(call, echo, answer)), tokens + tokens_of(answer.usage)

    async def _echoed(self, texts: Sequence[str]) -> Any:
        """Request the log-probabilities of the tokens of `texts`."""
        return await self.client.completions.create(
            model=self.model,
            prompt=list(texts),
            echo=True,
            logprobs=0,
            max_tokens=1,
            temperature=0,
            extra_body=self._extra or None,
        )

    async def info(self) -> dict[str, Any]:
        return {"model": self.model, "base_url": place_of(self.client), "chat": self.is_chat}

    async def flush_cache(self) -> None:
        """Do nothing: the service manages its cache."""

    async def close(self) -> None:
        await self.client.close()


class OpenAI(ApiExecutor):
    """A model of OpenAI or of a compatible server.

    Args:
        model_name: Name of the model at the service.
        is_chat_model: Use `/chat/completions` instead of `/completions`. Default: by name.
        base_url: Address of the server. Default: OpenAI.
        is_azure: The server is Azure's.
        chat_template: Role format of `s.text()` and of completion prompts.
        api_key: Default: OPENAI_API_KEY of the environment.
        prices: Cost per million tokens of prompts and of answers.
        extra_body: Additional fields of every request.
        options: `Limits`; remaining options are passed to the `openai` client.
    """

    def __init__(
        self,
        model_name: str,
        is_chat_model: bool | None = None,
        chat_template: ChatTemplate | None = None,
        is_azure: bool = False,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        prices: tuple[float, float] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        limits, options = Limits.split(options)
        client = make_client(base_url, api_key, options, is_azure)
        chat = is_chat_model
        if chat is None:
            chat = model_name not in COMPLETION_MODELS
        own = is_azure or (base_url is None and client.base_url.host.endswith("openai.com"))
        template = chat_template or (ROLES_AS_TEXT if chat else PLAIN)
        endpoint = OpenAIEndpoint(client, model_name, chat, template, own, extra_body)
        listed = listed_price(model_name) if own else no_price
        super().__init__(endpoint, limits, fixed_price(prices, listed))


def bias_of(params: SamplingParams, most: float) -> dict[str, float]:
    """Return the logit bias with finite values: JSON has no infinity."""
    return {str(token): max(-most, min(most, bias)) for token, bias in params.logit_bias}


def response_format(schema: Any) -> dict[str, Any]:
    """Return a response format; strict only if the schema requires all properties, as demanded by
    OpenAI."""
    strict = _is_strict(schema)
    own = {"name": "answer", "schema": schema} | ({"strict": True} if strict else {})
    return {"type": "json_schema", "json_schema": own}


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    names = set(schema.get("properties", ()))
    closed = schema.get("additionalProperties") is False
    if schema.get("type") == "object" and not (closed and names == set(schema.get("required", ()))):
        return False
    return all(map(_is_strict, schema.values()))
