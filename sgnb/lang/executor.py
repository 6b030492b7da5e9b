"""Interface between programs and the backends that execute calls. Imports no engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol, cast

from ..errors import MediaError, OptionError, shown
from ..events import EventLog
from ..media import with_article
from ..sampling import SamplingParams
from ..segment import Kind, Segment
from .chat import ChatTemplate
from .chat.tools import Tool, ToolCall, ToolUse
from .location import Location, caller


@dataclass(slots=True, eq=False)
class LookaheadBuffer:
    """Buffer of a branch for text that a model wrote beyond the end of a call."""

    num_tokens: int  # token limit of a request, unless the limit of the call is larger
    unused: Any = None  # unused text after the last call, in the executor's own format


@dataclass(frozen=True, slots=True)
class Call:
    """Generation call of a branch."""

    prompt: str  # text of the branch so far
    params: SamplingParams
    run: str
    branch: str
    name: str
    stream: bool = False  # send a `Delta` for each new text
    location: Location | None = field(default=None, compare=False)  # the user's line
    # `prompt` split by tokenization; () if the whole prompt is raw text.
    segments: tuple[Segment, ...] = field(default=(), compare=False)
    # Number of leading segments inherited at the fork, which the parent and the sibling branches
    # share.
    forked: int = field(default=0, compare=False)
    # Lookahead buffer of the branch, shared by all calls of the branch; None: every call is sent.
    lookahead: LookaheadBuffer | None = field(default=None, compare=False)
    # For executors with `generates_calls`: tools declared by the program, and tools that the model
    # may or must call.
    tools: tuple[Tool, ...] = field(default=(), compare=False)
    tool_use: ToolUse | None = field(default=None, compare=False)
    # For executors with `continues_output`: first output tokens, after which generation continues.
    given_output: tuple[int, ...] = field(default=(), compare=False)

    @property
    def effective_params(self) -> SamplingParams:
        """Return `params`, without a leading blank after a prompt that ends with white space."""
        if self.params.leading_blank and (not self.prompt or self.prompt[-1].isspace()):
            return replace(self.params, leading_blank=False)
        return self.params


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a streamed call, for the first sample."""

    text: str
    meta: Callable[[], dict[str, Any]] = dict  # returns the meta information so far


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a generation call."""

    texts: tuple[str, ...] = ()  # a text per sample; after an error the partial texts
    # meta information per text in SGLang's format, see docs/LANGUAGE.md
    meta: tuple[dict[str, Any], ...] = ()
    error: Exception | None = None  # reason if the call failed or was aborted
    # Segments of the first text for the prompts of later calls; () if the tokens are unknown.
    segments: tuple[Segment, ...] = ()
    calls: tuple[ToolCall, ...] = ()  # validated calls, for a `Call` with `tool_use`
    recorded: bool = False  # result of an earlier run, see `Edit`


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """Scoring call: log-probabilities of each choice as a continuation of `prompt`."""

    prompt: str
    choices: tuple[str, ...]
    unconditional: bool  # score the choices without the prompt, too
    run: str
    branch: str
    name: str
    location: Location | None = field(default=None, compare=False)  # the user's line
    segments: tuple[Segment, ...] = field(default=(), compare=False)  # as in `Call`
    kind: Kind = field(default="raw", compare=False)  # kind of the choices' text
    lookahead: LookaheadBuffer | None = field(default=None, compare=False)  # as in `Call`


@dataclass(frozen=True, slots=True)
class OrderCall:
    """Search for the order of parts with the longest cached prefix."""

    segments: tuple[Segment, ...]  # before the parts
    parts: tuple[tuple[Segment, ...], ...]
    separator: Segment
    branch: str
    location: Location | None = field(default=None, compare=False)  # the user's line

    @property
    def all_segments(self) -> list[Segment]:
        """Segments of the text before the parts, and of the parts in the given order."""
        return [*self.segments, *chain.from_iterable(self.parts)]

    @property
    def head_key(self) -> int:
        """Hash of everything before the second part except the first part."""
        return hash((self.separator.text, *map(_identity, self.segments)))

    @property
    def part_keys(self) -> list[int]:
        """Hash of each part."""
        return [hash(tuple(map(_identity, part))) for part in self.parts]


def _identity(segment: Segment) -> tuple[Any, ...]:
    content = segment.text if segment.item is None else segment.item.digest
    return segment.kind, content, segment.tokens


@dataclass(frozen=True, slots=True)
class ChoiceScore:
    """Log-probabilities (natural logarithm) of the tokens of a choice."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    # log-probabilities without the prompt; None for the first token
    unconditional: tuple[float | None, ...] = ()
    texts: tuple[str, ...] = ()  # text of each token
    # likeliest tokens after the choice, as in SGLang
    next: tuple[tuple[float | None, int, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """Outcome of a scoring call, with an entry per choice. `error` as in `Result`."""

    choices: tuple[ChoiceScore, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    values: tuple[float, ...] = ()  # scores from the select's method, see `apply_method`
    # Index of the choice if the method or the model decides. Without log-probabilities from the
    # model, `choices` is empty.
    chosen: int | None = None
    recorded: bool = False  # as in `Result`


class Room(NamedTuple):
    """Limits of an executor, in tokens."""

    context: int  # context length of a request
    # shortest prefix that waiting requests share; shorter prefixes may be computed several times
    shared: int


class Executor(Protocol):
    """Backend of programs.

    `generate` and `score` return immediately with a function that cancels the call. `sink` receives
    any number of `Delta`, then exactly one `Result` or `Scores`, on a thread of the executor. The
    sink must not block. A cancelled call also ends with a `Result` or `Scores`, with `Aborted` as
    the error.

    Optional methods: `order` and `find_order` (see `core.part_orders`). Optional attributes:
    `model_name` (see `model_name`), `stand_in` (see `instead_of`), `room` (see `room_of`),
    `generates_calls`, `declares_tools`, `continues_output` and `modalities` (see the functions),
    and `token_stepper` for stops after tokens (see `engine.loop.token_gate`).
    """

    chat: ChatTemplate
    log: EventLog
    special_tokens: re.Pattern[str] | None  # matches special tokens in raw text

    def generate(
        self, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]: ...

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]: ...

    @property
    def tokenizer_id(self) -> str: ...  # equal if token ids have the same meaning

    def encode(self, segments: Sequence[Segment]) -> list[int]: ...

    def flush_cache(self) -> int: ...  # number of freed tokens

    def server_info(self) -> dict[str, Any]: ...


def model_name(executor: Executor) -> str:
    """Return the last path component of the executor's `model_name`; the class name without one."""
    name = getattr(executor, "model_name", "") or type(executor).__name__
    return str(name).rstrip("/").rpartition("/")[2]


def instead_of(executor: Executor, backend: Executor) -> Executor:
    """Return the executor that answers calls to `backend` in a run on `executor`: a stand-in during
    a dry run, otherwise `backend`."""
    stand_in: Callable[[Executor], Executor] | None = getattr(executor, "stand_in", None)
    return backend if stand_in is None else stand_in(backend)


def generates_calls(executor: Executor) -> bool:
    """Return whether the executor generates and validates tool calls (`Call.tool_use`). Other
    executors generate the text of a call in steps, see `ToolUse.write`."""
    return bool(getattr(executor, "generates_calls", False))


def declares_tools(executor: Executor) -> bool:
    """Return whether the executor describes the tools (`Call.tools`) to the model, without a
    description in the program's text."""
    return bool(getattr(executor, "declares_tools", False))


def continues_output(executor: Executor) -> bool:
    """Return whether the executor continues the output of an edited call (`Call.given_output`)."""
    return bool(getattr(executor, "continues_output", False))


def modalities(executor: Executor) -> frozenset[str]:
    """Return the kinds of media ("image", "video", "audio") that the executor's model takes."""
    return getattr(executor, "modalities", frozenset())


def check_modalities(executor: Executor, kinds: Iterable[str], what: str) -> None:
    """Raise MediaError, with the user's line, if the executor's model does not take all `kinds`.

    Args:
        executor: The executor of a call.
        kinds: The kinds of media in the prompt.
        what: Description of the prompt, such as "the prompt of gen 'answer'".
    """
    names = {"image": "images", "video": "videos", "audio": "sounds"}
    supported = modalities(executor)
    for kind in sorted(set(kinds) - supported):
        takes = " and ".join(["text", *(names[name] for name in sorted(supported))])
        only = "" if supported else " only"
        raise MediaError(
            f"{caller()}: {what} contains {with_article(kind)}, and {model_name(executor)!r} takes"
            f" {takes}{only}",
            f"use a model that takes {names[kind]}; for a service: modalities=({kind!r},)",
        )


def is_own(executor: Executor, backend: Executor) -> bool:
    """Return whether calls to `backend` in a run on `executor` go to the run's own model."""
    return backend.log is executor.log or instead_of(executor, backend) is executor


def room_of(executor: Executor) -> Room | None:
    """Return the capacity of an executor, or None if the executor does not report a capacity."""
    return getattr(executor, "room", None)


_adapter: Callable[[Any], Executor] | None = None


def register_engine_adapter(adapter: Callable[[Any], Executor]) -> None:
    """Let `executor_of` accept engines. `adapter` returns the executor of an engine."""
    global _adapter
    _adapter = adapter


_fallback: Callable[[Sequence[Executor]], Executor] | None = None


def register_fallback(fallback: Callable[[Sequence[Executor]], Executor]) -> None:
    """Let `executor_of` accept lists. `fallback` returns the executor of a list of executors."""
    global _fallback
    _fallback = fallback


def executor_of(backend: Any) -> Executor:
    """Return the executor of a backend: an executor itself, the executor of an engine, or the
    executor of a list of backends.

    Raises:
        OptionError: `backend` cannot run programs.
    """
    if isinstance(backend, list | tuple):
        assert _fallback is not None  # registered by the package
        if any(isinstance(member, list | tuple) for member in backend):
            raise OptionError("a list of backends contains a list", "give a flat list of backends")
        return _fallback([executor_of(member) for member in backend])
    if _has(backend, "score", "generate"):
        return cast(Executor, backend)
    if _has(backend, "submit", "encode"):
        if _adapter is None:
            message = f"{shown(backend)} has no executor yet"
            raise OptionError(message, "import sgnb.backends, or load the model by sgnb.Engine")
        return _adapter(backend)
    hint = "give an Engine, or an executor"
    raise OptionError(f"{shown(backend)} cannot run programs", hint)


def _has(backend: Any, *names: str) -> bool:
    """Return whether the attributes exist, also for a class whose `__getattr__` raises."""
    try:
        return all(hasattr(backend, name) for name in names)
    except Exception:
        return False
