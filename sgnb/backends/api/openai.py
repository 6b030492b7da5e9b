"""OpenAI's chat and completion endpoints, and compatible servers, through the package openai."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...errors import OptionError, ServiceError, shown
from ...event_loops import LoopThread
from ...lang.chat import PLAIN, ChatTemplate
from ...lang.executor import ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from .api_executor import ApiExecutor
from .client_guard import guard_class
from .endpoint import (
    CHAT_IGNORED,
    CompletionRequest,
    CompletionResponse,
    ScoreResponse,
    Tokens,
    ignore,
    refuse,
)
from .limits import Limits
from .media_parts import checked_modalities
from .responses import Echo, StreamAssembly, assembled, tokens_of
from .tool_calls import REFUSALS, refuses_tools, tool_arguments
from .transport import Failure, Secrets, guarded_http_client, openai_package, translated
from .usage import fixed_price, listed_price, no_price

ROLES_AS_TEXT = ChatTemplate("as text", PLAIN.roles)
"""Role format in a program's text; the service applies its own chat template."""

COMPLETION_MODELS = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
MAX_STOPS = 4
MAX_BIAS = 100.0

MIN_SECRET = 8
"""Minimum number of characters of a secret in a header; "Bearer" and language names are shorter."""

_REFUSED = ("min_new_tokens", "stop_token_ids", "stop_regex", "ignore_eos", "thinking")


class OpenAIEndpoint:
    """An `Endpoint` through a client of the `openai` package."""

    continues = False
    samples = True
    media_tokens: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        client: Any,
        model: str,
        is_chat: bool,
        chat: ChatTemplate,
        is_official: bool,  # OpenAI's service: documented defaults and newer arguments
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.client, self.model, self.is_chat, self.chat = client, model, is_chat, chat
        self.enforces = frozenset({"json_schema"} if is_chat else ())
        self.declares_tools = self.native_tools = is_chat
        self._limits_calls = True  # until the service refuses `parallel_tool_calls`
        self._is_official, self._extra = is_official, dict(extra_body or {})
        self.secrets = secrets_of(client)
        self.scores = not is_chat  # until the service returns no log-probabilities
        self._service = f"the service of {model!r}"
        if not is_official:
            self._service += f" at {address_of(client)}"

    def check(self, params: SamplingParams, location: Location | None) -> None:
        hint = "omit the option, or send it as extra_body= of the backend"
        refuse(self._service, params, _REFUSED, hint)
        if params.return_logprob and params.logprob_start_len != -1:
            raise OptionError(
                f"{self._service} scores no prompts: logprob_start_len={params.logprob_start_len}",
                "leave it out",
            )
        if params.max_new_tokens == 0:
            raise OptionError(f"{self._service} cannot answer with 0 tokens", "ask for 1 or more")
        ignore(self._service, params, CHAT_IGNORED, location)

    async def complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse:
        body = self._body(request)
        try:
            return await self._complete(request, body, on_text)
        except Failure as failure:
            if not self._adapt(body, failure):
                raise
            is_transient = self.native_tools or not request.tools
            raise Failure(failure.reason, failure.error, is_transient, wait=0.0) from None

    def _adapt(self, body: dict[str, Any], failure: Failure) -> bool:
        """Omit the argument that a service refuses in later requests. Returns False if the message
        names no argument."""
        message = str(failure.error) if failure.reason in REFUSALS else ""
        if "response_format" in body and "response_format" in message:
            self.enforces = frozenset()  # from now on, only check responses
        elif "parallel_tool_calls" in body and "parallel_tool_calls" in message:
            self._limits_calls = False
        elif "tools" in body and not self._is_official and refuses_tools(failure):
            self.native_tools = False
        else:
            return False
        return True

    async def _complete(
        self, request: CompletionRequest, body: dict[str, Any], on_text: Callable[[str], None]
    ) -> CompletionResponse:
        create = self.client.completions.create
        if self.is_chat:
            create = self.client.chat.completions.create
        with translated(self._service, self.secrets):
            if not request.stream:
                return assembled(await create(**body), request.params)
            assembly = StreamAssembly()
            stream = await create(stream=True, stream_options={"include_usage": True}, **body)
            async with stream:
                async for chunk in stream:
                    on_text(assembly.add(chunk))
            return assembly.response(request.params)

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        params = request.params
        body: dict[str, Any] = {"model": self.model, "extra_body": self._extra or None}
        body |= {"messages": list(request.messages)} if self.is_chat else {"prompt": request.prompt}
        is_newer = self.is_chat and self._is_official
        body["max_completion_tokens" if is_newer else "max_tokens"] = params.max_new_tokens

        arguments: dict[str, tuple[Any, Any]] = {  # name -> value and OpenAI's default
            "temperature": (params.temperature, 1.0),
            "top_p": (params.top_p, 1.0),
            "n": (params.n, 1),
            "frequency_penalty": (params.frequency_penalty, 0.0),
            "presence_penalty": (params.presence_penalty, 0.0),
            "seed": (params.seed, None),
            "stop": (list(params.stop[:MAX_STOPS]), []),
            "logit_bias": (bias_of(params, MAX_BIAS), {}),
        }
        body |= {name: value for name, (value, default) in arguments.items() if value != default}
        if not self._is_official:
            body.setdefault("temperature", params.temperature)  # server defaults differ
        if params.return_logprob:
            top = params.top_logprobs_num
            body |= {"logprobs": True, "top_logprobs": top} if self.is_chat else {"logprobs": top}
        if params.json_schema is not None and "json_schema" in self.enforces:
            body["response_format"] = response_format(json.loads(params.json_schema))
        body |= tool_arguments(request)
        if not self._limits_calls:
            body.pop("parallel_tool_calls", None)
        return body

    async def score(self, call: ScoreCall) -> ScoreResponse:
        scores: ScoreResponse
        try:
            scores = await self._score(call)
        except Failure as failure:
            if failure.is_transient:
                raise
            scores = (), Tokens()
        self.scores = bool(scores[0])
        return scores

    async def _score(self, call: ScoreCall) -> ScoreResponse:
        with translated(self._service, self.secrets):
            response = await self._echoed([call.prompt + choice for choice in call.choices])
            tokens, echo = tokens_of(response.usage), Echo.read(call, response)
            if echo is None or not call.unconditional:
                return () if echo is None else echo.scores(), tokens
            response = await self._echoed(echo.scored_texts())
            logprobs = echo.unconditional_logprobs(response)
            return echo.scores(logprobs), tokens + tokens_of(response.usage)

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
        return {"model": self.model, "base_url": address_of(self.client), "chat": self.is_chat}

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
        modalities: Kinds of media that the model takes: "image", "audio", and "video", whose frames
            are sent as images. Default: none.
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
        modalities: Iterable[str] = (),
        **options: Any,
    ) -> None:
        supported = checked_modalities(modalities) or frozenset()
        limits, options = Limits.split(options)
        client = make_client(base_url, api_key, options, is_azure)
        is_chat = is_chat_model
        if is_chat is None:
            is_chat = model_name not in COMPLETION_MODELS
        if supported and not is_chat:
            message = f"modalities={shown(modalities)}: a completion model takes text only"
            raise OptionError(message, "leave it out, or use is_chat_model=True")
        is_openai = base_url is None and client.base_url.host.endswith("openai.com")
        is_official = is_azure or is_openai

        template = chat_template or (ROLES_AS_TEXT if is_chat else PLAIN)
        endpoint = OpenAIEndpoint(client, model_name, is_chat, template, is_official, extra_body)
        default_price = listed_price(model_name) if is_official else no_price
        super().__init__(endpoint, limits, fixed_price(prices, default_price), supported)


