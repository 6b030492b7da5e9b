"""Interface between an executor and a service. Knows no service and no program.

An `Endpoint` sends one request per `complete`, without retries or waiting. A `Failure` tells the
executor if a retry may succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import OptionError, shown
from ...lang.chat import ChatTemplate
from ...lang.chat.tools import Tool
from ...lang.executor import ChoiceScore, ScoreCall
from ...lang.location import Location, warn_once
from ...media import MediaItem
from ...sampling import SamplingParams
from .transport import Secrets

Message = dict[str, Any]
"""A turn in OpenAI's format: "role" and "content", also "tool_calls" or "tool_call_id"."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The turns of a conversation, or the prompt of a completion."""

    params: SamplingParams
    prompt: str = ""
    # For chat endpoints. Ends with a user turn, or with an assistant turn to continue.
    messages: tuple[Message, ...] = ()
    media: tuple[MediaItem, ...] = ()  # items of `prompt`, in order; turns contain theirs
    stream: bool = False
    tools: tuple[Tool, ...] = ()  # sent in the service's own format
    tool_choice: str = "none"  # "auto", "required", "none", or the name of a tool
    parallel_tool_calls: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts from a service."""

    prompt: int = 0
    cached: int = 0  # prompt tokens from the service's cache
    completion: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return self + Tokens(-other.prompt, -other.cached, -other.completion)


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call of a response, not validated. `arguments`: JSON according to the service."""

    id: str  # "" if the service sent no id
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of a response."""

    text: str
    finish: str  # "stop", "length", or a service-specific reason such as "content_filter"
    matched: Any = None  # matched stop, if reported by the service
    meta: dict[str, Any] = field(default_factory=dict)  # further data in SGLang's format
    calls: tuple[RawCall, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionResponse:
    """The samples of a request and the token counts."""

    samples: tuple[Sample, ...]
    tokens: Tokens = Tokens()
    id: str = ""


ScoreResponse = tuple[tuple[ChoiceScore, ...], Tokens]
"""Scores of the choices and the token counts of the scoring requests."""


class Endpoint(Protocol):
    """A model of a service.

    `complete` sends a request and, with `CompletionRequest.stream`, passes each piece of the first
    text to `on_text`. `complete` and `score` raise `Failure`. Cancelling the task ends the request.
    """

    model: str
    secrets: Secrets
    chat: ChatTemplate  # role format in a program's text
    is_chat: bool  # requests are conversations instead of texts
    continues: bool  # continues an unfinished assistant turn
    scores: bool  # may return log-probabilities of prompts
    samples: bool  # supports several samples per request
    enforces: frozenset[str]  # enforced grammar kinds, such as "json_schema"
    media_tokens: Mapping[str, str]  # for text endpoints: text of an "image" and of an "audio"
    declares_tools: bool  # tools are described by requests instead of the program's text

    @property
    def native_tools(self) -> bool:
        """True if the service takes `CompletionRequest.tools`, until the service refuses tools."""

    def check(self, params: SamplingParams, location: Location | None) -> None:
        """Check `params`: raise OptionError for an unsupported argument, warn at `location` for a
        limited argument."""

    async def complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse: ...

    async def score(self, call: ScoreCall) -> ScoreResponse:
        """Score the choices of `call`. Returns no scores if the service cannot score prompts."""

    async def info(self) -> dict[str, Any]: ...

    async def flush_cache(self) -> None: ...

    async def close(self) -> None: ...


ENGINE_ONLY = ("recorded_alternatives", "approximate")
"""Parameters ignored by all services."""

CHAT_IGNORED = ("top_k", "min_p", "repetition_penalty", "json_whitespace", *ENGINE_ONLY)
"""Parameters ignored by services with OpenAI's interface."""

_DEFAULT = SamplingParams()


def refuse(service: str, params: SamplingParams, names: Sequence[str], hint: str) -> None:
    """Raise OptionError for the first parameter in `names` that is set."""
    for name in names:
        if (value := getattr(params, name)) != getattr(_DEFAULT, name):
            raise OptionError(f"{service} does not support {name}={shown(value)}", hint)


def ignore(
    service: str, params: SamplingParams, names: Sequence[str], location: Location | None
) -> None:
    """Warn at `location` for each parameter in `names` that is set."""
    for name in names:
        if (value := getattr(params, name)) != getattr(_DEFAULT, name) and location is not None:
            warn_once(
                f"{name}={shown(value)} has no effect: {service} does not support it", location
            )
