"""What a program needs from its executor. Backends implement this; the language knows no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from ..errors import OptionError, shown
from ..events import EventLog
from ..reservation import Reservation
from ..sampling import SamplingParams
from ..segment import Kind, Segment
from .chat import ChatTemplate
from .location import Location


@dataclass(slots=True, eq=False)
class Ahead:
    """What a branch's next call may be answered from, without asking the model again."""

    num_tokens: int  # the limit of what a model writes at once, where a call's own is not larger
    kept: Any = None  # the executor's own: what the model wrote beyond its last call's text


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
    # Of the segments those that the branch began with: its parent and the other forks have them.
    forked: int = field(default=0, compare=False)
    reservation: Reservation | None = field(default=None, compare=False)  # of the program
    # The branch's own, the same in all its calls; None: each call is sent.
    ahead: Ahead | None = field(default=None, compare=False)

    @property
    def effective_params(self) -> SamplingParams:
        """Return `params`, without a leading blank after a prompt that ends with white space."""
        if self.params.leading_blank and (not self.prompt or self.prompt[-1].isspace()):
            return replace(self.params, leading_blank=False)
        return self.params


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a streamed call (its first sample)."""

    text: str
    meta: Callable[[], dict[str, Any]] = dict  # gives the meta information so far


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a call."""

    texts: tuple[str, ...] = ()  # n of them; after an error what there was
    meta: tuple[dict[str, Any], ...] = ()  # for each text, in SGLang's shapes: docs/LANGUAGE.md
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
    reservation: Reservation | None = field(default=None, compare=False)  # as in `Call`
    ahead: Ahead | None = field(default=None, compare=False)  # as in `Call`


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """Log-probabilities (natural) of a choice's own tokens."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    unconditional: tuple[float | None, ...] = ()  # without the prompt; the first is None
    texts: tuple[str, ...] = ()  # of the tokens
    next: tuple[tuple[float | None, int, str | None], ...] = ()  # likeliest next, as SGLang has it


@dataclass(frozen=True, slots=True)
class Scores:
    """The end of a score call, one entry for each choice; `error` as in `Result`."""

    choices: tuple[ChoiceScore, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    values: tuple[float, ...] = ()  # what the select's method made of the choices; see `Program`
    # The choice, where the method itself decides, or a model that gives no log-probabilities:
    # then there are no `choices`.
    chosen: int | None = None


class Room(NamedTuple):
    """What an executor has room for, in tokens."""

    slots: int  # of its KV cache
    context: int  # of one request
    requests: int  # that run at once
    shared: int  # a common beginning of fewer may be computed by several requests at once
    reserves: bool  # programs are admitted by what they reserve


class Executor(Protocol):
    """Both calls return at once with a function that cancels the call. `sink` gets any `Delta`s and
    then exactly one `Result` or `Scores`, on a thread that is the executor's own; it must not
    block. A cancelled call still ends with one, whose error is `Aborted`. There may be more: see
    `model_name` and `instead_of`."""

    chat: ChatTemplate
    log: EventLog
    special_tokens: re.Pattern[str] | None  # finds the special tokens that raw text would become

    def generate(
        self, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]: ...

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]: ...

    @property
    def tokenizer_id(self) -> str: ...  # the same for engines whose tokens mean the same

    def encode(self, segments: Sequence[Segment]) -> list[int]: ...

    def flush_cache(self) -> int: ...  # tokens freed

    def server_info(self) -> dict[str, Any]: ...


def model_name(executor: Executor) -> str:
    """That of an executor's model, as its `model_name` or else its class says."""
    name = getattr(executor, "model_name", "") or type(executor).__name__
    return str(name).rstrip("/").rpartition("/")[2]


def instead_of(executor: Executor, backend: Executor) -> Executor:
    """Who answers calls to `backend` in a run on `executor`: `backend`, unless nothing is asked."""
    stand_in: Callable[[Executor], Executor] | None = getattr(executor, "stand_in", None)
    return backend if stand_in is None else stand_in(backend)


def is_own(executor: Executor, backend: Executor) -> bool:
    """Whether calls to `backend` in a run on `executor` are calls to the run's own model."""
    return backend.log is executor.log or instead_of(executor, backend) is executor


class Admitting(Executor, Protocol):
    """An executor that admits programs by their reservations, where its `room` says so."""

    room: Room | None

    # Its program is over; made: the tokens that its generations wrote, None after an error.
    def release(self, reservation: Reservation, made: int | None) -> None: ...


def admitting(executor: Executor) -> Admitting | None:
    """The executor itself, if it admits programs by their reservations."""
    room = room_of(executor)
    return cast(Admitting, executor) if room is not None and room.reserves else None


def room_of(executor: Executor) -> Room | None:
    """Of an executor that knows what it has room for; None for another one."""
    return getattr(executor, "room", None)


def executor_of(backend: Any) -> Executor:
    """`backend`, or the executor of an engine. OptionError for what runs no programs."""
    if _has(backend, "score", "generate"):
        return cast(Executor, backend)
    if _has(backend, "submit", "encode"):
        # By name: the language knows no engine, and whoever has made one has imported it.
        found: Executor = import_module("sgnb.backends").executor_of(backend)
        return found
    hint = "give an Engine, or an executor"
    raise OptionError(f"{shown(backend)} cannot run programs", hint)


def _has(backend: Any, *names: str) -> bool:
    """Return whether the attributes exist, also for a class whose `__getattr__` raises."""
    try:
        return all(hasattr(backend, name) for name in names)
    except Exception:
        return False
