"""Workers of a run on a fleet: a lane per worker, and the reason of each routing decision.

The live page implements the same reducer (`page/run_fleet.js`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import (
    CallRetried,
    CallRouted,
    FleetScaled,
    Record,
    RunStarted,
    WorkerJoined,
    WorkerLost,
)
from .lanes import Bar, Lanes
from .metrics import duration
from .tree import Trees, TreeState

KEPT_CHANGES = 20
"""Maximum changes of the number of workers."""

KEPT_ROUTES = 400
"""Maximum decisions per worker; later decisions are counted."""


@dataclass(slots=True)
class Route:
    """A decision at the time `t`, in seconds of the log's clock. `moved` is the time at which the
    worker was lost and the call returned to the router, or None."""

    t: float
    event: CallRouted
    moved: float | None = None

    def line(self) -> str:
        """Return the call, the worker and the reason."""
        event = self.event
        reason = (
            f"{event.cached:,} of {event.tokens:,} prompt tokens cached,"
            f" first token in {duration(event.wait + event.work)}"
        )
        if event.cached:
            reason += f"; {duration(event.elsewhere)} on the least busy worker"
        return f"{event.branch} {event.name}: worker {event.worker}, {reason}"


@dataclass(slots=True)
class Absence:
    """Time without an engine, in seconds of the log's clock. `ended` is None until the worker
    returns."""

    began: float
    reason: str
    ended: float | None = None

    def line(self) -> str:
        """Return the reason, and the time until the return."""
        back = "" if self.ended is None else f", back after {duration(self.ended - self.began)}"
        return f"ended: {self.reason}{back}"


@dataclass(slots=True)
class WorkerLane:
    """Calls of the run on a worker. `joined` is None for a worker from before the run."""

    worker: int
    engine: int
    joined: float | None = None
    calls: int = 0
    tokens: int = 0  # prompt
    cached: int = 0  # prompt tokens
    retried: int = 0  # calls that continued on other workers
    absences: list[Absence] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)

    def line(self) -> str:
        """Return the counts of the lane."""
        calls = f"{self.calls:,} call" + "s" * (self.calls != 1)
        parts = [f"{calls} · {self.cached:,} of {self.tokens:,} prompt tokens cached"]
        parts += [f"{self.retried:,} continued elsewhere"] if self.retried else []
        parts += [absence.line() for absence in self.absences[-1:]]
        return f"worker {self.worker}: {' · '.join(parts)}"


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """A call of a worker: the decision, and the requests at the worker's engine."""

    route: Route
    bars: tuple[Bar, ...]

    @property
    def began(self) -> float:
        """Arrival at the fleet."""
        return self.route.t - self.route.event.waited

    def end(self, now: float) -> float:
        """Return the end of the call on the worker; `now` for an open call, and the decision's time
        without a request."""
        ends = (now if bar.finished is None else bar.finished for bar in self.bars)
        return max(ends, default=self.route.t) if self.route.moved is None else self.route.moved


def rows_of(calls: Sequence[WorkerCall], now: float) -> list[int]:
    """Return a row for each call. Calls of a row do not overlap.

    Args:
        calls: Calls of a worker in the order of the decisions.
        now: End of open calls.
    """
    ends: list[float] = []
    rows = []
    for call in calls:
        free = (row for row, end in enumerate(ends) if end <= call.began)
        row = next(free, len(ends))
        ends[row : row + 1] = [call.end(now)]
        rows.append(row)
    return rows


