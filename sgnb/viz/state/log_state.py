"""All view states of a log, also computed at once from a recorded log. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...events import Record, RunStarted
from .comparison import Comparison
from .metrics import Metrics
from .run_state import RunState
from .tree import Trees, TreeState

__all__ = ["Comparison", "LogState", "Metrics", "RunState", "TreeState", "Trees"]


def with_edits(runs: Mapping[str, RunState], run: str) -> list[RunState]:
    """Return a run, the edits of the run, and the edits of edits."""
    shown = [runs[run]]
    for state in runs.values():
        if state.edit is not None and any(state.edit.edited == other.run for other in shown):
            shown.append(state)
    return shown


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
