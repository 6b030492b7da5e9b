"""Lanes of a run: calls, tools, pauses and Python time of each branch. A pure reducer, equal to the
page's `page/lanes.js`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...events import (
    BranchFinished,
    BranchPaused,
    BranchResumed,
    BranchStarted,
    Columns,
    Jumped,
    ModelAnswered,
    ModelAsked,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    StepRan,
    ToolCalled,
    ToolReturned,
)

KEPT_LANES = 400
"""Maximum lanes per run; later branches have none."""

Span = tuple[float, float]
"""Begin and end, in seconds of the log's clock."""


@dataclass(slots=True)
class Bar:
    """Phases of a request, in seconds of the log's clock; None for future phases."""

    branch: str
    name: str
    queued: float
    admitted: float | None = None
    first: float | None = None  # time of the first sampled token
    finished: float | None = None
    jumps: list[float] = field(default_factory=list)
    prompt: int = 0  # tokens
    computed: int = 0  # prompt tokens that were not cached
    namespace: str = ""
    engine: int = 0

    @property
    def prefill_seconds(self) -> float:
        """Time from the admission to the first sampled token; 0 before this token."""
        return 0.0 if self.admitted is None or self.first is None else self.first - self.admitted


@dataclass(slots=True)
class Activity:
    """A tool, a pause, or a call to a model without an engine; `ended` is None while open."""

    kind: str  # "tools", "paused" or "service", as in `TimeParts`
    name: str
    began: float
    ended: float | None = None


@dataclass(slots=True)
class Lane:
    """A branch over time. `began` is None if the log lacks the start of the branch."""

    branch: str
    parent: str = ""
    forked_at: int = 0  # characters of the parent's text at the fork
    began: float | None = None
    ended: float | None = None
    bars: list[Bar] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)

    @property
    def names(self) -> str:
        """Return the variables of the calls, each once."""
        return ", ".join(dict.fromkeys(bar.name for bar in self.bars if bar.name))


@dataclass(slots=True)
class LaneFork:
    """The branches of one fork. `joined` is the end of the last branch, or None while a branch
    runs or if the parent ended first."""

    parent: Lane
    branches: list[Lane]
    forked: float
    joined: float | None


