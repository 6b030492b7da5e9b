"""Static planning: reserve KV slots for the runs of a graph, if not all runs fit into the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import SgnbError
from ..reservation import Reservation
from ..sampling import SamplingParams
from .core.run import Run
from .executor import Executor, room_of
from .graph.dry_execution import DryExecution
from .graph.estimate import Bound, bound
from .graph.graph import Graph


class Planner:
    """Planner for the runs of a graph on an executor.

    Raises:
        SgnbError: The calls of the graph are not known before the run.
    """

    def __init__(self, graph: Graph, executor: Executor) -> None:
        self._graph, self._dry_execution = graph, DryExecution(graph, executor)
        self._room = room_of(executor)
        # Defaults of the last runs; length of arguments and private slots of the largest run
        self._largest = SamplingParams(), 0, 0

    def bound(self, arguments: Mapping[str, Any], defaults: Any, initial: Any = None) -> Bound:
        """Return the bound of a run; see `DryExecution.run` for the arguments."""
        return bound(self._graph, self._dry_execution.run(arguments, defaults, initial))

    def reserve(self, arguments: Mapping[str, Any], run: Run) -> Reservation | None:
        """Return a reservation for the next program of a run.

        Returns None if all programs fit, or if the program fails on these arguments. A run of a
        single program may be one of many concurrent runs.
        """
        if self._room is None:
            return None
        programs = run.total if run.total and run.total > 1 else self._room.requests
        concurrent = min(programs, self._room.requests)
        size = sum(len(str(value)) for value in arguments.values())
        defaults, length, slots = self._largest
        if run.initial is not None or run.defaults != defaults:
            length = slots = 0
        if size <= length and slots * concurrent <= self._room.slots:
            return None
        try:
            limit = self.bound(arguments, run.defaults, run.initial)
        except SgnbError:
            return None

        private = limit.slots - len(limit.prefix)
        if run.initial is None:
            self._largest = run.defaults, *max((length, slots), (size, private))
        if len(limit.prefix) + private * concurrent <= self._room.slots:
            return None
        return Reservation(limit.prefix, private, limit.new_tokens)
