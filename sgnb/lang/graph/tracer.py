"""Tracing: run a program once with placeholder arguments and no model, and record a graph.

Tracing uses ordinary branches that never start, so names, roles and options are checked as in a
run. A graph inside a traced program is replayed into the outer trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import BoundArguments, Signature
from typing import Any, NoReturn

from ...errors import SgnbError, TraceError
from ..core.branch import Branch
from ..core.fork_group import ForkGroup
from ..core.ops import Join, Op
from ..core.program import Program, inside
from ..core.run import Run
from ..core.scope import Scope
from ..core.state import ProgramState
from ..core.state_parts import names_in_forks
from ..core.text_kinds import for_own_backend
from ..executor import Executor
from ..ir import parts
from ..location import caller, line_of_error
from .building import GIVE_VALUE
from .dry_execution import NoExecutor
from .graph import Graph
from .guarded_lines import is_caught
from .nodes import CallNode, Node, RunSettings
from .placeholders import (
    Argument,
    Placeholder,
    Placeholders,
    PlaceholderText,
    Variable,
    is_marked,
    plain,
    with_placeholders,
)
from .recorder import GraphRecorder, UnknownValue, is_open
from .replay import Plan, Replay, Step
from .watched_code import watched
from .watchers import WATCHERS, kept_random_state


def trace(
    call: CallNode,
    func: Callable[..., Any],
    signature: Signature,
    values: Mapping[str, Any],
    executor: Executor | None,
    partial: bool,
) -> Graph:
    """Return the graph of `func`.

    Args:
        call: The call of the program.
        func: The program's code.
        signature: The parameters after the state.
        values: Values of parameters. Other parameters become placeholders, or keep a default that
            is not text.
        executor: Provides the chat template; None for plain roles.
        partial: End the graph at a TraceError instead of raising the error.
    """
    recorder = TraceRecorder(call.title)
    arguments = dict(values)
    for name, parameter in signature.parameters.items():
        if is_open(parameter, values):
            arguments[name] = recorder.placeholders.text(Argument(name))
            recorder.placeholders.are_used = True
    bound = signature.bind(**arguments)
    run = Run(executor or NoExecutor(), call.title, traced=True)
    try:
        with kept_random_state():
            _record(recorder, call, func, bound, run)
        return recorder.graph(signature, values)
    except TraceError as error:
        if not partial:
            raise
        return recorder.graph(signature, values, error.message)


def trace_values(
    graph: Graph,
    known: Mapping[Placeholder, int],
    func: Callable[..., Any],
    bound: BoundArguments,
    run: Run,
    scope: Scope | None,
) -> TraceRecorder:
    """Trace `func` with the values of all arguments.

    Args:
        graph: The graph of an earlier trace.
        known: Numbers of the placeholders of the graph; equal placeholders get equal marks.
        func: The program's code.
        bound: The arguments of `func` without the state.
        run: A traced run with the sampling defaults of the program's run.
        scope: The names and the role at the beginning of the run.

    Returns:
        The recorder with the entries of the trace.

    Raises:
        TraceError: The program depends on generated data for these arguments.
        Exception: Any error of the program's code before a read of generated data.
    """
    recorder = TraceRecorder(graph.title, known)
    _record(recorder, graph.call, func, bound, run, scope)
    return recorder


def _record(
    recorder: TraceRecorder,
    call: CallNode,
    func: Callable[..., Any],
    bound: BoundArguments,
    run: Run,
    scope: Scope | None = None,
) -> None:
    """Run the code of a program and record the entries."""
    recorder.call(call, func, bound.args, bound.kwargs, run, scope)
    if recorder.placeholders.refused is not None:
        raise recorder.placeholders.refused


class Tracer(Program):
    """A program recorded into a graph."""

    def __init__(self, recorder: TraceRecorder, run: Run) -> None:
        super().__init__(run, 0)
        self.recorder = recorder

    @property
    def placeholders(self) -> Placeholders:
        """The placeholders of the trace."""
        return self.recorder.placeholders

    def append(self, branch: Branch, expr: Any) -> None:
        self.check_open(branch)
        location = caller()
        for node in parts(expr):
            self.check_media(branch, node)
            op = branch.scope.lower(for_own_backend(self, node), self.run.params)
            self.recorder.record_expr(branch, node, op, location)

    def add(self, branch: Branch, op: Op) -> None:
        super().add(branch, op)
        self.recorder.record_op(branch, op)

    def fork(self, branch: Branch, size: int) -> tuple[Branch, ...]:
        children = super().fork(branch, size)
        self.recorder.record_fork(branch, children)
        return children

    def join(
        self, branch: Branch, children: tuple[Branch, ...], append: bool, keep: bool = False
    ) -> None:
        self.check_not_caught("join()")
        super().join(branch, children, append, keep)
        join = branch.queue[-1]
        assert isinstance(join, Join)
        self.recorder.record_join(branch, join)

    def wait(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse("a wait for it")

    def check_not_caught(self, operation: str) -> None:
        """Raise a TraceError if the program catches the error that `operation` raises in a run."""
        if is_caught(_record.__code__):
            self.refuse(f"an error that {operation} raises inside `try`")

    def refuse(self, operation: str) -> NoReturn:
        """Raise a TraceError because `operation` needs generated data."""
        placeholders = self.recorder.placeholders
        hint = f"run the program as it is: {placeholders.title}.run(...)"
        placeholders.refuse(f"this depends on generated data: {operation}", hint)


class TracingState(ProgramState):
    """The state of a traced program. Variables are placeholders for append and return; reading
    other generated data raises TraceError."""

    @property
    def tracer(self) -> Tracer:
        """The tracer of the program."""
        program = self.program
        assert isinstance(program, Tracer)
        return program

    @property
    def ret_value(self) -> Any:
        self.tracer.check_not_caught("ret_value")
        self.tracer.recorder.placeholders.are_used = True
        return self.program.value

    @property
    def done(self) -> bool:
        self.tracer.refuse("s.done")

    @property
    def run_id(self) -> str:
        self.tracer.refuse("s.run_id")

    @property
    def tokens(self) -> int:
        self.tracer.refuse("s.tokens")

    @property
    def seconds(self) -> float:
        self.tracer.refuse("s.seconds")

    def __getitem__(self, name: str) -> Any:
        values = self.tracer.recorder.values[self._branch]
        if name not in values:
            if name in self._branch.scope.names:
                self.tracer.refuse(f"s[{name!r}], which was set before the program")
            raise self._branch.scope.unknown(name, names_in_forks(self._branch))
        self.tracer.check_not_caught(f"s[{name!r}]")
        self.tracer.recorder.placeholders.are_used = True
        if isinstance(values[name], UnknownValue):
            self.tracer.refuse(f"s[{name!r}], which {values[name].reason}")
        return self.tracer.recorder.read(self._branch, name)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(plain(name), value)

    @contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        with super().var_scope(plain(name)):
            yield

    def __repr__(self) -> str:
        return f"<TracingState branch {self._branch.id}>"

    def sync(self) -> None:
        """Check for `try` only: a trace has no generation to wait for."""
        self.tracer.check_not_caught("s.sync()")

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> ForkGroup:
        if isinstance(size, PlaceholderText):
            size.refuse("fork()")
        return super().fork(size, position_ids_offset)

    def _read(self, ready: Callable[[], bool], value: Callable[[], Any]) -> Any:
        self.tracer.refuse(f"s.{sys._getframe(1).f_code.co_name}()")


class TraceRecorder(GraphRecorder):
    """A trace in progress: runs the code of programs and records the nodes."""

    def begin(self, run: Run) -> Tracer:
        """Begin a program's stream."""
        tracer = Tracer(self, run)
        self.begin_stream(tracer.root)
        return tracer

    def end(self, tracer: Tracer, value: Any) -> None:
        """Record the return of `value` at the end of the program."""
        self.record_return(tracer.root, value)
        tracer.value, tracer.closed = value, True

    def call(
        self,
        call: CallNode,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        run: Run,
        scope: Scope | None = None,
    ) -> TracingState:
        """Trace a program on a new stream that begins with the names and the role of `scope`."""
        tracer = self.begin(run)
        if scope is not None and scope.num_ops + len(scope.names):
            tracer.root.scope = scope.child()
        token = inside.set(tracer)
        try:
            value = self.call_inside(TracingState(tracer.root, True), call, func, args, kwargs)
        finally:
            inside.reset(token)
        _check_returned(value)
        with self.titled(call.title):
            self.end(tracer, value)
        return TracingState(tracer.root)

    def call_inside(
        self,
        state: TracingState,
        call: CallNode,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Trace a program's code on `state`, such as the state of a calling program. Returns the
        return value of the code."""
        try:
            with self.titled(call.title):
                self.record_call(state._branch, call)
                return watched(func, WATCHERS)(state, *args, **kwargs)
        except TraceError:
            raise
        except Exception as error:
            if not self.placeholders.are_used:
                raise  # no placeholder can be the cause
            message = self.placeholders.named(str(error))
            if isinstance(error, SgnbError):
                if message == str(error) and not is_marked(message):
                    raise  # a mistake of the program
                reason, hint = "this needs the value of an argument, or generated data", GIVE_VALUE
            else:
                text = "" if is_marked(message) else f": {message}"
                reason = f"{call.title} raised {type(error).__name__} while it was traced{text}"
                hint = f"if an argument without a value is the cause, {GIVE_VALUE}"
            raise TraceError(f"{line_of_error(error)}: {reason}", hint) from error


def inline(plan: Plan, state: TracingState, arguments: Mapping[str, Any]) -> Any:
    """Record all nodes of a graph in the trace of `state`, without waiting. Returns the program's
    return value, with placeholders."""
    return _InlineReplay(plan, state, arguments).run()


class _InlineReplay(Replay):
    """A replay inside a traced program."""

    def __init__(self, plan: Plan, state: TracingState, arguments: Mapping[str, Any]) -> None:
        super().__init__(plan, state, arguments, _no_executor)
        self.recorder = state.tracer.recorder

    def _do(self, step: Step) -> None:
        with self.recorder.titled(step.node.program):
            super()._do(step)

    def _is_there(self, variable: Variable) -> bool:
        return (variable.stream, variable.name, variable.version) in self.numbers

    def _variable(self, variable: Variable) -> Any:
        stream, name = variable.stream, variable.name
        number = self.numbers[stream, name, variable.version]
        num_later = sum(number < setter for setter in self.setters[stream, name])
        return self.recorder.variable(self.branches[stream], name, num_later, variable.item)

    def read(self, placeholder: Placeholder) -> str:
        text: str = plain(super().read(placeholder))
        return text

    def fill(self, value: Any, node: Node) -> Any:
        return with_placeholders(super().fill(value, node), self.recorder.placeholders)

    def _call(self, step: Step) -> None:
        node, call = step.node, step.node.op
        assert isinstance(call, CallNode)
        if node.id == 0:  # recorded by the caller
            return
        arguments, settings = plain(self.call_arguments(node)), None
        if call.settings is not None:
            settings = self._begin_inlined(node, call.settings)
        call = CallNode(call.title, arguments, settings)
        self.recorder.record_call(self.branches[node.stream], call)

    def _begin_inlined(self, node: Node, settings: RunSettings) -> RunSettings:
        """Begin the stream of a called program. Returns the run settings in the outer graph."""
        calling = self.branches[settings.caller]
        defaults = plain(self.fill(settings.defaults, node))
        run = Run(calling.program.executor, node.program, defaults=dict(defaults), traced=True)
        self.branches[node.stream] = self.recorder.begin(run).root
        return replace(settings, caller=self.recorder.stream(calling), defaults=defaults)

    def _return(self, step: Step) -> None:
        return_node: Any = step.node.op
        value = self.fill(return_node.value, step.node)
        program = self.branches[step.node.stream].program
        if step.node.stream == 0:
            self.value = value
        else:
            assert isinstance(program, Tracer)
            self.recorder.end(program, value)


def _no_executor(backend: Any) -> NoReturn:
    raise AssertionError("a traced program asks nothing")


def _check_returned(value: Any) -> None:
    """Raise a TraceError for a value that a graph cannot return."""
    if isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            _check_returned(item)
    elif isinstance(value, dict):
        _check_returned([*value.items()])
    elif not isinstance(value, str | int | float | bool | None):
        hint = "return texts, numbers, or lists and dicts of them"
        raise TraceError(f"{caller()}: a {type(value).__name__} is returned", hint)
