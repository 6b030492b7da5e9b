"""What a program needs from its executor. Backends implement this; the language knows no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..events import EventLog
from ..sampling import SamplingParams
from ..segment import Kind, Segment
from .chat import ChatTemplate
from .location import Location


@dataclass(frozen=True, slots=True)
class Call:
    """One generation."""

    prompt: str  # all of the branch's text so far
    params: SamplingParams
    run: str
    branch: str
    name: str
    stream: bool = False  # send `Delta`s
    location: Location | None = field(default=None, compare=False)  # the line that asked for it
    # `prompt`, told apart by how it becomes tokens; () where all of it is raw.
    segments: tuple[Segment, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a streamed call (its first sample)."""

    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a call."""

    texts: tuple[str, ...] = ()  # n of them; after an error what there was
    meta: tuple[dict[str, Any], ...] = ()  # for each text: tokens, finish reason, logprobs
    error: Exception | None = None  # the call failed or was aborted
    # The first text as the calls after it read it; () for a text whose tokens are not known.
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """Score each choice as a continuation of `prompt`."""

    prompt: str
    choices: tuple[str, ...]
    unconditional: bool  # also without the prompt
    run: str
    branch: str
    name: str
    location: Location | None = field(default=None, compare=False)  # the line that asked for it
    segments: tuple[Segment, ...] = field(default=(), compare=False)  # as in `Call`
    kind: Kind = field(default="raw", compare=False)  # of the choices' text


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """Log-probabilities (natural) of a choice's own tokens."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    unconditional: tuple[float | None, ...] = ()  # without the prompt; the first is None


@dataclass(frozen=True, slots=True)
class Scores:
    """The end of a score call, one entry for each choice; `error` as in `Result`."""

    choices: tuple[ChoiceScore, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    values: tuple[float, ...] = ()  # what the select's method made of the choices; see `Program`


class Executor(Protocol):
    """Both calls return at once with a function that cancels the call. `sink` gets any `Delta`s and
    then exactly one `Result` or `Scores`, on a thread that is the executor's own; it must not
    block. A cancelled call still ends with one, whose error is `Aborted`."""

    chat: ChatTemplate
    log: EventLog
    marks: re.Pattern[str] | None  # finds the special tokens that raw text would become

    def generate(
        self, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]: ...

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]: ...

    def encode(self, segments: Sequence[Segment]) -> list[int]: ...

    def flush_cache(self) -> None: ...

    def server_info(self) -> dict[str, Any]: ...