class Lanes:
    """Lanes of run `run`. `hidden` is the number of branches without a lane."""

    def __init__(self, run: str) -> None:
        self.hidden = 0
        self._run = run
        self._lanes: dict[str, Lane] = {}
        self._open: dict[tuple[int, int], Bar] = {}  # open requests by engine and number
        # requests without a sampled token, by engine and number
        self._unsampled = defaultdict[int, dict[int, Bar]](dict)

    def __iter__(self) -> Iterator[Lane]:
        """Yield the lanes; forks follow the parent."""
        return iter(sorted(self._lanes.values(), key=lambda lane: in_order(lane.branch)))

    def apply(self, record: Record) -> None:
        handler = self._handlers.get(type(record.event))
        if handler is not None:
            handler(self, record.event, record)

    def python_spans(self, lane: Lane, now: float) -> list[Span]:
        """Return the times without a call, tool, pause or running fork.

        Args:
            lane: A lane of this run.
            now: End of an open branch, in seconds of the log's clock.
        """
        if lane.began is None:
            return []

        forks = [other for other in self._lanes.values() if other.parent == lane.branch]
        busy = [(bar.queued, bar.finished) for bar in lane.bars]
        busy += [(activity.began, activity.ended) for activity in lane.activities]
        busy += [(fork.began, fork.ended) for fork in forks if fork.began is not None]
        end = now if lane.ended is None else lane.ended
        return gaps(lane.began, end, ((a, end if b is None else b) for a, b in busy))

    def fork_groups(self) -> list[LaneFork]:
        """Return the forks of all branches."""
        groups: dict[tuple[str, int], list[Lane]] = {}
        for lane in self:
            if lane.parent in self._lanes and lane.began is not None:
                groups.setdefault((lane.parent, lane.forked_at), []).append(lane)

        return [_group(self._lanes[parent], branches) for (parent, _), branches in groups.items()]

    def _lane(self, event: Any) -> Lane | None:
        """Return the lane of an event, or None for another run or beyond `KEPT_LANES`."""
        if event.run != self._run:
            return None
        lane = self._lanes.get(event.branch)
        if lane is None and len(self._lanes) < KEPT_LANES:
            lane = self._lanes[event.branch] = Lane(event.branch)

        return lane

    def _branch_start(self, event: BranchStarted, record: Record) -> None:
        lane = self._lane(event)
        if lane is None:
            self.hidden += event.run == self._run
        else:
            lane.parent, lane.began, lane.forked_at = event.parent, record.t, len(event.text)

    def _branch_finish(self, event: BranchFinished, record: Record) -> None:
        lane = self._lanes.get(event.branch) if event.run == self._run else None
        if lane is not None:
            lane.ended = record.t

    def _begin(self, event: Any, record: Record) -> None:
        lane = self._lane(event)
        if lane is not None:
            kind, name = _BEGINS[type(event)]
            lane.activities.append(Activity(kind, name(event), record.t))

    def _end(self, event: Any, record: Record) -> None:
        lane, kind = self._lane(event), _ENDS[type(event)]
        for activity in reversed(lane.activities) if lane is not None else ():
            if activity.kind == kind and activity.ended is None:
                activity.ended = record.t
                return

    def _queued(self, event: RequestQueued, record: Record) -> None:
        lane = self._lane(event)
        if lane is not None:
            bar = Bar(event.branch, event.name, record.t)
            bar.prompt, bar.namespace = len(event.prompt), event.namespace
            bar.engine = record.engine
            lane.bars.append(bar)
            self._open[record.engine, event.request] = bar
            self._unsampled[record.engine][event.request] = bar

    def _admitted(self, event: RequestAdmitted, record: Record) -> None:
        bar = self._open.get((record.engine, event.request))
        if bar is not None and bar.admitted is None:
            bar.admitted, bar.computed = record.t, bar.prompt - event.cached

    def _stepped(self, event: StepRan, record: Record) -> None:
        bars = self._unsampled[record.engine]
        if not bars:
            return
        rows = event.sampled
        numbers = rows.column("request") if isinstance(rows, Columns) else [row[0] for row in rows]
        for number in bars.keys() & set(numbers):
            bars.pop(number).first = record.t

    def _jumped(self, event: Jumped, record: Record) -> None:
        bar = self._open.get((record.engine, event.request))
        if bar is not None:
            bar.jumps.append(record.t)

    def _finished(self, event: RequestFinished, record: Record) -> None:
        bar = self._open.get((record.engine, event.request))
        if bar is not None:
            bar.finished = record.t
            del self._open[record.engine, event.request]
            self._unsampled[record.engine].pop(event.request, None)

    _handlers: ClassVar[dict[type, Callable[[Any, Any, Record], None]]] = {
        BranchStarted: _branch_start,
        BranchFinished: _branch_finish,
        ToolCalled: _begin,
        ToolReturned: _end,
        ModelAsked: _begin,
        ModelAnswered: _end,
        BranchPaused: _begin,
        BranchResumed: _end,
        RequestQueued: _queued,
        RequestAdmitted: _admitted,
        StepRan: _stepped,
        Jumped: _jumped,
        RequestFinished: _finished,
    }


_BEGINS: dict[type, tuple[str, Callable[[Any], str]]] = {
    ToolCalled: ("tools", lambda event: event.name),
    ModelAsked: ("service", lambda event: event.name),
    BranchPaused: ("paused", lambda event: event.before),
}
_ENDS = {ToolReturned: "tools", ModelAnswered: "service", BranchResumed: "paused"}


def in_order(branch: str) -> list[str]:
    """Return a sort key for branch names: numeric order."""
    return [part.rjust(6, "0") for part in branch.split(".")]


def gaps(begin: float, end: float, busy: Iterable[Span]) -> list[Span]:
    """Return the parts of [begin, end] outside of the `busy` times."""
    free, at = [], begin
    for start, stop in sorted(span for span in busy if span[0] < span[1]):
        if start >= end:
            break

        if start > at:
            free.append((at, start))
        at = max(at, stop)
    if at < end:
        free.append((at, end))

    return free


def _group(parent: Lane, branches: list[Lane]) -> LaneFork:
    forked = min(lane.began for lane in branches if lane.began is not None)
    ends = [lane.ended for lane in branches if lane.ended is not None]
    joined = max(ends) if len(ends) == len(branches) else None
    if joined is not None and parent.ended is not None and parent.ended <= joined:
        joined = None

    return LaneFork(parent=parent, branches=branches, forked=forked, joined=joined)
