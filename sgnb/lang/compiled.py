"""A program that runs a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import SgnbError, TraceError
from .code import GraphCode
from .core.reservation_ref import ReservationRef
from .core.state import ProgramState
from .executor import Executor, admitting
from .graph.code_motion import cache_prefix
from .graph.estimate import Bound
from .graph.explanation import Explanation, explain_graph
from .graph.graph import Graph
from .graph.replay import Plan
from .graph.tracer import TracingState, inline
from .planning import Planner
from .primitives.config import executor_for
from .runnable import Runnable


class CompiledProgram(Runnable):
    """A program that runs a graph: as `SglFunction`, without the code that was traced.

        compiled = program.compile()
        compiled.run(question="...")["answer"]

    Of a graph that was stopped it runs the `original` program, and the programs that this one calls
    as graphs where they have one.
    """

    def __init__(self, graph: Graph, original: Runnable | None = None) -> None:
        if graph.stopped and original is None:
            raise TraceError(f"{graph!r} is not the whole program", graph.stopped)
        interpreted = original if graph.stopped else None
        func = _code_of(graph) if interpreted is None else _with_graphs_inside(interpreted.func)
        bound = {} if interpreted is None else interpreted.bound
        settings = graph.settings
        super().__init__(
            func,
            bound,
            special_tokens=settings.special_tokens,
            keep_tokens=settings.keep_tokens,
            num_api_spec_tokens=settings.num_api_spec_tokens,
            code=GraphCode(func, settings.source, graph.print_graph_dfs(), settings.location),
        )
        self.graph = graph
        self._planners: WeakKeyDictionary[Executor, Planner | None] = WeakKeyDictionary()

    def cache(self, backend: Any = None) -> int:
        """Compute what every run begins with, on `backend`; see `SglFunction.cache`."""
        return cache_prefix(self.graph, executor_for(backend))

    def bounds(self, *args: Any, backend: Any = None, **kwargs: Any) -> Bound:
        """What a run with these arguments takes at most, of the KV cache above all. Runs nothing;
        arguments are those of `run`, `backend` among them. ProgramError for a program that is
        interpreted, or calls tools: nobody knows what they will ask for."""
        arguments, defaults = self._split(args, kwargs)
        return Planner(self.graph, executor_for(backend)).bound(arguments.arguments, defaults)

    def explain(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """What a run with these arguments will take, call by call: prompt tokens, those that the
        cache has or will have by then, new and forced tokens, passes, slots of the cache, and the
        longest chain of calls. Runs nothing; arguments are those of `run`, `backend` among them.
        What a run took beside it: `.after(state)`."""
        arguments, defaults = self._split(args, kwargs)
        return explain_graph(self.graph, executor_for(backend), arguments.arguments, defaults)

    def _arranged(self, rows: list[BoundArguments]) -> list[int]:
        """Rows that begin alike next to one another: the arguments are compared in the order in
        which the graph's texts hold them. A small cache has what they share once, and in time."""
        names = self.graph.arguments_in_texts
        known: dict[tuple[str, ...], int] = {}  # beginnings, in the order in which they came up
        places = []
        for row in rows:
            values = [str(row.arguments.get(name, "")) for name in names]
            heads = (tuple(values[: i + 1]) for i in range(len(values)))
            places.append([known.setdefault(head, len(known)) for head in heads])
        return sorted(range(len(rows)), key=places.__getitem__)

    def _work(self, state: ProgramState, arguments: BoundArguments) -> None:
        program = state.program
        # Run by a select's method in a program that has reserved, it has that one's share.
        executor = None if program.reservation_ref else admitting(program.executor)
        planner = None if executor is None else self._planner(executor)
        if executor is not None and planner is not None:
            reservation = planner.reserve(arguments.arguments, program.run)
            if reservation is not None:
                program.attach(ReservationRef(reservation, executor.release))
        super()._work(state, arguments)

    def _planner(self, executor: Executor) -> Planner | None:
        """None where nobody knows what the graph takes."""
        if executor not in self._planners:
            try:
                self._planners[executor] = Planner(self.graph, executor)
            except SgnbError:
                self._planners[executor] = None
        return self._planners[executor]

    def print_graph(self) -> None:
        """Print the graph, a line for each node."""
        self.graph.print_graph()


graphs_inside: ContextVar[bool] = ContextVar("graphs_inside", default=False)
"""Whether programs that are called run as graphs, where they have one."""


def _with_graphs_inside(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        token = graphs_inside.set(True)
        try:
            return func(s, *args, **kwargs)
        finally:
            graphs_inside.reset(token)

    return code


def _code_of(graph: Graph) -> Callable[..., Any]:
    """A function that does what the graph's program did."""
    plan, names = Plan(graph), list(graph.signature.parameters)[1:]

    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        values = dict(zip(names, args, strict=False)) | kwargs
        if isinstance(s, TracingState):
            return inline(plan, s, values)
        return plan.run(s, values, executor_for)

    code.__name__ = code.__qualname__ = graph.title
    code.__signature__ = graph.signature  # type: ignore[attr-defined]
    return code
