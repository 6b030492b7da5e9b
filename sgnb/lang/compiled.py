"""A program that runs a graph."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any

from ..errors import TraceError
from .code import GraphCode
from .core.state import ProgramState
from .graph.graph import Graph
from .graph.replay import Plan
from .graph.tracer import Tracer, TracingState
from .runnable import Runnable
from .words.config import executor_for


class CompiledProgram(Runnable):
    """A program that runs a graph: all that `Runnable` does, without the code that was traced.

        compiled = program.compile()
        compiled.run(question="...")["answer"]

    Of a graph that was stopped it runs the `original` program, which is also what becomes a part
    of another program's graph.
    """

    def __init__(self, graph: Graph, original: Runnable | None = None) -> None:
        called = graph.called
        own = called.run
        assert own is not None
        if graph.stopped and original is None:
            raise TraceError(f"{graph!r} is not the whole program", graph.stopped)
        interpreted = original if graph.stopped else None
        func = _code_of(graph) if interpreted is None else interpreted.func
        bound = {} if interpreted is None else interpreted.bound
        code = GraphCode(func, own.source, graph.print_graph_dfs(), own.location)
        super().__init__(func, bound, own.marks, own.keep_tokens, own.num_api_spec_tokens, code)
        self.graph, self.original = graph, original

    def print_graph(self) -> None:
        """Print the graph, a line for each node."""
        self.graph.print_graph()

    def _trace_call(self, tracer: Tracer, arguments: BoundArguments, *how: Any) -> ProgramState:
        if self.original is None:
            return super()._trace_call(tracer, arguments, *how)
        own = self.original._arguments((), arguments.arguments)
        return self.original._trace_call(tracer, own, *how)

    def _trace_inside(self, state: TracingState, arguments: BoundArguments) -> Any:
        if self.original is None:
            return super()._trace_inside(state, arguments)
        return self.original(state, **arguments.arguments)


def _code_of(graph: Graph) -> Callable[..., Any]:
    """A function that does what the graph's program did."""
    plan, names = Plan(graph), list(graph.signature.parameters)[1:]

    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        return plan.run(s, dict(zip(names, args, strict=False)) | kwargs, executor_for)

    code.__name__ = code.__qualname__ = graph.title
    code.__signature__ = graph.signature  # type: ignore[attr-defined]
    return code
