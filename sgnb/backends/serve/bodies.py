"""Bodies of requests as typed values, and the sampling parameters. Knows no engine and no HTTP."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ...errors import RequestError
from ...sampling import SamplingParams


class ImageUrl(msgspec.Struct):
    """Address of an image."""

    url: str
    detail: str = "auto"  # ignored


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A text of a turn."""

    text: str


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image of a turn."""

    image_url: ImageUrl


class FunctionCall(msgspec.Struct):
    """Name and arguments of a call; the arguments are a JSON object as text."""

    name: str
    arguments: str


class MessageCall(msgspec.Struct):
    """A call of a tool in an earlier answer."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"

    @property
    def name(self) -> str:
        return self.function.name


class ChatMessage(msgspec.Struct):
    """A turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart | ImagePart] | None = None
    name: str | None = None
    tool_calls: list[MessageCall] | None = None
    tool_call_id: str | None = None

    @property
    def parts(self) -> list[TextPart | ImagePart]:
        """The content. Raises RequestError for a turn without content and calls."""
        if self.content is None and not self.tool_calls:
            raise RequestError(f"a turn of the {self.role} has no content", "send content")
        return [TextPart(self.content)] if isinstance(self.content, str) else self.content or []


class Function(msgspec.Struct):
    """A tool of a client. The parameters are the JSON schema of an object; None: no parameters."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None  # ignored: calls always match the schema


class ToolBody(msgspec.Struct):
    """An entry of `tools`."""

    function: Function
    type: Literal["function"] = "function"


class ToolName(msgspec.Struct):
    """Name of a tool."""

    name: str


class NamedChoice(msgspec.Struct):
    """A `tool_choice` with the name of a tool."""

    function: ToolName
    type: Literal["function"] = "function"


class StreamOptions(msgspec.Struct):
    """OpenAI's `stream_options`."""

    include_usage: bool = False


class OpenAIBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Parameters of both OpenAI protocols, with SGLang's further parameters."""

    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    stop_regex: str | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: str | None = None
    response_format: dict[str, Any] | None = None
    user: str | None = None  # ignored
    metadata: dict[str, Any] | None = None  # ignored

    @property
    def num_logprobs(self) -> int | None:
        """Number of alternatives per token; None without log-probabilities."""
        raise NotImplementedError

    def sampling_params(self) -> SamplingParams:
        """Return the sampling parameters. Raises OptionError for invalid values."""
        names = (
            "n", "temperature", "top_p", "top_k", "min_p", "stop", "stop_token_ids", "stop_regex",
            "frequency_penalty", "presence_penalty", "repetition_penalty", "seed", "ignore_eos",
            "regex", "ebnf", "json_schema",
        )  # fmt: skip
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values |= {"max_new_tokens": self.max_new_tokens, "min_new_tokens": self.min_tokens}
        if self.logit_bias is not None:
            values["logit_bias"] = {_token(name): bias for name, bias in self.logit_bias.items()}
        if self.num_logprobs is not None:
            if self.stream:
                raise RequestError("a stream has no log-probabilities", "use stream=false")
            values |= {"return_logprob": True, "top_logprobs_num": self.num_logprobs}
            values["return_text_in_logprobs"] = True
        values |= _format_params(self.response_format)
        return SamplingParams.make({k: value for k, value in values.items() if value is not None})

    @property
    def max_new_tokens(self) -> int | None:
        return self.max_tokens


class CompletionBody(OpenAIBody, kw_only=True):
    """Body of `/v1/completions`."""

    prompt: str | list[Any]
    logprobs: int | None = None

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def max_new_tokens(self) -> int:
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or token ids."""
        is_one = isinstance(self.prompt, str) or isinstance(next(iter(self.prompt), None), int)
        prompts = [self.prompt] if is_one else self.prompt
        return msgspec.convert(prompts, list[str | list[int]])


class ChatBody(OpenAIBody, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    tools: list[ToolBody] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice = "auto"
    parallel_tool_calls: bool = True

    @property
    def num_logprobs(self) -> int | None:
        return self.top_logprobs if self.logprobs else None

    @property
    def max_new_tokens(self) -> int | None:
        limit = self.max_completion_tokens
        return self.max_tokens if limit is None else limit


class GenerateBody(msgspec.Struct, forbid_unknown_fields=True):
    """Body of SGLang's `/generate`."""

    text: str | list[str] | None = None
    input_ids: list[Any] | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict, name="sampling_params")
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int = -1
    top_logprobs_num: int = 0
    return_text_in_logprobs: bool = False

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts. Raises RequestError without a text or token ids, or with both."""
        if (self.text is None) == (self.input_ids is None):
            raise RequestError("the body needs text or input_ids", "give one of both")
        if self.text is not None:
            return [self.text] if isinstance(self.text, str) else list(self.text)
        ids: Any = self.input_ids
        return [msgspec.convert(each, list[int]) for each in (ids if self.is_list else [ids])]

    @property
    def is_list(self) -> bool:
        """Return whether the response is a list."""
        if self.text is not None:
            return not isinstance(self.text, str)
        return isinstance(next(iter(self.input_ids or ()), None), list)

    def sampling_params(self) -> SamplingParams:
        """Return the sampling parameters. Raises OptionError for invalid values."""
        values = dict(self.options)
        if "sampling_seed" in values:
            values["seed"] = values.pop("sampling_seed")
        if self.return_logprob:
            names = "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs"
            values |= {name: getattr(self, name) for name in names} | {"return_logprob": True}
        return SamplingParams.make(values)


def _token(name: str) -> int:
    if not name.isdecimal():
        raise RequestError(f"logit_bias names {name[:40]!r}, which is no token id", "use ids")
    return int(name)


def _format_params(value: dict[str, Any] | None) -> dict[str, Any]:
    """Return the grammar of OpenAI's `response_format`."""
    kind = None if value is None else value.get("type")
    if value is None or kind == "text":
        return {}
    if kind == "json_object":
        return {"json_schema": '{"type": "object"}', "json_strict": False}
    schema = value.get("json_schema")
    if kind == "json_schema" and isinstance(schema, dict) and "schema" in schema:
        return {"json_schema": schema["schema"]}
    message = f"response_format of type {str(kind)[:40]!r} is not supported"
    raise RequestError(message, "use text, json_object or json_schema")
