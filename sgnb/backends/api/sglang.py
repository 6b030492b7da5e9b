"""An SGLang server through its native protocol: `/generate` continues and scores text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ...errors import OptionError, RequestError, ServiceError, SgnbWarning, printable, shown
from ...lang.chat import PLAIN, ChatTemplate, from_render
from ...lang.executor import ChoiceScore, ScoreCall
from ...lang.location import Location
from ...sampling import SamplingParams
from ...sequences import common_length
from .api_executor import ApiExecutor
from .endpoint import (
    ENGINE_ONLY,
    CompletionRequest,
    CompletionResponse,
    Sample,
    ScoreResponse,
    Tokens,
    ignore,
    refuse,
)
from .limits import Limits
from .media_parts import checked_modalities, media_data, text_prompt
from .openai import OpenAIEndpoint, bias_of, get_json, make_client, secrets_of
from .responses import TokenLogprob, count_of, name_of, score_of, text_of, token_logprob_of
from .transport import IncompleteResponse, guarded_http_client, openai_package, translated
from .usage import fixed_price, no_price

_SAMPLING_NAMES = (
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
_LOGPROB_NAMES = (
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)
_CHAT_NAMES = (
    "stop_token_ids",
    "stop_regex",
    "top_k",
    "min_p",
    "repetition_penalty",
    "ignore_eos",
)
"""Sampling parameters that the server's `/v1/chat/completions` takes beyond OpenAI's."""

_DEFAULT = SamplingParams()
CONNECT_SECONDS = 30.0
MAX_BIAS = 1e6
MAX_RETOKENIZED = 4
"""Maximum number of prompt tokens whose tokenization may change with an appended choice."""

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


class _ChatEndpoint(OpenAIEndpoint):
    """The server's `/v1/chat/completions`, for tool calls in OpenAI's format."""

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        body = super()._body(request)
        values = {name: getattr(request.params, name) for name in _CHAT_NAMES}
        values["min_tokens"] = request.params.min_new_tokens
        defaults = {name: getattr(_DEFAULT, name, 0) for name in values}
        further = {name: value for name, value in values.items() if value != defaults[name]}
        body["extra_body"] = {**(body["extra_body"] or {}), **further} or None
        return body


class SGLangEndpoint:
    """An `Endpoint` that uses the HTTP transport of an `openai` client."""

    is_chat = continues = samples = False
    scores = declares_tools = True
    enforces = frozenset({"regex", "json_schema", "ebnf"})

    def __init__(
        self,
        client: Any,
        model: str,
        chat: ChatTemplate,
        media_tokens: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.client, self.model, self.chat = client, model, chat
        self.media_tokens = media_tokens
        self.secrets = secrets_of(client)
        self._service = f"the SGLang server of {model!r}"
        chat_client = client.with_options(base_url=str(client.base_url).rstrip("/") + "/v1")
        self._chat = _ChatEndpoint(chat_client, model, True, chat, is_official=False)

    @property
    def native_tools(self) -> bool:
        return self._chat.native_tools

    def check(self, params: SamplingParams, location: Location | None) -> None:
        hint = "omit the option, or use a local engine"
        refuse(self._service, params, ("thinking", "json_whitespace", "json_strict"), hint)
        ignore(self._service, params, ENGINE_ONLY, location)

    async def complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse:
        if request.tools:
            return await self._chat.complete(request, on_text)
        body = {"text": request.prompt, **_parameters(request.params), **media_data(request.media)}
        with translated(self._service, self.secrets):
            if not request.stream:
                return _response_of(await self._post("/generate", body))
            return await self._streamed(body, on_text)

    async def _streamed(
        self, body: dict[str, Any], on_text: Callable[[str], None]
    ) -> CompletionResponse:
        """Stream a response; each chunk holds the whole text so far."""
        chunk: Any = {"text": "", "meta_info": {}}
        stream = await self.client.post(
            "/generate",
            body=body | {"stream": True},
            cast_to=object,
            stream=True,
            stream_cls=openai_package().AsyncStream[object],
        )
        async with stream:
            async for later in stream:
                on_text(text_of(later["text"])[len(chunk["text"]) :])
                chunk = later
        return _response_of(chunk)

    async def score(self, call: ScoreCall) -> ScoreResponse:
        prompt = text_prompt(call, self.media_tokens)
        texts = [prompt.text, *[prompt.text + choice for choice in call.choices]]
        prompts: dict[str, Any] = {"text": texts}
        for name, values in media_data(prompt.items).items():
            prompts[name] = [values] * len(texts)

        with translated(self._service, self.secrets):
            shared = {name: values[:1] for name, values in prompts.items()}
            [prefix] = await self._scored(**shared)  # prefilled once for all choices
            start = max(0, count_of(prefix["prompt_tokens"]) - MAX_RETOKENIZED)
            metas = await self._scored(logprob_start_len=start, **prompts)
            if _first_difference(metas) == 0 and start > 0:
                metas = await self._scored(logprob_start_len=0, **prompts)
            first = _first_difference(metas)
            if first == 0:
                message = f"select {call.name!r} has no text before its choices"
                raise RequestError(message, "put some text before it")

            rows = [
                [token_logprob_of(row) for row in meta["input_token_logprobs"][first:]]
                for meta in metas[1:]
            ]
            unconditional: Sequence[Any] = [{}] * len(rows)
            if call.unconditional:
                ids = [[token for _, token, _ in row] for row in rows]
                unconditional = await self._scored(logprob_start_len=0, input_ids=ids)

            responses = [prefix, *metas, *(meta for meta in unconditional if meta)]
            tokens = sum(map(_tokens, responses), Tokens())
            parts = zip(rows, metas[1:], unconditional, strict=True)
            return tuple(_score(*part) for part in parts), tokens

    async def _scored(self, logprob_start_len: int = -1, **prompts: Any) -> list[dict[str, Any]]:
        """Return the meta information of prompts, with log-probabilities from a start position."""
        body: dict[str, Any] = {
            **prompts,
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
        }
        if logprob_start_len >= 0:
            body |= {"return_logprob": True, "logprob_start_len": logprob_start_len}
            body |= {"return_text_in_logprobs": True}
        return [response["meta_info"] for response in await self._post("/generate", body)]

    async def info(self) -> dict[str, Any]:
        with translated(self._service, self.secrets):
            info = await self.client.get("/server_info", cast_to=object)
            return {"model": self.model, **info}

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
        modalities: Kinds of media that the model takes, as for `OpenAI`. Default: according to the
            server.
        media_tokens: Text of an "image" and of an "audio" in the server's prompts. Default:
            according to the chat template.
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
        modalities: Iterable[str] | None = None,
        media_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        supported = checked_modalities(modalities)
        limits, options = Limits.split(options)
        if verify is not None and not Path(verify).exists():
            message = f"verify={shown(verify)} is not a file"
            raise OptionError(message, "give a file of certificates")
        certificates = {} if verify is None else {"verify": verify}
        if certificates:
            options["http_client"] = guarded_http_client(**certificates)
        client = make_client(base_url, api_key, options)
        del api_key, options  # a verbose traceback prints the variables of this frame
        http_client = guarded_http_client(**certificates)  # for another event loop
        probe = client.copy(http_client=http_client)
        info = get_json(probe, "/get_model_info", CONNECT_SECONDS)
        if not isinstance(info, dict) or not isinstance(info.get("model_path"), str):
            hint = "use a client for OpenAI's protocol: sgnb.OpenAI(model, base_url=...)"
            raise ServiceError("the server does not support SGLang's protocol", hint)
        info = secrets_of(client).clean(info)
        name = name_of(info["model_path"])

        template = chat_template or _template_of_hub_id(str(info.get("tokenizer_path") or name))
        if isinstance(template, str):
            template = _template_of(template)
        if isinstance(template, ChatTemplate):
            template = ServerTemplate(template, {})
        tokens = template.media_tokens if media_tokens is None else media_tokens
        endpoint = SGLangEndpoint(client, name, template.chat, tokens)
        supported = _modalities_of(info) if supported is None else supported
        super().__init__(endpoint, limits, fixed_price(prices, no_price), supported)


class ServerTemplate(NamedTuple):
    """The chat template of a server's model, and the text of an image and of a sound."""

    chat: ChatTemplate
    media_tokens: Mapping[str, str]


