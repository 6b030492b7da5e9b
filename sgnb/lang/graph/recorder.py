"""Recording of a traced program: nodes of the streams, in the order of the program's code."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from ...errors import TraceError
from ..chat.reasoning import reasoning_name
from ..core.branch import Branch
from ..core.ops import Assign, Generate, GenerateCalls, Join, Op, VarScopeBegin, VarScopeEnd
from ..ir import Expr, Gen, Select, Text, ToolResults, UseTools
from ..location import Location, caller
from .graph import Graph
from .nodes import CallNode, Constant, ForkItem, ForkNode, JoinNode, Node, NodeOp, ReturnNode
from .placeholders import (
    Placeholders,
    PlaceholderText,
    Variable,
    cut,
    is_marked,
    numbers,
    plain,
)

TOOL_CALLS = object()
"""Value of a variable that may hold tool calls."""

GIVE_VALUE = "give the argument a value: f.trace(name=value)"


class GraphRecorder:
    """Recorded nodes and the values of variables of all streams."""

    def __init__(self, title: str) -> None:
        self.nodes: list[Node] = []
        self.placeholders = Placeholders(title)
        self.values: dict[Branch, dict[str, Any]] = {}  # value returned by reading a variable
        self._streams: dict[Branch, int] = {}
        self._versions: dict[Branch, Counter[str]] = {}
        self._last: dict[int, Node] = {}  # last node of each stream
        self._setters: dict[tuple[int, str, int], Node] = {}  # by stream, name and version
        self._titles: list[str] = []  # stack of running programs

    def stream(self, branch: Branch) -> int:
        """Return the number of a branch's stream."""
        return self._streams[branch]

    @contextlib.contextmanager
    def titled(self, title: str) -> Iterator[None]:
        """Attribute added nodes to the program `title`."""
        self._titles.append(title)
        try:
            yield
        finally:
            self._titles.pop()

    def begin_stream(self, branch: Branch) -> None:
        """Begin the stream of `branch`."""
        self._streams[branch] = len(self._streams)
        self.values[branch], self._versions[branch] = {}, Counter()

    def variable(
        self, branch: Branch, name: str, num_later: int, item: int | None
    ) -> PlaceholderText:
        """Return the placeholder of a name before the `num_later` most recent assignments."""
        return self._variable(branch, name, self._versions[branch][name] - 1 - num_later, item)

    def record_call(self, branch: Branch, call: CallNode) -> None:
        """Record the beginning of a program's code."""
        self._add(branch, call)

    def record_return(self, branch: Branch, value: Any) -> None:
        """Record the end of a program's code and the return value."""
        self._add(branch, ReturnNode(plain(value)))

    def record_expr(self, branch: Branch, expr: Expr, op: Op) -> None:
        """Record an expression appended as `op`."""
        if isinstance(expr, Text):
            for i, piece in enumerate(cut(plain(expr.text)) or [""]):
                text: NodeOp
                text = Constant(piece) if isinstance(piece, str) else self.placeholders.all[piece]
                self._add(branch, text, kind=expr.kind, continues_text=i > 0)
        elif isinstance(expr, Gen):
            assert isinstance(op, Generate)
            names = [op.name]
            if op.reasoning is not None and expr.name is not None:
                names.append(reasoning_name(op.name))
            node = self._add(branch, expr, names, location=expr.location)
            for name, version in node.assignments:
                self.values[branch][name] = self._generated(branch, op, name, version)
        elif isinstance(expr, Select):
            name = getattr(op, "name")  # noqa: B009
            node = self._add(branch, expr, [name], location=expr.location)
            self.values[branch][name] = self._variable(branch, *node.assignments[0])
        else:
            self._add(branch, expr)  # type: ignore[arg-type]

    def _generated(self, branch: Branch, op: Generate, name: str, version: int) -> Any:
        """Return the value of a generated variable: placeholders, or `TOOL_CALLS`."""
        if isinstance(op, GenerateCalls):
            return TOOL_CALLS
        if op.params.n == 1:
            return self._variable(branch, name, version)
        return [self._variable(branch, name, version, i) for i in range(op.params.n)]

    def record_op(self, branch: Branch, op: Op) -> None:
        """Record an op without an expression."""
        if isinstance(op, Assign):
            self._add(branch, Assign(op.name, plain(op.value)), [op.name])
            self.values[branch][op.name] = op.value
        elif isinstance(op, VarScopeBegin):
            self._add(branch, op)
        elif isinstance(op, VarScopeEnd):
            node = self._add(branch, op, [op.name])
            self.values[branch][op.name] = self._variable(branch, *node.assignments[0])

    def record_fork(self, branch: Branch, children: Sequence[Branch]) -> None:
        """Record a fork; each child inherits the branch's variables."""
        for child in children:
            self.begin_stream(child)
            self.values[child] = dict(self.values[branch])
        fork = self._add(branch, ForkNode(tuple(self._streams[child] for child in children)))
        for i, child in enumerate(children):
            self._add(child, ForkItem(i), dependencies=[fork])

    def record_join(self, branch: Branch, join: Join) -> None:
        """Record a join and the gathered values."""
        streams = tuple(self._streams[child] for child in join.children)
        last_nodes = [self._last[stream] for stream in streams]
        node = JoinNode(streams, join.append, join.keep)
        self._add(branch, node, join.names, dependencies=last_nodes)

        for name in join.names:
            owners = [child for child in join.children if name in child.scope.own]
            gathered = [self.values[child][name] for child in owners]
            if join.keep:
                self.values[branch][name] = gathered[0]
            else:
                has_calls = any(value is TOOL_CALLS for value in gathered)
                self.values[branch][name] = TOOL_CALLS if has_calls else gathered

    def graph(self, signature: Signature, values: Mapping[str, Any], stopped: str = "") -> Graph:
        """Return the recorded graph of a program traced with argument `values`."""
        parameters = [p for p in signature.parameters.values() if is_open(p, values)]
        defaults = [(p.name, p.default) for p in parameters if p.default is not p.empty]
        return Graph(
            nodes=tuple(self.nodes),
            placeholders=tuple(self.placeholders.all),
            parameters=tuple(p.name for p in parameters),
            defaults=tuple(defaults),
            stopped=stopped,
            keyword_only=_keyword_only(signature, values),
        )

    def _variable(
        self, branch: Branch, name: str, version: int, item: int | None = None
    ) -> PlaceholderText:
        return self.placeholders.text(Variable(self._streams[branch], name, version, item))

    def _add(
        self,
        branch: Branch,
        op: NodeOp,
        names: Sequence[str] = (),
        dependencies: Sequence[Node] = (),
        location: Location | None = None,
        **text: Any,  # `Node.kind` and `continues_text`
    ) -> Node:
        if any(is_marked(plain(name)) for name in names):
            raise TraceError(f"{location or caller()}: a name depends on an argument", GIVE_VALUE)
        stream, versions = self._streams[branch], self._versions[branch]
        placeholders = {number: self.placeholders.all[number] for number in _numbers_in(op)}
        setters = [
            self._setters[value.stream, value.name, value.version]
            for value in (op, *placeholders.values())
            if type(value) is Variable
        ]
        last = [self._last[stream]] if stream in self._last else []
        distinct = tuple({node.id: node for node in (*last, *dependencies, *setters)}.values())
        assignments = tuple((name, versions[name]) for name in names)
        versions.update(names)

        node = Node(
            id=len(self.nodes),
            stream=stream,
            op=op,
            program=self._titles[-1],
            location=location or caller(),
            dependency_ids=tuple(node.id for node in distinct),
            dependencies=distinct,
            assignments=assignments,
            placeholders=tuple(placeholders.items()),
            **text,
        )
        self._setters |= {(stream, *assignment): node for assignment in assignments}
        self.nodes.append(node)
        self._last[stream] = node
        return node


