"""What a program needs from whoever executes it. Backends implement this; the language knows no
engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..events import EventLog
from ..sampling import SamplingParams
from .chat import ChatTemplate
from .location import Location


@dataclass(frozen=True, slots=True)
class Call:
    """One generation. `prompt` is all of the branch's text so far. With `stream`, text comes as it
    is made.

    location: the line of the program that asked for it.
    """

    prompt: str
    params: SamplingParams
    run: str
    branch: str
    name: str
    stream: bool = False
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a streamed call (its first sample)."""

    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a call: `texts` has n entries, `meta` one dict for each (tokens, finish reason,
    log-probabilities).

    `error` is set when the call failed or was aborted; `texts` then holds what there was.
    """

    texts: tuple[str, ...] = ()
    meta: tuple[dict[str, Any], ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """Score each choice as a continuation of `prompt`. `unconditional` asks for each choice's own
    likelihood too.

    location: the line of the program that asked for it.
    """

    prompt: str
    choices: tuple[str, ...]
    unconditional: bool
    run: str
    branch: str
    name: str
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """Natural log-probabilities of a choice's own tokens; `unconditional` without the prompt, its
    first entry None."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    unconditional: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """The end of a score call, one entry for each choice; `error` as in `Result`."""

    choices: tuple[ChoiceScore, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None


class Executor(Protocol):
    """Both calls return at once with a function that cancels the call. `sink` gets any `Delta`s and
    then exactly one `Result` or `Scores`, on a thread that is the executor's own; it must not
    block. A cancelled call still ends with one, whose error is `Aborted`."""

    chat: ChatTemplate
    log: EventLog

    def generate(
        self, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]: ...

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]: ...

    def flush_cache(self) -> None: ...

    def server_info(self) -> dict[str, Any]: ...