def _modalities_of(info: dict[str, Any]) -> frozenset[str]:
    """Return the kinds of media that a server declares."""
    sees = info.get("has_image_understanding") is True
    hears = info.get("has_audio_understanding") is True
    return frozenset(["image", "video"] * sees + ["audio"] * hears)


def _template_of_hub_id(name: str) -> ChatTemplate | ServerTemplate:
    """Return the chat template of a tokenizer by the hub id from a service. Folders stay closed:
    a response must not select files of this machine."""
    if _HUB_ID.fullmatch(name) and ".." not in name and not Path(name).exists():
        return _template_of(name)
    message = f"the service names the tokenizer {shown(name)}, which is not a hub id"
    hint = "plain role marks are used: give chat_template= its folder"
    warnings.warn(f"{message}; {hint}", SgnbWarning, stacklevel=3)
    return PLAIN


def _template_of(name: str) -> ChatTemplate | ServerTemplate:
    """Return the chat template of a tokenizer on this machine, by folder or hub id; warn and return
    plain roles if the template is missing."""
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            name, local_files_only=True, trust_remote_code=False
        )

        def render(messages: Any, tools: Any = None) -> str:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False))

        return ServerTemplate(from_render(name, render), read_media_tokens(render))
    except Exception as error:  # missing file, or a template error of any type
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        message = f"the chat template of {name} cannot be read here ({reason}); plain role marks"
        message = printable(f"{message} are used: give chat_template=")
        warnings.warn(message, SgnbWarning, stacklevel=3)
        return PLAIN


