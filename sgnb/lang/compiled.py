"""Compiled programs: execution of a graph instead of a program's code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from inspect import BoundArguments, Parameter, Signature
from typing import Any

from ..errors import TraceError
from .code import GraphCode
from .core.state import ProgramState
from .graph.code_motion import cache_prefix
from .graph.dry_execution import DryExecution
from .graph.estimate import Bound, bound
from .graph.explanation import Explanation, explain_graph
from .graph.graph import Graph
from .graph.plain_code import KnownFunctions
from .graph.replay import Plan
from .graph.run_graphs import CheckedGraph, RunGraph
from .graph.tracer import TracingState, inline
from .primitives import expressions, roles
from .primitives.config import executor_for, global_config
from .primitives.program_method import ProgramMethod
from .runnable import Runnable

_FUNCTIONS = KnownFunctions(
    of_constants=frozenset(
        {
            expressions.gen,
            expressions.gen_int,
            expressions.gen_string,
            expressions.select,
            roles.system_begin,
            roles.system_end,
            roles.user_begin,
            roles.user_end,
            roles.assistant_begin,
            roles.assistant_end,
        }
    ),
    of_texts=frozenset({roles.system, roles.user, roles.assistant}),
    setting=lambda: global_config.skip_special_tokens_in_output,
)


class CompiledProgram(Runnable):
    """A program that runs a graph.

    With `original`, the code of the program runs before each run, with the values of the arguments
    and without a model. If the code appends something else than the graph, the run uses a graph of
    its own arguments, and a warning names both lines.

    For a partial graph, `original` is interpreted, and called programs run as graphs if possible.

    Args:
        graph: The graph, for example from `Graph.from_json`.
        original: The traced program; required for a partial graph.
        check: Compare the graph with the code of `original` before each run.
        traced: The graph of the trace, if `graph` is a changed graph, such as `Motion.graph`.

    Raises:
        TraceError: The graph is partial, and `original` is missing. In a run: the program depends
            on generated data for these arguments.

    Example:
        compiled = program.compile()
        compiled.run(question="...")["answer"]
    """

    def __init__(
        self,
        graph: Graph,
        original: Runnable | None = None,
        *,
        check: bool = True,
        traced: Graph | None = None,
    ) -> None:
        if graph.stopped and original is None:
            raise TraceError(f"{graph!r} is not the whole program", graph.stopped)
        self.graph, self._plan = graph, Plan(graph)
        self._checked: CheckedGraph | None = None
        interpreted = original if graph.stopped else None
        bound = {} if interpreted is None else interpreted.bound
        settings, constants = graph.settings, None
        if interpreted is not None:
            func = _with_graphs_inside(interpreted.func, check)
        elif original is not None and check:
            traced_plan = None if traced is None else Plan(traced)
            self._checked = CheckedGraph(self._plan, original, _FUNCTIONS, traced_plan)
            func, constants = _code_of_checked(self._checked), original._code.constants
        else:
            func = _code_of(self._plan)
        super().__init__(
            func,
            bound,
            special_tokens=settings.special_tokens,
            keep_tokens=settings.keep_tokens,
            num_api_spec_tokens=settings.num_api_spec_tokens,
            code=GraphCode(
                func, settings.source, graph.print_graph_dfs(), settings.location, constants
            ),
        )
        self._fixed_names = frozenset(graph.fixed) - self.signature.parameters.keys()

    def cache(self, backend: Any = None) -> int:
        """Prefill the constant prefix on `backend`; see `SglFunction.cache`.

        Returns:
            The number of tokens in the prefix.
        """
        return cache_prefix(self.graph, executor_for(backend))

    @ProgramMethod
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
        graph, values = self._graph_of(arguments)
        return bound(graph, DryExecution(graph, executor_for(backend)).run(values, defaults, None))

    @ProgramMethod
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
        graph, values = self._graph_of(arguments)
        return explain_graph(graph, executor_for(backend), values, defaults)

    def _arranged(self, rows: list[BoundArguments]) -> list[int]:
        """Return an order with equal beginnings next to each other, for prefix reuse in a small
        cache. Compares the arguments in the order of the graph's texts."""
        names = self.graph.arguments_in_texts
        prefix_numbers: dict[tuple[str, ...], int] = {}  # in order of first appearance
        keys = []
        for row in rows:
            values = [_sort_key(row.arguments.get(name, "")) for name in names]
            prefixes = (tuple(values[: i + 1]) for i in range(len(values)))
            keys.append([prefix_numbers.setdefault(p, len(prefix_numbers)) for p in prefixes])
        return sorted(range(len(rows)), key=keys.__getitem__)

    def graph_for(self, values: Mapping[str, Any], state: ProgramState) -> RunGraph:
        """Return the graph of a run with argument `values` on `state`, without running the graph.

        Raises:
            TraceError: The program depends on generated data for these arguments.
        """
        if self._checked is None:
            return RunGraph(self._plan, values)
        return self._checked.graph_for(values, state.program, state._branch.scope)

    def _graph_of(self, arguments: BoundArguments) -> tuple[Graph, Mapping[str, Any]]:
        """Return the graph of a run without a state, and the values of the graph's parameters."""
        if self._checked is None:
            return self.graph, arguments.arguments
        plan, values = self._checked.graph_for(arguments.arguments, None)
        return plan.graph, values

    def print_graph(self) -> None:
        """Print the graph, a line for each node."""
        self.graph.print_graph()


def _sort_key(value: Any) -> str:
    """Return equal texts for equal texts, numbers and objects, without printing large objects."""
    return str(value) if isinstance(value, str | int | float) else f"object {id(value)}"


graphs_inside: ContextVar[bool | None] = ContextVar("graphs_inside", default=None)
"""Not None if called programs run as graphs if possible; True if the graphs are checked."""


def _with_graphs_inside(func: Callable[..., Any], check: bool) -> Callable[..., Any]:
    @functools.wraps(func)
    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        token = graphs_inside.set(check)
        try:
            return func(s, *args, **kwargs)
        finally:
            graphs_inside.reset(token)

    return code


def _code_of(plan: Plan) -> Callable[..., Any]:
    """Return a function that replays a graph."""
    signature = plan.graph.signature
    names = list(signature.parameters)[1:]

    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        values = dict(zip(names, args, strict=False)) | kwargs
        if isinstance(s, TracingState):
            return inline(plan, s, values)
        return plan.run(s, values, executor_for)

    return _named(code, plan.graph, signature)


_OPEN_KINDS = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD


def _code_of_checked(checked: CheckedGraph) -> Callable[..., Any]:
    """Return a function that replays a graph after the comparison with the program's code."""
    signature = checked.signature
    names = list(signature.parameters)[1:]
    is_closed = all(p.kind not in _OPEN_KINDS for p in signature.parameters.values())

    def code(s: ProgramState, *args: Any, **kwargs: Any) -> Any:
        if is_closed:
            values = dict(zip(names, args, strict=False)) | kwargs
        else:
            values = signature.bind(s, *args, **kwargs).arguments
            del values["s"]
        if isinstance(s, TracingState):
            return checked.trace_inside(s, values)
        run_graph = checked.graph_for(values, s.program, s._branch.scope)
        return run_graph.plan.run(s, run_graph.arguments, executor_for)

    return _named(code, checked.plan.graph, signature)


def _named(code: Callable[..., Any], graph: Graph, signature: Signature) -> Callable[..., Any]:
    code.__name__ = code.__qualname__ = graph.title
    code.__signature__ = signature  # type: ignore[attr-defined]
    return code
