"""All view states of a log, also computed at once from a recorded log. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import Record, RunStarted
from .comparison import Comparison
from .metrics import Metrics
from .run_state import RunState
from .tree import Trees, TreeState

__all__ = ["Comparison", "LogState", "Metrics", "RunState", "TreeState", "Trees"]


class LogState:
    """Tree, runs and latest comparison of a log."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.trees = Trees()
        self.runs: dict[str, RunState] = {}
        self.comparison = Comparison(self.runs)
        self.lost = 0
        for record in records:
            self.apply(record)

    @property
    def tree(self) -> TreeState:
        """Return the tree of the log's own engine."""
        return self.trees[0]

    def apply(self, record: Record) -> None:
        event = record.event
        if isinstance(event, RunStarted):
            self.runs[event.run] = RunState(event.run, self.trees)
        self.trees.apply(record)
        for run in self.runs.values():
            run.apply(record)
        self.comparison.apply(record)
