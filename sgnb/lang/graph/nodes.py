"""Nodes of a graph: printable, comparable data. Knows no execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...errors import printable, shown
from ...segment import Kind
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..executor import Executor, model_name
from ..ir import (
    Gen,
    MediaExpr,
    Part,
    PartSet,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
    ToolResults,
    UnreadMedia,
    UseTools,
)
from ..location import Location
from .placeholders import Argument, Placeholder, Variable, fill


@dataclass(frozen=True, slots=True)
class Constant:
    """Text that is equal in every run."""

    text: str


@dataclass(frozen=True, slots=True)
class ForkNode:
    """A fork into `streams`."""

    streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForkItem:
    """The beginning of fork stream `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class JoinNode:
    """The end of `streams`; see `core.ops.Join` for `append` and `keep`."""

    streams: tuple[int, ...]
    append: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The run settings of a called program."""

    caller: int  # stream of the calling program
    source: str
    location: Location | None
    special_tokens: bool
    keep_tokens: bool
    num_api_spec_tokens: int | None
    defaults: tuple[tuple[str, Any], ...] = ()  # sampling defaults
    backend: Executor | None = None  # None for the default executor
    stream: bool = False


@dataclass(frozen=True, slots=True)
class CallNode:
    """The beginning of a program, on a separate stream if `settings` is set.

    For the traced program, `arguments` holds the values bound by the trace.
    """

    title: str
    arguments: tuple[tuple[str, Any], ...]
    settings: RunSettings | None = None


@dataclass(frozen=True, slots=True)
class ReturnNode:
    """The end of a called program's code and the return value."""

    value: Any


NodeOp = (
    Constant
    | Argument
    | Variable
    | MediaExpr
    | UnreadMedia
    | PartSet
    | Gen
    | Select
    | RoleBegin
    | RoleEnd
    | UseTools
    | ToolResults
    | Assign
    | VarScopeBegin
    | VarScopeEnd
    | ForkNode
    | ForkItem
    | JoinNode
    | CallNode
    | ReturnNode
)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a stream and its dependencies: the stream's previous node and nodes of other
    streams."""

    id: int
    stream: int
    op: NodeOp
    program: str  # program whose code appended the node
    location: Location
    dependency_ids: tuple[int, ...]
    dependencies: tuple[Node, ...] = field(compare=False, repr=False)
    assignments: tuple[tuple[str, int], ...] = ()  # variable and number of earlier assignments
    kind: Kind | None = None  # kind of text
    continues_text: bool = False  # part of the same text as the previous node
    placeholders: tuple[tuple[int, Placeholder], ...] = ()  # by number, filled before execution

    def print_graph_dfs(self) -> str:
        """Return a line for each ancestor node and this node."""
        pending, nodes = [self], {self.id: self}
        while pending:
            for node in pending.pop().dependencies:
                if node.id not in nodes:
                    nodes[node.id] = node
                    pending.append(node)
        return "".join(f"{nodes[id].line()}\n" for id in sorted(nodes))

    def line(self) -> str:
        """Return `%id = %dependency + label`."""
        ids = [f"%{id}" for id in self.dependency_ids]
        if isinstance(self.op, ForkItem):
            return f"%{self.id} = {ids[0]}[{self.op.index}]"
        return f"%{self.id} = {' + '.join([*ids[:1], self.label(), *ids[1:]])}"

    def label(self) -> str:
        """Describe the node in a few printable words."""
        return printable(self._label())

    def _label(self) -> str:
        name, op, show = self.assignments[0][0] if self.assignments else "", self.op, self._show
        match op:
            case Constant():
                return repr(op.text)
            case Argument() | Variable():
                return str(op)
            case MediaExpr():
                return f"{op.item.label} {op.item.digest.hex()[:8]}"
            case UnreadMedia():
                options = [
                    (name, value) for name, value in op.options if value not in (None, False)
                ]
                return f"{op.kind}({', '.join([show(op.source), *self._keywords(options)])})"
            case PartSet():
                texts = ["".join(map(self._part, part)) for part in op.parts]
                options = [("separator", op.separator.text), *[("name", op.name)] * bool(op.name)]
                return f"unordered({', '.join([*map(show, texts), *self._keywords(options)])})"
            case Gen():
                details = *self._keywords(op.options), *_backend_and_timeout(op)
                return f"gen({', '.join([repr(name), *details])})"
            case Select():
                details = show(list(op.choices)), *_backend_and_timeout(op)
                return f"select({', '.join([repr(name), *details])})"
            case RoleBegin() | RoleEnd():
                return f"{op.role}_{'begin' if isinstance(op, RoleBegin) else 'end'}()"
            case Assign():
                return f"s[{name!r}] = {show(op.value)}"
            case VarScopeBegin():
                return "var_scope"
            case VarScopeEnd():
                return f"var_scope({name!r})"
            case ForkNode():
                return f"fork({len(op.streams)})"
            case ForkItem():
                return f"[{op.index}]"
            case JoinNode():
                return "keep" if op.keep else "join(text)" if op.append else "join"
            case CallNode():
                return f"{op.title}({', '.join(self._keywords(op.arguments))})"
            case ReturnNode():
                return "return" if op.value is None else f"return {show(op.value)}"
            case UseTools():
                return f"use_tools({', '.join(tool.name for tool in op.tools)})"
            case ToolResults():
                return f"tool({', '.join(call.name for call in op.calls)})"

    def _part(self, part: Part) -> str:
        return part.text if isinstance(part, Text) else f"[{part.kind}]"

    def _show(self, value: Any) -> str:
        """Format `value` like Python, with names of placeholders; truncates long values."""
        names = {number: str(placeholder) for number, placeholder in self.placeholders}
        text = fill(value, names.__getitem__)
        return text if text in names.values() else shown(text)

    def _keywords(self, values: Iterable[tuple[str, Any]]) -> list[str]:
        return [f"{name}={self._show(value)}" for name, value in values]


def _backend_and_timeout(op: Gen | Select) -> list[str]:
    backend = [] if op.backend is None else [f"backend={model_name(op.backend)}"]
    return backend if op.timeout is None else [*backend, f"timeout={op.timeout:g}"]
