"""Trace a program: run its code once with placeholder arguments and no model, and record a graph.

Tracing uses ordinary branches that never start, so names, roles and options are checked as in a
run.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from traceback import walk_tb
from typing import Any, NoReturn

from ...errors import SgnbError, TraceError
from ..chat.reasoning import reasoning_name
from ..core.branch import Branch
from ..core.ops import Assign, Generate, GenerateCalls, Join, Op, VarScopeBegin, VarScopeEnd
from ..core.program import Program, inside
from ..core.run import Run
from ..core.state import ForkGroup, ProgramState
from ..executor import Executor
from ..ir import Expr, Gen, Select, Text, ToolResults, UseTools, parts
from ..location import Location, caller, is_ours
from .catching import is_caught
from .graph import Graph
from .holes import Argument, Holes, Placeholder, Variable, cut, is_marked, numbers, plain
from .no_executor import NoExecutor
from .nodes import Called, Constant, Forked, ForkItem, Joined, Node, Returned, What


class Tracer(Program):
    """A program recorded into a graph."""

    def __init__(self, trace: Trace, run: Run) -> None:
        super().__init__(run, 0)
        self.trace = trace

    def append(self, branch: Branch, expr: Any) -> None:
        for node in parts(expr):
            super().append(branch, node)
            self.trace.record_expr(branch, node, branch.queue[-1])

    def add(self, branch: Branch, op: Op) -> None:
        super().add(branch, op)
        self.trace.record_op(branch, op)

    def fork(self, branch: Branch, size: int) -> tuple[Branch, ...]:
        children = super().fork(branch, size)
        self.trace.record_fork(branch, children)
        return children

    def join(
        self, branch: Branch, children: tuple[Branch, ...], append: bool, keep: bool = False
    ) -> None:
        self.check_not_caught("join()")
        super().join(branch, children, append, keep)
        join = branch.queue[-1]
        assert isinstance(join, Join)
        self.trace.record_join(branch, join)

    def _split_by_taint(self, node: Expr, role: str | None) -> list[Expr]:
        return [node]  # split during replay, when the texts are available

    def wait(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse("a wait for it")

    def check_not_caught(self, what: str) -> None:
        """Raise a TraceError if the program catches the error that `what` raises in a run."""
        if is_caught(trace.__code__):
            self.refuse(f"an error that {what} raises inside `try`")

    def refuse(self, what: str) -> NoReturn:
        hint = f"run the program as it is: {self.trace.holes.title}.run(...)"
        self.trace.holes.refuse(f"this depends on generated data: {what}", hint)


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
        values = self.tracer.trace.values[self._branch]
        if name not in values:
            raise self._branch.scope.unknown(name, self._names_in_forks())
        self.tracer.check_not_caught(f"s[{name!r}]")
        if values[name] is _CALLS:
            self.tracer.refuse(f"s[{name!r}], which may be a call of a tool")
        return values[name]

    def __repr__(self) -> str:
        return f"<TracingState branch {self._branch.id}>"

    def sync(self) -> None:
        """Check for `try` only: a trace has no generation to wait for."""
        self.tracer.check_not_caught("s.sync()")

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> ForkGroup:
        if isinstance(size, Placeholder):
            size.refuse("fork()")
        return super().fork(size, position_ids_offset)

    def _read(self, ready: Callable[[], bool], value: Callable[[], Any]) -> Any:
        self.tracer.refuse(f"s.{sys._getframe(1).f_code.co_name}()")


_CALLS = object()
"""Value of a variable that may hold a tool call."""


class Trace:
    """A trace in progress: recorded nodes and the values of the streams."""

    def __init__(self, title: str) -> None:
        self.nodes: list[Node] = []
        self.holes = Holes(title)
        self.values: dict[Branch, dict[str, Any]] = {}  # value returned by reading a variable
        self._streams: dict[Branch, int] = {}
        self._versions: dict[Branch, Counter[str]] = {}
        self._last: dict[int, Node] = {}  # last node of each stream
        self._setters: dict[tuple[int, str, int], Node] = {}  # setter by stream, name and version
        self._titles: list[str] = []  # stack of running programs

    def call(
        self,
        called: Called,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        run: Run,
    ) -> TracingState:
        """Trace a program on a new stream."""
        tracer = self.begin(run)
        token = inside.set(tracer)
        try:
            value = self.call_inside(TracingState(tracer.root, True), called, func, args, kwargs)
        finally:
            inside.reset(token)
        _check_returned(value)
        with self.titled(called.title):
            self.end(tracer, value)
        return TracingState(tracer.root)

    def call_inside(
        self,
        state: TracingState,
        called: Called,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Trace a program's code on `state`, such as the state of a calling program. Returns its
        value."""
        try:
            with self.titled(called.title):
                self.record_call(state._branch, called)
                return func(state, *args, **kwargs)
        except SgnbError as error:
            if not is_marked(str(error)):
                raise
            what = "this needs the value of an argument, or generated data"
            raise TraceError(f"{caller()}: {what}", _GIVE) from error
        except Exception as error:
            what = f"{called.title} raised {type(error).__name__} while it was traced: {error}"
            hint = "an argument without a value may be the cause: f.trace(name=value) gives it one"
            raise TraceError(f"{_line_of(error)}: {what}", hint) from error

    @contextlib.contextmanager
    def titled(self, title: str) -> Iterator[None]:
        """Attribute added nodes to the program `title`."""
        self._titles.append(title)
        try:
            yield
        finally:
            self._titles.pop()

    def begin(self, run: Run) -> Tracer:
        """Begin a program's stream."""
        tracer = Tracer(self, run)
        self._begin(tracer.root)
        return tracer

    def end(self, tracer: Tracer, value: Any) -> None:
        """Record the return of `value` at the end of the program."""
        self._add(tracer.root, Returned(plain(value)))
        tracer.value, tracer.closed = value, True

    def record_call(self, branch: Branch, called: Called) -> None:
        """Record the beginning of a program's code."""
        self._add(branch, called)

    def variable(self, branch: Branch, name: str, later: int, item: int | None) -> Placeholder:
        """Return the placeholder of a name before its `later` most recent assignments."""
        return self._variable(branch, name, self._versions[branch][name] - 1 - later, item)

    def number(self, branch: Branch) -> int:
        """Return the number of a branch's stream."""
        return self._streams[branch]

    def record_expr(self, branch: Branch, expr: Expr, op: Op) -> None:
        """Record an expression appended as `op`."""
        if isinstance(expr, Text):
            pieces = cut(plain(expr.text)) or [""]
            for i, piece in enumerate(pieces):
                what: What = self.holes.all[piece] if isinstance(piece, int) else Constant(piece)
                self._add(branch, what, kind=expr.kind, joined=i > 0)
        elif isinstance(expr, Gen):
            assert isinstance(op, Generate)
            names = [op.name]
            if op.reasoning is not None and expr.name is not None:
                names.append(reasoning_name(op.name))
            node = self._add(branch, expr, names, location=expr.location)
            for name, version in node.sets:
                found = [
                    self._variable(branch, name, version, i if op.params.n > 1 else None)
                    for i in range(op.params.n)
                ]
                calls = isinstance(op, GenerateCalls)
                self.values[branch][name] = (
                    _CALLS if calls else found if op.params.n > 1 else found[0]
                )
        elif isinstance(expr, Select):
            name = getattr(op, "name")  # noqa: B009
            node = self._add(branch, expr, [name], location=expr.location)
            self.values[branch][name] = self._variable(branch, *node.sets[0])
        else:
            self._add(branch, expr)  # type: ignore[arg-type]

    def record_op(self, branch: Branch, op: Op) -> None:
        """Record an op without an expression."""
        if isinstance(op, Assign):
            self._add(branch, Assign(op.name, plain(op.value)), [op.name])
            self.values[branch][op.name] = op.value
        elif isinstance(op, VarScopeBegin):
            self._add(branch, op)
        elif isinstance(op, VarScopeEnd):
            node = self._add(branch, op, [op.name])
            self.values[branch][op.name] = self._variable(branch, *node.sets[0])

    def record_fork(self, branch: Branch, children: Sequence[Branch]) -> None:
        """Record a fork; each child inherits the branch's variables."""
        for child in children:
            self._begin(child)
            self.values[child] = dict(self.values[branch])
            self._versions[child] = Counter()
        fork = self._add(branch, Forked(tuple(self._streams[child] for child in children)))
        for i, child in enumerate(children):
            self._add(child, ForkItem(i), before=[fork])

    def record_join(self, branch: Branch, join: Join) -> None:
        """Record a join and its gathered values."""
        streams = tuple(self._streams[child] for child in join.children)
        lasts = [self._last[stream] for stream in streams]
        self._add(branch, Joined(streams, join.append, join.keep), join.names, before=lasts)
        for name in join.names:
            holders = [child for child in join.children if name in child.scope.own]
            gathered = [self.values[child][name] for child in holders]
            several = _CALLS if any(one is _CALLS for one in gathered) else gathered
            self.values[branch][name] = gathered[0] if join.keep else several

    def graph(self, signature: Signature, given: Mapping[str, Any], stopped: str = "") -> Graph:
        """Return the recorded graph."""
        abstract = [one for name, one in signature.parameters.items() if is_open(one, given)]
        defaults = [(one.name, one.default) for one in abstract if one.default is not one.empty]
        return Graph(
            tuple(self.nodes),
            tuple(self.holes.all),
            tuple(one.name for one in abstract),
            tuple(defaults),
            stopped,
            _by_name(signature, given),
        )

    def _begin(self, branch: Branch) -> None:
        self._streams[branch] = len(self._streams)
        self.values[branch], self._versions[branch] = {}, Counter()

    def _variable(
        self, branch: Branch, name: str, version: int, item: int | None = None
    ) -> Placeholder:
        return self.holes.placeholder(Variable(self._streams[branch], name, version, item))

    def _add(
        self,
        branch: Branch,
        what: What,
        names: Sequence[str] = (),
        before: Sequence[Node] = (),
        location: Location | None = None,
        **text: Any,  # `Node.kind` and `joined`
    ) -> Node:
        if any(is_marked(plain(name)) for name in names):
            raise TraceError(f"{location or caller()}: a name depends on an argument", _GIVE)
        stream, versions = self._streams[branch], self._versions[branch]
        holes = {number: self.holes.all[number] for number in _numbers_in(what)}
        read = [what, *holes.values()]
        needed = [self._setters[v.stream, v.name, v.version] for v in read if type(v) is Variable]
        last = [self._last[stream]] if stream in self._last else []
        come_before = tuple({node.id: node for node in (*last, *before, *needed)}.values())
        sets = tuple((name, versions[name]) for name in names)
        versions.update(names)
        node = Node(
            len(self.nodes), stream, what, self._titles[-1], location or caller(),
            tuple(node.id for node in come_before), come_before, sets, holes=tuple(holes.items()),
            **text,
        )  # fmt: skip
        self._setters |= {(stream, *one): node for one in sets}
        self.nodes.append(node)
        self._last[stream] = node
        return node