def read_media_tokens(render: Callable[[Any], str]) -> dict[str, str]:
    """Return the text that a chat template writes for an "image" and an "audio". A kind without
    text is absent."""
    tokens = {}
    for kind in ("image", "audio"):
        texts = [{"type": "text", "text": mark} for mark in "\x01\x02"]
        try:
            content = [texts[0], {"type": kind}, texts[1]]
            text = render([{"role": "user", "content": content}])
        except Exception:  # a Jinja template may raise anything for a list of parts
            continue
        token = text.partition("\x01")[2].partition("\x02")[0]
        if token.strip() and "\x02" in text:
            tokens[kind] = token
    return tokens


def _parameters(params: SamplingParams) -> dict[str, Any]:
    """Return the sampling parameters that differ from the server's defaults."""
    values = {name: getattr(params, name) for name in _SAMPLING_NAMES}
    values |= {"logit_bias": bias_of(params, MAX_BIAS) or None, "sampling_seed": params.seed}
    logprobs = {name: getattr(params, name) for name in _LOGPROB_NAMES if params.return_logprob}
    sampling_params = {name: value for name, value in values.items() if value not in (None, ())}
    return {"sampling_params": sampling_params, **logprobs}


def _response_of(data: Any) -> CompletionResponse:
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise ValueError(shown(data))
    meta = dict(data["meta_info"])
    if not meta.get("finish_reason"):
        raise IncompleteResponse
    finish = dict(meta["finish_reason"])
    kind = finish["type"] = name_of(finish["type"])
    if kind == "abort":
        kind = finish["message"] = name_of(str(finish.get("message")))

    tokens, response_id = _tokens(meta), name_of(str(meta.get("id", "")))
    counts = {f"{name}_tokens": value for name, value in asdict(tokens).items()}
    meta |= {name: value for name, value in counts.items() if name in meta}
    meta |= {"finish_reason": finish, "id": response_id}
    sample = Sample(text_of(data["text"]), kind, finish.get("matched"), meta)
    return CompletionResponse((sample,), tokens, response_id)


def _tokens(meta: dict[str, Any]) -> Tokens:
    counts = (count_of(meta.get(f"{kind}_tokens")) for kind in ("prompt", "cached", "completion"))
    return Tokens(*counts)


def _first_difference(metas: Sequence[dict[str, Any]]) -> int:
    """Return the first position at which a choice's token differs from the prompt's (the first
    entry)."""
    prompt, *texts = ([row[1] for row in meta["input_token_logprobs"]] for meta in metas)
    return min(common_length(prompt, text) for text in texts)


def _score(
    rows: Sequence[TokenLogprob], meta: dict[str, Any], alone: dict[str, Any]
) -> ChoiceScore:
    """Return the score of a choice. `alone`: meta information of the choice without the prompt."""
    values, tokens, texts = zip(*rows, strict=True)
    values = tuple(map(score_of, values))
    unconditional = (token_logprob_of(row)[0] for row in alone.get("input_token_logprobs", ()))
    following = tuple(map(token_logprob_of, meta.get("output_token_logprobs") or ()))
    return ChoiceScore(tokens, values, tuple(unconditional), texts, following)
