"""A program that runs a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..errors import TraceError
from .code import GraphCode
from .core.state import ProgramState
from .graph.graph import Graph
from .graph.inline import inline
from .graph.prefix import cache_prefix
from .graph.replay import Plan
from .graph.tracer import TracingState
from .runnable import Runnable
from .words.config import executor_for


class CompiledProgram(Runnable):
    """A program that runs a graph: as `SglFunction`, without the code that was traced.

        compiled = program.compile()
        compiled.run(question="...")["answer"]

    Of a graph that was stopped it runs the `original` program, and the programs that this one calls
    as graphs where they have one.
    """

    def __init__(self, graph: Graph, original: Runnable | None = None) -> None:
        called = graph.called
        own = called.run
        assert own is not None
        if graph.stopped and original is None:
            raise TraceError(f"{graph!r} is not the whole program", graph.stopped)
        interpreted = original if graph.stopped else None
        func = _code_of(graph) if interpreted is None else _with_graphs_inside(interpreted.func)
        bound = {} if interpreted is None else interpreted.bound
        code = GraphCode(func, own.source, graph.print_graph_dfs(), own.location)
        super().__init__(func, bound, own.marks, own.keep_tokens, own.num_api_spec_tokens, code)
        self.graph = graph

    def cache(self, backend: Any = None) -> int:
        """Compute what every run begins with, on `backend`; see `SglFunction.cache`."""
        return cache_prefix(self.graph, executor_for(backend))

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