class RunFleet:
    """Lanes of the workers of a run, by number. `used` are the lanes with calls."""

    def __init__(self, run: str, trees: Trees) -> None:
        self.lanes: dict[int, WorkerLane] = {}
        self.changes: list[str] = []  # of the number of workers, in words
        self._run, self._trees = run, trees

    @property
    def used(self) -> list[WorkerLane]:
        return [lane for _, lane in sorted(self.lanes.items()) if lane.calls]

    @property
    def engines(self) -> list[int]:
        """Numbers of the engines of the workers with calls."""
        return [lane.engine for lane in self.used]

    def apply(self, record: Record, status: str) -> bool:
        """Apply a record; `status` of the run. Returns whether the record belongs to the run."""
        event: Any = record.event
        if isinstance(event, RunStarted) and event.run == self._run:
            for joined in self._trees.workers.values():
                self._lane(joined.worker, joined.engine)
        elif isinstance(event, WorkerJoined):
            self._join(event, record.t)
        elif isinstance(event, WorkerLost) and event.worker in self.lanes:
            self.lanes[event.worker].absences.append(Absence(record.t, event.reason))
        elif isinstance(event, FleetScaled):
            is_open = status in ("waiting", "running")
            if is_open and len(self.changes) < KEPT_CHANGES:
                self.changes.append(f"worker {event.worker} {event.change}: {event.reason}")

        if not isinstance(event, CallRouted | CallRetried) or event.run != self._run:
            return False
        if isinstance(event, CallRetried):
            self._retry(event, record.t)
            return True

        lane = self._lane(event.worker, event.engine)
        lane.calls += 1
        lane.tokens += event.tokens
        lane.cached += event.cached
        if len(lane.routes) < KEPT_ROUTES:
            lane.routes.append(Route(record.t, event))
        return True

    def _lane(self, worker: int, engine: int) -> WorkerLane:
        lane = self.lanes.setdefault(worker, WorkerLane(worker, engine))
        lane.engine = engine
        return lane

    def _join(self, event: WorkerJoined, t: float) -> None:
        known = event.worker in self.lanes
        lane = self._lane(event.worker, event.engine)
        if not known:
            lane.joined = t
        elif lane.absences and lane.absences[-1].ended is None:
            lane.absences[-1].ended = t

    def _retry(self, event: CallRetried, t: float) -> None:
        lane = self.lanes.get(event.worker)
        if lane is None:
            return
        lane.retried += 1
        for route in reversed(lane.routes):
            if (route.event.branch, route.event.name) == (event.branch, event.name):
                route.moved = t
                return

    def calls(self, lanes: Lanes) -> dict[int, list[WorkerCall]]:
        """Return the calls of each worker with their requests. Calls of branches without a lane are
        left out.

        Args:
            lanes: Lanes of the branches of this run.
        """
        bars: dict[tuple[str, int], list[Bar]] = {}
        branches = set()
        for lane in lanes:
            branches.add(lane.branch)
            for bar in lane.bars:
                bars.setdefault((bar.branch, bar.engine), []).append(bar)

        found: dict[int, list[WorkerCall]] = {}
        for worker, own in sorted(self.lanes.items()):
            calls = found[worker] = []
            for route in reversed(own.routes):
                requests = bars.get((route.event.branch, route.event.engine), [])
                count = sum(bar.queued >= route.t for bar in requests)
                taken = tuple(requests[len(requests) - count :])
                del requests[len(requests) - count :]
                if route.event.branch in branches:
                    calls.append(WorkerCall(route, taken))
            calls.reverse()
        return found

    def worker_of(self, tree: TreeState) -> int | None:
        """Return the number of the worker with a tree, or None."""
        lanes = self.used
        return next((lane.worker for lane in lanes if self._trees[lane.engine] is tree), None)

    def line(self) -> str:
        """Return a line per worker and per change of their number, or "" without a fleet."""
        lanes = [lane.line() for lane in self.used]
        return "\n".join([*lanes, *(self.changes if lanes else [])])

    def text(self) -> str:
        """Return the lanes with all kept decisions."""
        lines: list[str] = list(self.changes)
        for lane in self.used:
            lines += [lane.line(), *(f"  {route.t:.3f} s  {route.line()}" for route in lane.routes)]
            if lane.calls > len(lane.routes):
                lines.append(f"  and {lane.calls - len(lane.routes):,} more calls")
        return "\n".join(lines)