def is_open(parameter: Parameter, values: Mapping[str, Any]) -> bool:
    """Return whether the trace uses a placeholder for `parameter`."""
    if parameter.name in values or parameter.kind in (
        Parameter.VAR_KEYWORD,
        Parameter.VAR_POSITIONAL,
    ):
        return False
    return parameter.default is parameter.empty or isinstance(parameter.default, str)


def _keyword_only(signature: Signature, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters passed by keyword, including those after an omitted parameter."""
    names, by_keyword = [], False
    for name, parameter in signature.parameters.items():
        by_keyword = by_keyword or parameter.kind is Parameter.KEYWORD_ONLY
        if is_open(parameter, values):
            names += [name] * by_keyword
        else:
            by_keyword = by_keyword or name not in values
    return tuple(names)


def _numbers_in(op: NodeOp) -> dict[int, None]:
    """Return the numbers of the placeholders inside a node, in order."""
    match op:
        case Gen():
            inner: Any = (op.options, op.reasoning, op.tools)
        case Select():
            inner = op.choices
        case Assign() | ReturnNode():
            inner = op.value
        case CallNode():
            inner = (op.arguments, () if op.settings is None else op.settings.defaults)
        case UseTools() | ToolResults():
            inner = op
        case _:
            inner = ()
    return dict.fromkeys(numbers(inner))