def trace(
    called: Called,
    func: Callable[..., Any],
    signature: Signature,
    given: Mapping[str, Any],
    executor: Executor | None,
    partial: bool,
) -> Graph:
    """Return the graph of `func`, with `signature` listing the parameters after the state.
    Parameters not `given` become placeholders, or keep a default that is no text. With `partial`, a
    TraceError ends the graph instead of propagating."""
    made = Trace(called.title)
    values = dict(given)
    for name, one in signature.parameters.items():
        if is_open(one, given):
            values[name] = made.holes.placeholder(Argument(name))
    bound = signature.bind(**values)
    run = Run(executor or NoExecutor(), called.title, traced=True)
    try:
        made.call(called, func, bound.args, bound.kwargs, run)
        if made.holes.refused is not None:
            raise made.holes.refused
    except TraceError as error:
        if not partial:
            raise
        return made.graph(signature, given, error.message)
    return made.graph(signature, given)


def is_open(parameter: Parameter, given: Mapping[str, Any]) -> bool:
    """Return whether the trace uses a placeholder for `parameter`."""
    if parameter.name in given or parameter.kind in (
        Parameter.VAR_KEYWORD,
        Parameter.VAR_POSITIONAL,
    ):
        return False
    return parameter.default is parameter.empty or isinstance(parameter.default, str)


def _by_name(signature: Signature, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters passed by keyword, including those after an omitted parameter."""
    names, by_name = [], False
    for name, one in signature.parameters.items():
        by_name = by_name or one.kind is Parameter.KEYWORD_ONLY
        if is_open(one, given):
            names += [name] * by_name
        else:
            by_name = by_name or name not in given
    return tuple(names)


_GIVE = "give the argument a value: f.trace(name=value)"


def _numbers_in(what: What) -> dict[int, None]:
    """Return the numbers of the holes inside a node, in order."""
    match what:
        case Gen():
            inner: Any = (what.options, what.reasoning, what.tools)
        case Select():
            inner = what.choices
        case Assign() | Returned():
            inner = what.value
        case Called():
            inner = (what.arguments, () if what.run is None else what.run.defaults)
        case UseTools() | ToolResults():
            inner = what
        case _:
            inner = ()
    return dict.fromkeys(numbers(inner))


def _check_returned(value: Any) -> None:
    """Raise a TraceError for a value that a graph cannot return."""
    if isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            _check_returned(one)
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
