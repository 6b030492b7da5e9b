"""Nodes of a graph: printable, comparable data. Knows no execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...errors import printable, shown
from ...segment import Kind
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..executor import Executor, model_name
from ..ir import Gen, RoleBegin, RoleEnd, Select, ToolResults, UseTools
from ..location import Location
from .holes import Argument, Hole, Variable, fill


@dataclass(frozen=True, slots=True)
class Constant:
    """Text that is equal in every run."""

    text: str


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork into `streams`."""

    streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForkItem:
    """The beginning of fork stream `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The end of `streams`; see `core.ops.Join` for `append` and `keep`."""

    streams: tuple[int, ...]
    append: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class OwnRun:
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
class Called:
    """The beginning of a program, on a separate stream if `run` is set. For the traced program,
    `arguments` holds the values bound by the trace."""

    title: str
    arguments: tuple[tuple[str, Any], ...]
    run: OwnRun | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The end of a called program's code and its return value."""

    value: Any


What = (
    Constant
    | Argument
    | Variable
    | Gen
    | Select
    | RoleBegin
    | RoleEnd
    | UseTools
    | ToolResults
    | Assign
    | VarScopeBegin
    | VarScopeEnd
    | Forked
    | ForkItem
    | Joined
    | Called
    | Returned
)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a stream and its dependencies: the stream's previous node and nodes of other
    streams."""

    id: int
    stream: int
    what: What
    program: str  # program whose code appended the node
    location: Location
    after: tuple[int, ...]  # ids of `before`
    before: tuple[Node, ...] = field(compare=False, repr=False)
    sets: tuple[tuple[str, int], ...] = ()  # variables with the number of earlier assignments
    kind: Kind | None = None  # kind of text
    joined: bool = False  # continues the text of the previous node
    holes: tuple[tuple[int, Hole], ...] = ()  # number and hole, filled before execution

    def print_graph_dfs(self) -> str:
        """Return a line for each ancestor node and this node."""
        todo, found = [self], {self.id: self}
        while todo:
            for node in todo.pop().before:
                if node.id not in found:
                    found[node.id] = node
                    todo.append(node)
        return "".join(f"{found[id].line()}\n" for id in sorted(found))

    def line(self) -> str:
        """`%id = %before + what`."""
        after = [f"%{id}" for id in self.after]
        if isinstance(self.what, ForkItem):
            return f"%{self.id} = {after[0]}[{self.what.index}]"
        return f"%{self.id} = {' + '.join([*after[:1], self.label(), *after[1:]])}"

    def label(self) -> str:
        """Describe the node in a few printable words."""
        return printable(self._label())

    def _label(self) -> str:
        name, what, show = self.sets[0][0] if self.sets else "", self.what, self._show
        match what:
            case Constant():
                return repr(what.text)
            case Argument() | Variable():
                return str(what)
            case Gen():
                told = *self._given(what.options), *_asked(what)
                return f"gen({', '.join([repr(name), *told])})"
            case Select():
                told = show(list(what.choices)), *_asked(what)
                return f"select({', '.join([repr(name), *told])})"
            case RoleBegin() | RoleEnd():
                return f"{what.role}_{'begin' if isinstance(what, RoleBegin) else 'end'}()"
            case Assign():
                return f"s[{name!r}] = {show(what.value)}"
            case VarScopeBegin():
                return "var_scope"
            case VarScopeEnd():
                return f"var_scope({name!r})"
            case Forked():
                return f"fork({len(what.streams)})"
            case ForkItem():
                return f"[{what.index}]"
            case Joined():
                return "keep" if what.keep else "join(text)" if what.append else "join"
            case Called():
                return f"{what.title}({', '.join(self._given(what.arguments))})"
            case Returned():
                return "return" if what.value is None else f"return {show(what.value)}"
            case UseTools():
                return f"use_tools({', '.join(tool.name for tool in what.tools)})"
            case ToolResults():
                return f"tool({', '.join(call.name for call in what.calls)})"

    def _show(self, value: Any) -> str:
        """Format `value` like Python, with hole names; truncates long values."""
        names = {number: str(hole) for number, hole in self.holes}
        told = fill(value, names.__getitem__)
        return told if told in names.values() else shown(told)

    def _given(self, values: Iterable[tuple[str, Any]]) -> list[str]:
        return [f"{name}={self._show(value)}" for name, value in values]


def _asked(what: Gen | Select) -> list[str]:
    """Describe the model and the timeout of a call, if given."""
    backend = [] if what.backend is None else [f"backend={model_name(what.backend)}"]
    return backend if what.timeout is None else [*backend, f"timeout={what.timeout:g}"]
