"""An SGLang server through its native protocol: `/generate` continues and scores text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from ...errors import OptionError, RequestError, ServiceError, shown
from ...lang.chat import ChatTemplate
from ...lang.executor import ChoiceScore, ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from .clients import get, make_client, package, secrets_of
from .endpoint import Answer, Ask, Sample, Scored, Tokens, refuse
from .executor import ApiExecutor
from .failures import HalfAnswer, translated
from .fields import count_of, name_of, score_of, text_of, triple_of
from .limits import Limits
from .openai import bias_of
from .template import template_named, template_of
from .usage import fixed_price, no_price

_TOLD = (
    "max_new_tokens",
    "min_new_tokens",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "ignore_eos",
    "skip_special_tokens",
    "regex",
    "json_schema",
    "ebnf",
)
_LOGPROBS = (
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)
FIRST_ANSWER_SECONDS = 30.0
LARGEST_BIAS = 1e6
HEALED = 4
"""Maximum number of prompt tokens whose tokenization may change with an appended choice."""

Row = tuple[float | None, int, str | None]


class SGLangEndpoint:
    """An `Endpoint` that uses the HTTP transport of an `openai` client."""

    is_chat = continues = samples = False
    scores = True
    enforces = frozenset({"regex", "json_schema", "ebnf"})

    def __init__(self, client: Any, model: str, chat: ChatTemplate) -> None:
        self.client, self.model, self.chat = client, model, chat
        self.secrets = secrets_of(client)
        self._service = f"the SGLang server of {model!r}"

    def check(self, params: SamplingParams, location: Location | None) -> None:
        hint = "a local engine takes it; leave it out for a server"
        refuse(self._service, params, ("thinking", "json_whitespace", "json_strict"), hint)

    async def ask(self, ask: Ask, piece: Callable[[str], None]) -> Answer:
        body = {"text": ask.prompt, **_said(ask.params)}
        with translated(self._service, self.secrets):
            if not ask.stream:
                return _answer(await self._post("/generate", body))
            return await self._streamed(body, piece)

    async def _streamed(self, body: dict[str, Any], piece: Callable[[str], None]) -> Answer:
        """Stream an answer; each chunk holds the whole text so far."""
        chunk: Any = {"text": "", "meta_info": {}}
        stream = await self.client.post(
            "/generate",
            body=body | {"stream": True},
            cast_to=object,
            stream=True,
            stream_cls=package().AsyncStream[object],
        )
        async with stream:
            async for later in stream:
                piece(text_of(later["text"])[len(chunk["text"]) :])
                chunk = later
        return _answer(chunk)

    async def score(self, call: ScoreCall) -> Scored:
        with translated(self._service, self.secrets):
            [prefix] = await self._scored(text=[call.prompt])  # prefilled once for all choices
            texts = [call.prompt, *[call.prompt + choice for choice in call.choices]]
            start = max(0, count_of(prefix["prompt_tokens"]) - HEALED)
            found = await self._scored(logprob_start_len=start, text=texts)
            if _first_own(found) == 0 and start > 0:
                found = await self._scored(logprob_start_len=0, text=texts)
            own = _first_own(found)
            if own == 0:
                message = f"select {call.name!r} has no text before its choices"
                raise RequestError(message, "put some text before it")
            rows = [list(map(triple_of, meta["input_token_logprobs"][own:])) for meta in found[1:]]
            alone: Sequence[Any] = [{}] * len(rows)
            if call.unconditional:
                ids = [[token for _, token, _ in row] for row in rows]
                alone = await self._scored(logprob_start_len=0, input_ids=ids)
            metas = [prefix, *found, *(meta for meta in alone if meta)]
            tokens = sum((_tokens(meta) for meta in metas), Tokens())
            scores = [_score(*each) for each in zip(rows, found[1:], alone, strict=True)]
            return tuple(scores), tokens

    async def _scored(self, logprob_start_len: int = -1, **prompts: Any) -> list[dict[str, Any]]:
        """Return the meta information of prompts, with log-probabilities from a start position."""
        body: dict[str, Any] = {
            **prompts,
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
        }
        if logprob_start_len >= 0:
            body |= {"return_logprob": True, "logprob_start_len": logprob_start_len}
            body |= {"return_text_in_logprobs": True}
        return [one["meta_info"] for one in await self._post("/generate", body)]

    async def info(self) -> dict[str, Any]:
        with translated(self._service, self.secrets):
            said = await self.client.get("/server_info", cast_to=object)
            return {"model": self.model, **said}

    async def flush_cache(self) -> None:
        with translated(self._service, self.secrets):
            await self._post("/flush_cache", {}, cast_to=str)

    async def close(self) -> None:
        await self.client.close()

    async def _post(self, path: str, body: dict[str, Any], cast_to: type = object) -> Any:
        return await self.client.post(path, body=body, cast_to=cast_to)


class RuntimeEndpoint(ApiExecutor):
    """A model on an SGLang server: `RuntimeEndpoint("http://localhost:30000")`.

    Args:
        base_url: Address of the server.
        api_key: Key of the server.
        chat_template: A template, or the folder or hub id of a tokenizer with a template. Default:
            the model's template, if its hub id is in the local cache.
        verify: File of certificates.
        prices: See `OpenAI`.
        options: See `OpenAI`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        verify: str | None = None,
        chat_template: ChatTemplate | str | None = None,
        *,
        prices: tuple[float, float] | None = None,
        **options: Any,
    ) -> None:
        limits, options = Limits.split(options)
        if verify is not None and not Path(verify).exists():
            raise OptionError(f"verify={shown(verify)} is no file", "give one of certificates")
        if verify is not None:
            options["http_client"] = _http_client(verify)
        client = make_client(base_url, api_key, options)
        del api_key, options  # a verbose traceback prints the variables of this frame
        probe = client.copy(http_client=_http_client(verify))  # for another event loop
        found = get(probe, "/get_model_info", FIRST_ANSWER_SECONDS)
        if not isinstance(found, dict) or not isinstance(found.get("model_path"), str):
            hint = "for a server that speaks OpenAI's: sgnb.OpenAI(model, base_url=...)"
            raise ServiceError("the server does not speak SGLang's protocol", hint)
        found = secrets_of(client).clean(found)
        name = name_of(found["model_path"])
        template = chat_template or template_named(str(found.get("tokenizer_path") or name))
        if isinstance(template, str):
            template = template_of(template)
        endpoint = SGLangEndpoint(client, name, template)
        super().__init__(endpoint, limits, fixed_price(prices, no_price))


