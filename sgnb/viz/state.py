"""The states that views show, under one name, and all of them at once from a recorded log."""

from __future__ import annotations

from collections.abc import Iterable

from ..events import Record, RunStarted
from .compare import Comparison
from .run import Figures, RunState
from .tree import TreeState

__all__ = ["Comparison", "Figures", "LogState", "RunState", "TreeState"]


class LogState:
    """The tree and every run of a log, and its last comparison."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.tree = TreeState()
        self.runs: dict[str, RunState] = {}
        self.comparison = Comparison(self.runs)
        self.lost = 0
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        event = record.event
        if isinstance(event, RunStarted):
            self.runs[event.run] = RunState(event.run, self.tree.vocabulary)
        self.tree.apply(record)
        for run in self.runs.values():
            run.apply(record)
        self.comparison.apply(record)
