"""Compiled programs: execution of a graph instead of a program's code."""

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
    """A program that runs a graph.

    For a partial graph, `original` is interpreted, and called programs run as graphs if possible.

    Args:
        graph: The graph, for example from `Graph.from_json`.
        original: The traced program; required for a partial graph.

    Raises:
        TraceError: The graph is partial, and `original` is missing.

    Example:
        compiled = program.compile()
        compiled.run(question="...")["answer"]
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
        """Prefill the constant prefix on `backend`; see `SglFunction.cache`.

        Returns:
            The number of tokens in the prefix.
        """
        return cache_prefix(self.graph, executor_for(backend))

    def bounds(self, *args: Any, backend: Any = None, **kwargs: Any) -> Bound:
        """Return upper bounds of a run, without sending a request.

        Args:
            *args: Arguments of `run`.
            backend: As in `run`.
            **kwargs: Arguments and sampling defaults of `run`.

        Raises:
            ProgramError: The calls are not known before the run, because the program is
                interpreted or has tools.
        """
        arguments, defaults = self._split(args, kwargs)
        return Planner(self.graph, executor_for(backend)).bound(arguments.arguments, defaults)

    def explain(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """Estimate the cost of each call of a run, without sending a request.

        Args:
            *args: Arguments of `run`.
            backend: As in `run`.
            **kwargs: Arguments and sampling defaults of `run`.

        Returns:
            Prompt tokens, cache hits, new and forced tokens, passes, slots and the critical path.
            `after(state)` adds the measurements of a run.
        """
        arguments, defaults = self._split(args, kwargs)
        return explain_graph(self.graph, executor_for(backend), arguments.arguments, defaults)

    def _arranged(self, rows: list[BoundArguments]) -> list[int]:
        """Return an order with equal beginnings next to each other, for prefix reuse in a small
        cache. Compares the arguments in the order of the graph's texts."""
        names = self.graph.arguments_in_texts
        prefix_numbers: dict[tuple[str, ...], int] = {}  # in order of first appearance
        keys = []
        for row in rows:
            values = [str(row.arguments.get(name, "")) for name in names]
            prefixes = (tuple(values[: i + 1]) for i in range(len(values)))
            keys.append([prefix_numbers.setdefault(p, len(prefix_numbers)) for p in prefixes])
        return sorted(range(len(rows)), key=keys.__getitem__)

    def _work(self, state: ProgramState, arguments: BoundArguments) -> None:
        program = state.program
        # A program run by a select's method uses the reservation of the outer program.
        executor = None if program.reservation_ref else admitting(program.executor)
        planner = None if executor is None else self._planner(executor)
        if executor is not None and planner is not None:
            reservation = planner.reserve(arguments.arguments, program.run)
            if reservation is not None:
                program.attach(ReservationRef(reservation, executor.release))
        super()._work(state, arguments)

    def _planner(self, executor: Executor) -> Planner | None:
        """Return the planner for `executor`; None if the calls are not known before the run."""
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
"""True if called programs run as graphs if possible."""


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
    """Return a function that replays the graph."""
    plan, names = Plan(graph), list(graph.signature.parameters)[1:]

    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        values = dict(zip(names, args, strict=False)) | kwargs
        if isinstance(s, TracingState):
            return inline(plan, s, values)
        return plan.run(s, values, executor_for)

    code.__name__ = code.__qualname__ = graph.title
    code.__signature__ = graph.signature  # type: ignore[attr-defined]
    return code
