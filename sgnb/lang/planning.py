"""Reserves what the runs of a graph hold at most of an executor's KV cache, so that no more of them
run at once than fit there: static planning. Where all fit anyway, nothing is reserved."""

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
    """Of one graph on one executor. SgnbError for a graph of which nobody knows what it takes."""

    def __init__(self, graph: Graph, executor: Executor) -> None:
        self._graph, self._dry_execution = graph, DryExecution(graph, executor)
        self._room = room_of(executor)
        # Defaults of the last runs, and of those the largest: characters of its arguments, and the
        # slots that it takes beside its prefix.
        self._largest = SamplingParams(), 0, 0

    def bound(self, arguments: Mapping[str, Any], defaults: Any, held: Any = None) -> Bound:
        """What a run takes at most; arguments are those of `DryExecution.run`."""
        return bound(self._graph, self._dry_execution.run(arguments, defaults, held))

    def reserve(self, arguments: Mapping[str, Any], run: Run) -> Reservation | None:
        """For the next program of a run; None where it needs none, and where the program fails on
        these arguments: it will say so itself. A run of one program may be one of many."""
        if self._room is None:
            return None
        programs = run.total if run.total and run.total > 1 else self._room.requests
        at_once = min(programs, self._room.requests)
        size = sum(len(str(value)) for value in arguments.values())
        defaults, length, slots = self._largest
        if run.initial is not None or run.defaults != defaults:
            length = slots = 0
        if size <= length and slots * at_once <= self._room.slots:
            return None
        try:
            most = self.bound(arguments, run.defaults, run.initial)
        except SgnbError:
            return None
        own = most.slots - len(most.prefix)
        if run.initial is None:
            self._largest = run.defaults, *max((length, slots), (size, own))
        if len(most.prefix) + own * at_once <= self._room.slots:
            return None
        return Reservation(most.prefix, own, most.new_tokens)