def _http_client(verify: str | None) -> Any:
    """Return an HTTP client with a file of certificates, or with the usual certificates."""
    return package().DefaultAsyncHttpxClient(**({} if verify is None else {"verify": verify}))


def _said(params: SamplingParams) -> dict[str, Any]:
    """Return the sampling parameters that differ from the server's defaults."""
    told = {name: getattr(params, name) for name in _TOLD}
    told |= {"logit_bias": bias_of(params, LARGEST_BIAS) or None}
    told |= {"sampling_seed": params.seed}
    logprobs = {name: getattr(params, name) for name in _LOGPROBS if params.return_logprob}
    given = {name: value for name, value in told.items() if value not in (None, ())}
    return {"sampling_params": given, **logprobs}


def _answer(said: Any) -> Answer:
    if not isinstance(said, dict) or not isinstance(said.get("text"), str):
        raise ValueError(shown(said))
    meta = dict(said["meta_info"])
    if not meta.get("finish_reason"):
        raise HalfAnswer
    finish = dict(meta["finish_reason"])
    kind = finish["type"] = name_of(finish["type"])
    if kind == "abort":
        kind = finish["message"] = name_of(str(finish.get("message")))
    tokens, answer_id = _tokens(meta), name_of(str(meta.get("id", "")))
    counts = {f"{name}_tokens": value for name, value in asdict(tokens).items()}
    meta |= {name: value for name, value in counts.items() if name in meta}
    meta |= {"finish_reason": finish, "id": answer_id}
    sample = Sample(text_of(said["text"]), kind, finish.get("matched"), meta)
    return Answer((sample,), tokens, answer_id)


def _tokens(meta: dict[str, Any]) -> Tokens:
    counts = (count_of(meta.get(f"{kind}_tokens")) for kind in ("prompt", "cached", "completion"))
    return Tokens(*counts)


def _first_own(found: Sequence[dict[str, Any]]) -> int:
    """Return the first position at which a choice's token differs from the prompt's (the first
    entry)."""
    prompt, *texts = ([row[1] for row in meta["input_token_logprobs"]] for meta in found)
    return min(_agreeing(prompt, text) for text in texts)


def _agreeing(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length of the common token prefix."""
    same = (x == y for x, y in zip(a, b, strict=False))
    return sum(1 for _ in takewhile(bool, same))


def _score(rows: Sequence[Row], meta: dict[str, Any], alone: dict[str, Any]) -> ChoiceScore:
    values, tokens, texts = zip(*rows, strict=True)
    values = tuple(map(score_of, values))
    unconditional = (triple_of(row)[0] for row in alone.get("input_token_logprobs", ()))
    after = tuple(map(triple_of, meta.get("output_token_logprobs") or ()))
    return ChoiceScore(tokens, values, tuple(unconditional), texts, after)
