"""Workers of a run on a fleet: a lane per worker, and the reason of each routing decision.

The live page implements the same reducer (`page/run_fleet.js`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import CallRetried, CallRouted, Record, WorkerLost
from ...sequences import common_length
from .metrics import duration
from .tree import Trees, TreeState

KEPT_ROUTES = 400
"""Maximum decisions per worker; later decisions are counted."""


@dataclass(frozen=True, slots=True)
class Route:
    """A decision at the time `t`, in seconds of the log's clock."""

    t: float
    event: CallRouted

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
class WorkerLane:
    """Calls of the run on a worker. `ended` is the reason of the worker's end, or ""."""

    worker: int
    engine: int
    calls: int = 0
    tokens: int = 0  # prompt
    cached: int = 0  # prompt tokens
    retried: int = 0  # calls that continued on other workers
    ended: str = ""
    routes: list[Route] = field(default_factory=list)

    def line(self) -> str:
        """Return the counts of the lane."""
        calls = f"{self.calls:,} call" + "s" * (self.calls != 1)
        parts = [f"{calls} · {self.cached:,} of {self.tokens:,} prompt tokens cached"]
        parts += [f"{self.retried:,} continued elsewhere"] if self.retried else []
        parts += [f"ended: {self.ended}"] if self.ended else []
        return f"worker {self.worker}: {' · '.join(parts)}"


class RunFleet:
    """Lanes of the workers with calls of a run, by number."""

    def __init__(self, run: str, trees: Trees) -> None:
        self.lanes: dict[int, WorkerLane] = {}
        self._run, self._trees = run, trees

    @property
    def engines(self) -> list[int]:
        """Numbers of the workers' engines."""
        return [lane.engine for lane in self.lanes.values()]

    def apply(self, record: Record) -> bool:
        """Apply a record. Returns whether the record belongs to the run."""
        event: Any = record.event
        if isinstance(event, WorkerLost):
            if event.worker in self.lanes:
                self.lanes[event.worker].ended = event.reason
            return False
        if not isinstance(event, CallRouted | CallRetried) or event.run != self._run:
            return False
        if isinstance(event, CallRetried):
            if event.worker in self.lanes:
                self.lanes[event.worker].retried += 1
            return True
        lane = self.lanes.setdefault(event.worker, WorkerLane(event.worker, event.engine))
        lane.calls += 1
        lane.tokens += event.tokens
        lane.cached += event.cached
        if len(lane.routes) < KEPT_ROUTES:
            lane.routes.append(Route(record.t, event))
        return True

    def worker_of(self, tree: TreeState) -> int | None:
        """Return the number of the worker with a tree, or None."""
        lanes = self.lanes.values()
        return next((lane.worker for lane in lanes if self._trees[lane.engine] is tree), None)

    def line(self) -> str:
        """Return a line per worker, or "" without a fleet."""
        return "\n".join(self.lanes[worker].line() for worker in sorted(self.lanes))

    def text(self) -> str:
        """Return the lanes with all kept decisions."""
        lines: list[str] = []
        for worker in sorted(self.lanes):
            lane = self.lanes[worker]
            lines += [lane.line(), *(f"  {route.t:.3f} s  {route.line()}" for route in lane.routes)]
            if lane.calls > len(lane.routes):
                lines.append(f"  and {lane.calls - len(lane.routes):,} more calls")
        return "\n".join(lines)

    def holders(self, trees: Trees, tokens: Sequence[int], namespace: str = "") -> dict[int, int]:
        """Return the number of leading `tokens` in the cache of each worker that has any."""
        lengths = {
            worker: cached_length(trees, lane.engine, tokens, namespace)
            for worker, lane in sorted(self.lanes.items())
        }
        return {worker: length for worker, length in lengths.items() if length}


def cached_length(trees: Trees, engine: int, tokens: Sequence[int], namespace: str) -> int:
    """Return the number of leading `tokens` in the tree of an engine."""
    tree, length = trees[engine], 0
    node = tree.root
    while length < len(tokens):
        child = node.children.get((namespace if node is tree.root else "", tokens[length]))
        if child is None:
            break
        node = tree.nodes[child]
        edge = tuple(node.tokens)
        common = common_length(edge, tuple(tokens[length : length + len(edge)]))
        length += common
        if common < len(edge):
            break
    return length
