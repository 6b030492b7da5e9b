"""Tracing: run a program once with placeholder arguments and no model, and record a graph.

Tracing uses ordinary branches that never start, so names, roles and options are checked as in a
run. A graph inside a traced program is replayed into the outer trace.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import Signature
from traceback import walk_tb
from types import CodeType
from typing import Any, NoReturn

from ...errors import SgnbError, TraceError
from ..core.branch import Branch
from ..core.ops import Join, Op
from ..core.program import Program, inside
from ..core.run import Run
from ..core.state import ForkGroup, ProgramState
from ..executor import Executor
from ..ir import Expr, parts
from ..location import Location, caller, is_ours
from ..source import parse, source_of
from .dry_execution import NoExecutor
from .graph import Graph
from .nodes import CallNode, Node, RunSettings
from .placeholders import (
    Argument,
    Placeholder,
    PlaceholderText,
    Variable,
    is_marked,
    plain,
    with_placeholders,
)
from .recorder import GIVE_VALUE, TOOL_CALLS, GraphRecorder, is_open
from .replay import Plan, Replay, Step


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
    bound = signature.bind(**arguments)
    run = Run(executor or NoExecutor(), call.title, traced=True)
    try:
        recorder.call(call, func, bound.args, bound.kwargs, run)
        if recorder.placeholders.refused is not None:
            raise recorder.placeholders.refused
    except TraceError as error:
        if not partial:
            raise
        return recorder.graph(signature, values, error.message)
    return recorder.graph(signature, values)


class Tracer(Program):
    """A program recorded into a graph."""

    def __init__(self, recorder: TraceRecorder, run: Run) -> None:
        super().__init__(run, 0)
        self.recorder = recorder

    def append(self, branch: Branch, expr: Any) -> None:
        for node in parts(expr):
            super().append(branch, node)
            self.recorder.record_expr(branch, node, branch.queue[-1])

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

    def _split_by_taint(self, node: Expr, role: str | None) -> list[Expr]:
        return [node]  # split during replay, when the texts are available

    def wait(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse("a wait for it")

    def check_not_caught(self, operation: str) -> None:
        """Raise a TraceError if the program catches the error that `operation` raises in a run."""
        if is_caught(trace.__code__):
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
            raise self._branch.scope.unknown(name, self._names_in_forks())
        self.tracer.check_not_caught(f"s[{name!r}]")
        if values[name] is TOOL_CALLS:
            self.tracer.refuse(f"s[{name!r}], which may be a call of a tool")
        return values[name]

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
    ) -> TracingState:
        """Trace a program on a new stream."""
        tracer = self.begin(run)
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
                return func(state, *args, **kwargs)
        except SgnbError as error:
            if not is_marked(str(error)):
                raise
            reason = "this needs the value of an argument, or generated data"
            raise TraceError(f"{caller()}: {reason}", GIVE_VALUE) from error
        except Exception as error:
            reason = f"{call.title} raised {type(error).__name__} while it was traced: {error}"
            hint = "an argument without a value may be the cause: f.trace(name=value) gives it one"
            raise TraceError(f"{_line_of(error)}: {reason}", hint) from error


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

    def _read(self, placeholder: Placeholder) -> str:
        text: str = plain(super()._read(placeholder))
        return text

    def _fill(self, value: Any, node: Node) -> Any:
        return with_placeholders(super()._fill(value, node), self.recorder.placeholders)

    def _call(self, step: Step) -> None:
        node, call = step.node, step.node.op
        assert isinstance(call, CallNode)
        if node.id == 0:  # recorded by the caller
            return
        arguments, settings = plain(self._fill(call.arguments, node)), None
        if call.settings is not None:
            settings = self._begin_inlined(node, call.settings)
        call = CallNode(call.title, arguments, settings)
        self.recorder.record_call(self.branches[node.stream], call)

    def _begin_inlined(self, node: Node, settings: RunSettings) -> RunSettings:
        """Begin the stream of a called program. Returns the run settings in the outer graph."""
        calling = self.branches[settings.caller]
        defaults = plain(self._fill(settings.defaults, node))
        run = Run(calling.program.executor, node.program, defaults=dict(defaults), traced=True)
        self.branches[node.stream] = self.recorder.begin(run).root
        return replace(settings, caller=self.recorder.stream(calling), defaults=defaults)

    def _return(self, step: Step) -> None:
        return_node: Any = step.node.op
        value = self._fill(return_node.value, step.node)
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


def _line_of(error: BaseException) -> Location:
    """Return the user's line closest to the error."""
    lines = [
        Location(frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if not is_ours(frame)
    ]
    return lines[-1] if lines else caller()


def is_caught(outermost: CodeType) -> bool:
    """Return whether the user's code would catch an exception raised here.

    Args:
        outermost: The code below whose frame the traced program runs.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code is not outermost:
        if not is_ours(frame):
            line = frame.f_lineno
            if any(line in lines for lines in _guarded_lines(frame.f_code)):
                return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=256)
def _guarded_lines(code: CodeType) -> tuple[range, ...]:
    """Return the line numbers inside `try` statements of a function."""
    try:
        tree = parse(textwrap.dedent(source_of(code)))
    except SyntaxError:  # a lambda in the middle of a statement
        return ()
    offset = max(code.co_firstlineno, 1) - 1
    bodies = [body for node in ast.walk(tree) if (body := _guarded_body(node))]
    return tuple(
        range(offset + body[0].lineno, offset + (body[-1].end_lineno or 0) + 1) for body in bodies
    )


def _guarded_body(node: ast.AST) -> Sequence[ast.stmt]:
    match node:
        case ast.Try(body=body, handlers=[_, *_]) | ast.TryStar(body=body):
            return body
        case ast.With(body=body, items=items) if any(map(_suppresses, items)):
            return body
    return ()


def _suppresses(item: ast.withitem) -> bool:
    """Return whether a context manager is `contextlib.suppress`, by its name."""
    match item.context_expr:
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
            return True
    return False
