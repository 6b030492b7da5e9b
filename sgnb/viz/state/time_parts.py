"""Wall time of a run by activity. A pure reducer, equal to the page's `page/time_parts.js`.

Every moment of a run belongs to the first current activity of `PARTS`. A step of the engine is
split between prefill and decode by tokens. The parts sum to the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...events import (
    BranchFinished,
    BranchPaused,
    BranchResumed,
    BranchStarted,
    GrammarReady,
    ModelAnswered,
    ModelAsked,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestRetracted,
    RequestWaits,
    RunFinished,
    RunStarted,
    StepRan,
    ToolCalled,
    ToolReturned,
)
from .metrics import duration
from .token_table import visible

PARTS = (
    "decode",
    "prefill",
    "grammar",
    "encoder",
    "waiting",
    "service",
    "tools",
    "paused",
    "Python",
)
"""Activities by priority: the first current activity counts.

"waiting" is a wait for other requests or memory, "service" a call without an engine here, and
"Python" all time without a request: the program's code, and tokenization.
"""

SHOWN_SHARE = 0.01
"""Smaller shares of the time are not in the sentence."""

_REASONS = {"grammar": "grammar", "mask": "grammar", "encoder": "encoder", "paused": "paused"}
_STARTS = (RunStarted, BranchStarted)
_CHANGES = {
    ToolCalled: ("tools", 1),
    ToolReturned: ("tools", -1),
    ModelAsked: ("service", 1),
    ModelAnswered: ("service", -1),
    BranchPaused: ("paused", 1),
    BranchResumed: ("paused", -1),
}
"""Event -> activity, and change of the number in progress."""


class TimeParts:
    """Seconds of a run, or of one branch with its forks, by activity.

    Attributes:
        began: Time of the first record, in seconds of the log's clock; None before the record.
        complete: The log has the beginning.
        ended: The log has the end.
        at: End of the counted time, in seconds of the log's clock.
        seconds: Seconds by activity.
        waited_for: Seconds of steps of other runs during waits, by run; "" for requests outside of
            programs.
    """

    def __init__(self, run: str, branch: str = "") -> None:
        self.began: float | None = None
        self.complete = self.ended = False
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.waited_for: dict[str, float] = {}
        self._run, self._branch = run, branch
        self.at = 0.0
        self._active = dict.fromkeys(PARTS, 0)  # requests, tools and calls in progress by activity
        self._requests: dict[tuple[int, int], _TimedRequest] = {}  # by engine and number
        self._runs: dict[tuple[int, int], str] = {}  # runs of other requests

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def line(self) -> str:
        """Return the time by activity as a sentence, largest part first; "" for no time."""
        total = self.total
        shown = [(name, s) for name, s in self.seconds.items() if s > SHOWN_SHARE * total]
        shown.sort(key=lambda part: -part[1])

        parts = ", ".join(f"{self._label(name)} {duration(s)}" for name, s in shown)
        return f"of {duration(total)}: {parts}" if parts else ""

    def _label(self, name: str) -> str:
        if name != "waiting" or not self.waited_for:
            return name

        longest = max(self.waited_for, key=lambda run: self.waited_for[run])
        return f"waiting for {visible(longest) or 'other requests'}"

    def advance(self, t: float) -> None:
        """Count the time until `t` for the activity in progress."""
        if self.began is None:
            self.began = self.at = t
        if t > self.at and not self.ended:
            self._count(self._activity, t)

    def apply(self, record: Record) -> bool:
        """Apply a record. Return True if the record belongs to the run and advanced the time."""
        handler = _HANDLERS.get(type(record.event))
        return handler is not None and handler(self, record.event, record)

    def _of_program(self, event: Any, record: Record) -> bool:
        if not self._is_own(event):
            return False
        kind, t = type(event), record.t
        if kind in _STARTS and not self.complete:
            self.began, self.at, self.complete = t, t, True

        self.advance(t)
        if kind is RunFinished or (kind is BranchFinished and event.branch == self._branch):
            self.ended = True

        if kind in _CHANGES:
            activity, change = _CHANGES[kind]
            self._active[activity] += change
        return True

    def _is_own(self, event: Any) -> bool:
        if event.run != self._run:
            return False
        if not self._branch or type(event) is RunFinished:
            return True
        branch = getattr(event, "branch", "")
        return bool(branch == self._branch or branch.startswith(f"{self._branch}."))

    @property
    def _activity(self) -> str:
        for name in PARTS:
            if self._active[name] > 0:
                return name
        return "Python"

    def _count(self, activity: str, until: float) -> None:
        self.seconds[activity] += until - self.at
        self.at = until

    def _queued(self, event: RequestQueued, record: Record) -> bool:
        key = record.engine, event.request
        if not self._is_own(event):
            self._runs[key] = event.run
            return False
        self.advance(record.t)
        self._requests[key] = _TimedRequest(len(event.prompt), False, "")
        self._move(key, "waiting" if len(event.prompt) else "service")
        return True

    def _moved(self, event: Any, record: Record) -> bool:
        """Apply an event of a request that may change the activity."""
        key = record.engine, event.request
        request = self._requests.get(key)
        if request is None:
            if type(event) is RequestFinished:
                self._runs.pop(key, None)
            return False

        activity = _MOVES[type(event)](request, event)
        if activity is None:
            return False

        self.advance(record.t)
        self._move(key, activity)
        return True

    def _move(self, key: tuple[int, int], activity: str) -> None:
        """Set the activity of a request; "" for the end of the request."""
        request = self._requests[key]
        if request.activity:
            self._active[request.activity] -= 1

        if activity:
            self._active[activity] += 1
        self._requests[key] = request._replace(activity=activity)
        if not activity:
            del self._requests[key]

    def _step(self, event: StepRan, record: Record) -> bool:
        if not self._requests or self.ended:
            return False
        prompt, output, resumed = 0, 0, []
        for number, start, length in event.extended:
            key = record.engine, number
            if (request := self._requests.get(key)) is not None:
                in_prompt = max(0, min(length, request.prompt - start))
                prompt += in_prompt
                output += length - in_prompt
                if request.activity not in ("prefill", "decode"):  # the mask has arrived
                    resumed.append((key, request.sampled))

        if not prompt + output:
            return self._waited(event, record)

        self.advance(max(self.at, record.t - event.seconds))
        for key, sampled in resumed:
            self._move(key, "decode" if sampled else "prefill")
        middle = self.at + (record.t - self.at) * prompt / (prompt + output)
        self._count("prefill", middle)
        self._count("decode", max(middle, record.t))

        for number, _, _ in event.sampled:
            key = record.engine, number
            if (request := self._requests.get(key)) is not None and not request.sampled:
                self._requests[key] = request._replace(sampled=True)
                self._move(key, "decode")
        return True

    def _waited(self, event: StepRan, record: Record) -> bool:
        """Count a step without requests of the run, if the run waits."""
        if self._activity != "waiting":
            return False

        waited = min(event.seconds, record.t - self.at)
        self.advance(record.t)

        keys = [(record.engine, number) for number, _, _ in event.extended]
        for run in dict.fromkeys(self._runs[key] for key in keys if key in self._runs):
            self.waited_for[run] = self.waited_for.get(run, 0.0) + waited
        return True


class _TimedRequest(NamedTuple):
    """An open request of the run."""

    prompt: int  # number of prompt tokens; 0 if the backend reports no tokens
    sampled: bool  # the request has a sampled token
    activity: str


_MOVES: dict[type, Callable[[_TimedRequest, Any], str | None]] = {
    RequestWaits: lambda request, event: _REASONS.get(event.reason, "waiting"),
    RequestAdmitted: lambda request, event: "decode" if request.sampled else "prefill",
    RequestRetracted: lambda request, event: "waiting",
    GrammarReady: lambda request, event: "waiting" if request.activity == "grammar" else None,
    RequestFinished: lambda request, event: "",
}
"""Event -> new activity of the request; None for no change."""

_HANDLERS: dict[type, Callable[[TimeParts, Any, Record], bool]] = {
    **dict.fromkeys((*_STARTS, BranchFinished, RunFinished, *_CHANGES), TimeParts._of_program),
    **dict.fromkeys(_MOVES, TimeParts._moved),
    RequestQueued: TimeParts._queued,
    StepRan: TimeParts._step,
}

TIMED_EVENTS = frozenset(_HANDLERS)
"""Kinds of events with an effect on `TimeParts`."""
