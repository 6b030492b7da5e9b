"""The nodes of a graph, and the graph: data that can be printed and compared. Knows no
execution."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import shown
from ...segment import Kind
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..executor import Executor
from ..ir import Gen, RoleBegin, RoleEnd, Select, ToolResults, UseTools
from ..location import Location
from .holes import Argument, Hole, Variable, fill


@dataclass(frozen=True, slots=True)
class Constant:
    """Text that is the same in every run."""

    text: str


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork into the `streams`."""

    streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForkItem:
    """The beginning of the fork's stream `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The end of `streams`; what `append` and `keep` mean, `core.ops.Join` says."""

    streams: tuple[int, ...]
    append: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class OwnRun:
    """What a program is run with that another one runs."""

    caller: int  # the stream whose program called it
    source: str
    location: Location | None
    marks: bool
    keep_tokens: bool
    defaults: tuple[tuple[str, Any], ...] = ()  # of sampling
    backend: Executor | None = None  # None: the default one
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """The beginning of a program, on a stream of its own where it has a run of its own; of the
    graph's own program `arguments` are those that the trace gave values."""

    title: str
    arguments: tuple[tuple[str, Any], ...]
    run: OwnRun | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The end of a called program's code, and what it returned."""

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
    """What a stream does at one place, after the nodes `before` it: the stream's last one, and
    those of other streams that it needs something of."""

    id: int
    stream: int
    what: What
    program: str  # whose code appended it
    location: Location
    after: tuple[int, ...]  # the ids of `before`
    before: tuple[Node, ...] = field(compare=False, repr=False)
    sets: tuple[tuple[str, int], ...] = ()  # variables, and how many times they were set before
    kind: Kind | None = None  # of text
    joined: bool = False  # text that goes on what the node before it has, as one text
    holes: tuple[tuple[int, Hole], ...] = ()  # to be filled before it runs, with their numbers

    def print_graph_dfs(self) -> str:
        """The nodes that lead here and this one, a line for each."""
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
        """What it is, in a few words."""
        name, what, show = self.sets[0][0] if self.sets else "", self.what, self._show
        match what:
            case Constant():
                return repr(what.text)
            case Argument() | Variable():
                return str(what)
            case Gen():
                return f"gen({', '.join([repr(name), *self._given(what.options)])})"
            case Select():
                return f"select({name!r}, {show(list(what.choices))})"
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
                return f"return {show(what.value)}"
            case UseTools():
                return f"use_tools({', '.join(tool.name for tool in what.tools)})"
            case ToolResults():
                return f"tool({', '.join(call.name for call in what.calls)})"

    def _show(self, value: Any) -> str:
        """As Python writes it, with the names of its holes; not all of a long one."""
        names = {number: str(hole) for number, hole in self.holes}
        return shown(fill(value, names.__getitem__))

    def _given(self, values: Iterable[tuple[str, Any]]) -> list[str]:
        return [f"{name}={self._show(value)}" for name, value in values]


@dataclass(frozen=True)
class Graph:
    """A traced program: `SglFunction.trace` makes it, `SglFunction.compile` one that runs."""

    nodes: tuple[Node, ...]
    holes: tuple[Hole, ...]  # by the numbers that marks in texts have
    parameters: tuple[str, ...]  # the arguments that a run gives
    defaults: tuple[tuple[str, str], ...] = ()  # of some of them
    stopped: str = ""  # why there is no more: where it depends on generated data; "" for all of it

    @property
    def called(self) -> Called:
        """The program itself."""
        what = self.nodes[0].what
        assert isinstance(what, Called)
        return what

    @property
    def title(self) -> str:
        """The program's name."""
        return self.called.title

    @property
    def last_node(self) -> Node:
        """What the program's own stream has appended last; SGLang's tracer calls it so."""
        own = [node for node in self.nodes if node.stream == 0]
        return [node for node in own if not isinstance(node.what, Returned)][-1]

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of ids: the second comes after the first."""
        return tuple((id, node.id) for node in self.nodes for id in node.after)

    @property
    def signature(self) -> inspect.Signature:
        """The program's, less what the trace has given values."""
        kind, defaults = inspect.Parameter.POSITIONAL_OR_KEYWORD, dict(self.defaults)
        own = [inspect.Parameter(name, kind, default=defaults.get(name, inspect.Parameter.empty))
               for name in sorted(self.parameters, key=lambda name: name in defaults)]  # fmt: skip
        return inspect.Signature([inspect.Parameter("s", kind), *own])

    def print_graph_dfs(self) -> str:
        """All nodes, a line for each; what a called program has appended says its name."""
        return "".join(f"{line}\n" for line in self._lines())

    def print_graph(self) -> None:
        """Print `print_graph_dfs()`."""
        print(self.print_graph_dfs(), end="")

    def to_dot(self) -> str:
        """The graph in the language of Graphviz, a box for each stream."""
        lines = [f"digraph {_quoted(self.title)} {{", "  node [shape=box];"]
        for stream in dict.fromkeys(node.stream for node in self.nodes):
            nodes = [node for node in self.nodes if node.stream == stream]
            lines.append(f"  subgraph cluster_{stream} {{ label={_quoted(nodes[0].program)};")
            lines += [f"    {node.id} [label={_quoted(node.label())}];" for node in nodes]
            lines.append("  }")
        lines += [f"  {begin} -> {end};" for begin, end in self.edges]
        return "\n".join([*lines, "}", ""])

    def __repr__(self) -> str:
        streams = len({node.stream for node in self.nodes})
        calls = sum(isinstance(node.what, Gen | Select) for node in self.nodes)
        counts = (len(self.nodes), "node"), (streams, "stream"), (calls, "call")
        told = ", ".join(f"{number} {what}{'s' * (number != 1)}" for number, what in counts)
        return f"<Graph of {self.title}: {told}{', stopped' * bool(self.stopped)}>"

    def __str__(self) -> str:
        return self.print_graph_dfs()

    def _lines(self) -> Iterator[str]:
        for node in self.nodes:
            yield node.line() + (f"  # {node.program}" if node.program != self.title else "")
        if self.stopped:
            yield f"# stopped: {self.stopped}"


def _quoted(text: str) -> str:
    """As Graphviz writes a text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