def bias_of(params: SamplingParams, limit: float) -> dict[str, float]:
    """Return the logit bias within plus and minus `limit`: JSON has no infinity."""
    return {str(token): max(-limit, min(limit, bias)) for token, bias in params.logit_bias}


def response_format(schema: Any) -> dict[str, Any]:
    """Return a response format; strict only if the schema requires all properties, as demanded by
    OpenAI."""
    named = {"name": "answer", "schema": schema}
    if _is_strict(schema):
        named["strict"] = True
    return {"type": "json_schema", "json_schema": named}


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


def make_client(
    base_url: str | None, api_key: str | None, options: dict[str, Any], is_azure: bool = False
) -> Any:
    """Return an async client without retries, timeout or redirects. Raises OptionError."""
    openai = openai_package()
    if base_url is not None and api_key is None and "OPENAI_API_KEY" not in os.environ:
        api_key = "none"  # the client requires a key, local servers do not
    client_type = openai.AsyncAzureOpenAI if is_azure else openai.AsyncOpenAI
    if base_url is not None:
        options = {"base_url": base_url, **options}
    try:
        http_client = options.get("http_client") or guarded_http_client()
        guard_class(type(http_client))
        options = {**options, "http_client": http_client}
        client = client_type(api_key=api_key, max_retries=0, timeout=None, **options)
    except Exception as error:  # invalid options, or proxies and certificates of the environment
        hint = "give api_key=, or set OPENAI_API_KEY; other options are those of openai.AsyncOpenAI"
        raise OptionError(f"the client cannot be created: {error}", hint) from None

    if client.base_url.scheme not in ("http", "https") or not client.base_url.host:
        message = f"base_url={address_of(client)!r} is not an address"
        raise OptionError(message, 'add the scheme: "http://localhost:8000/v1"')
    if not (client.api_key.isascii() and client.api_key.isprintable()):
        raise OptionError("the API key has invalid characters", "remove line breaks from the key")
    return client


def get_json(client: Any, path: str, seconds: float) -> Any:
    """Return the JSON at a path, and close the client.

    Args:
        client: From `make_client`.
        path: Path below the client's address.
        seconds: Timeout of the whole response.

    Raises:
        ServiceError: No JSON arrived in time.
    """
    service = f"the server at {address_of(client)}"

    async def get() -> Any:
        with translated(service, secrets_of(client)):
            async with asyncio.timeout(seconds):
                return await client.get(path, cast_to=object)

    loop = LoopThread("sgnb-api-get", client.close)
    try:
        return loop.run(get)
    except Failure as failure:
        message = failure.error.message
    finally:
        loop.close()
    raise ServiceError(message, "check that the server runs at this address")


def secrets_of(client: Any) -> Secrets:
    """Return the key of a client, and the words of its headers and address."""
    url, azure = client.base_url, getattr(client, "_azure_ad_token", None)
    texts = [client.api_key, azure, url.password, url.query.decode()]
    for value in map(str, (client._custom_headers | client._custom_query).values()):
        texts += [word for word in (value, *value.split()) if len(word) >= MIN_SECRET]
    return Secrets(text for text in texts if isinstance(text, str) and text != "none")


def address_of(client: Any) -> str:
    """Return the client's address without user, password or query."""
    url = client.base_url
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.host}{port}{url.path}".rstrip("/")
