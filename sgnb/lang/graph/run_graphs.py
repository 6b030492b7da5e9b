"""The graph of a run: the graph of a compiled program, or a graph of the arguments of the run.

The second graph is used if the program's code appends something else for these arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments, Parameter, Signature
from typing import Any, NamedTuple, Protocol

from ...errors import TraceError
from ...sampling import SamplingParams
from ..chat import PLAIN
from ..core.program import Program
from ..core.run import Run
from ..core.scope import Scope
from ..location import caller, warn_once
from .dry_execution import NoExecutor
from .plain_code import KnownFunctions, PlainCode, plain_code
from .replay import Plan
from .trace_check import TraceCheck
from .tracer import TracingState, inline, trace_values

_NO_DEFAULTS = SamplingParams()
_STATE = Parameter("s", Parameter.POSITIONAL_OR_KEYWORD)


class TracedProgram(Protocol):
    """A program whose code is compared with the graph."""

    func: Callable[..., Any]
    bound: dict[str, Any]

    @property
    def signature(self) -> Signature: ...


class RunGraph(NamedTuple):
    """The plan of a run, and the values of the graph's parameters."""

    plan: Plan
    arguments: Mapping[str, Any]


class CheckedGraph:
    """A graph that is compared with the program's code before each run. Thread-safe.

    The code runs once per run, with the values of the arguments and without a model. Random
    numbers, globals, files and called functions therefore have the values of the run. Code without
    decisions (`plain_code.py`) does not run again.

    Args:
        plan: The plan of the graph to run.
        original: The traced program, with the arguments that the trace was given as bound
            arguments.
        functions: The functions that code without decisions may call.
        traced: The plan of the trace, if `plan` holds a changed graph; such a graph is never
            replaced by another graph.
    """

    def __init__(
        self,
        plan: Plan,
        original: TracedProgram,
        functions: KnownFunctions,
        traced: Plan | None = None,
    ) -> None:
        self.plan, self._functions = plan, functions
        self._original, self._is_moved = original, traced is not None
        self._check = TraceCheck(traced or plan)
        self._plain: PlainCode | None = None  # compared with the graph
        self._may_be_plain = True
        self._trace_run: Run | None = None  # of the last trace
        self._reported: set[tuple[str, str]] = set()  # differences, by their lines

    def graph_for(
        self, values: Mapping[str, Any], program: Program | None, scope: Scope | None = None
    ) -> RunGraph:
        """Return the graph for `values`.

        Args:
            values: Arguments by name, without the bound arguments.
            program: The program that runs the graph, for the sampling defaults and the chat
                template; None for neither.
            scope: Names and role at the beginning of the run.

        Raises:
            TraceError: The program depends on generated data for these values, or a graph with
                moved paragraphs has another trace.
            Exception: Any error of the program's code.
        """
        is_new = scope is None or not (scope.num_ops or scope.names)
        if is_new and self._plain is not None and self._plain.holds(values):
            return RunGraph(self.plan, values)

        plain = self._read_code()
        arguments, run = self._arguments(values), self._run_for(program)
        graph, known = self.plan.graph, self._check.numbers
        recorder = trace_values(graph, known, self._original.func, arguments, run, scope)

        index = self._check.first_difference(recorder.entries, values)
        if index is None:
            if is_new and plain is not None and plain.holds(values):
                self._plain = plain
            return RunGraph(self.plan, values)
        other = Plan(recorder.graph(Signature(), {}))
        self._report(index, other)
        return RunGraph(other, {})

    def _read_code(self) -> PlainCode | None:
        """Return the reads of plain code before its first comparison with the graph, or None."""
        plain = None
        if self._may_be_plain and self._plain is None:
            original = self._original
            plain = plain_code(original.func, self.plan.graph, original.bound, self._functions)
            self._may_be_plain = plain is not None
        return plain

    def trace_inside(self, state: TracingState, values: Mapping[str, Any]) -> Any:
        """Record the program in the trace of `state`, and return the program's return value with
        placeholders."""
        if self._is_moved:
            return inline(self.plan, state, values)
        arguments = self._arguments(values)
        return self._original.func(state, *arguments.args, **arguments.kwargs)

    @property
    def signature(self) -> Signature:
        """The signature of the program, with the state and without the bound arguments."""
        parameters, by_keyword = [_STATE], False
        for name, parameter in self._original.signature.parameters.items():
            if name in self._original.bound:
                by_keyword = True
            elif by_keyword and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            elif not (by_keyword and parameter.kind is Parameter.VAR_POSITIONAL):
                parameters.append(parameter)
        return Signature(parameters)

    def _arguments(self, values: Mapping[str, Any]) -> BoundArguments:
        """Return all arguments of the program's function after the state."""
        signature, everything = self._original.signature, {**self._original.bound, **values}
        ordered = {name: everything[name] for name in signature.parameters if name in everything}
        return BoundArguments(signature, ordered)

    def _run_for(self, program: Program | None) -> Run:
        """Return a traced run with the options of the program's run."""
        run, chat, defaults = self._trace_run, PLAIN, _NO_DEFAULTS
        if program is not None:
            chat, defaults = program.executor.chat, program.run.defaults
        if run is None or run.defaults != defaults or run.executor.chat is not chat:
            executor = NoExecutor()
            executor.chat = chat
            run = Run(executor, self.plan.graph.title, defaults=defaults, traced=True)
            self._trace_run = run
        return run

    def _report(self, index: int, other: Plan) -> None:
        """Warn once per pair of lines, or refuse a moved graph."""
        title = self.plan.graph.title
        before, now = self._check.describe(index, other)
        change = f"{title} differs from the compiled graph. At compile: {before}. Now: {now}"
        if self._is_moved:
            raise TraceError(f"{caller()}: {change}", "compile the program again")
        if (before, now) not in self._reported and before != now:
            self._reported.add((before, now))
            warn_once(f"{change}. The run uses a graph of its own arguments", caller())
