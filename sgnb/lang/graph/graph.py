"""A traced program as data: printed, drawn for Graphviz, saved as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...codec import reading
from ...errors import printable
from ..ir import Gen, Select
from .drawing import picture
from .holes import Argument, Hole
from .nodes import Called, Node, Returned
from .saved import load, save


@dataclass(frozen=True)
class Graph:
    """A traced program. `SglFunction.trace` returns a graph; `SglFunction.compile` returns a
    runnable graph."""

    nodes: tuple[Node, ...]
    holes: tuple[Hole, ...]  # indexed by the numbers of the marks in texts
    parameters: tuple[str, ...]  # arguments of a run
    defaults: tuple[tuple[str, str], ...] = ()  # defaults of parameters
    stopped: str = ""  # reason for a partial trace (dependence on generated data); "" if complete
    by_name: tuple[str, ...] = ()  # keyword-only parameters

    @property
    def called(self) -> Called:
        """The node content of the traced program."""
        what = self.nodes[0].what
        assert isinstance(what, Called)
        return what

    @property
    def title(self) -> str:
        """The program's name."""
        return self.called.title

    @property
    def last_node(self) -> Node:
        """The last node of the program's main stream (the name is from SGLang's tracer)."""
        own = [node for node in self.nodes if node.stream == 0]
        return [node for node in own if not isinstance(node.what, Returned)][-1]

    @property
    def arguments_in_texts(self) -> tuple[str, ...]:
        """The names of arguments in the program's texts, in order of appearance."""
        held = (node.what.name for node in self.nodes if isinstance(node.what, Argument))
        return tuple(dict.fromkeys(held))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of node ids: the second node runs after the first."""
        return tuple((id, node.id) for node in self.nodes for id in node.after)

    @property
    def signature(self) -> inspect.Signature:
        """The program's signature without the parameters bound by the trace."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        defaults = dict(self.defaults)
        own = [inspect.Parameter(name, kinds[name in self.by_name],
                                 default=defaults.get(name, inspect.Parameter.empty))
               for name in self.parameters]  # fmt: skip
        return inspect.Signature([inspect.Parameter("s", kinds[0]), *own])

    def print_graph_dfs(self) -> str:
        """Return a line per node; nodes of a called program carry the program's name."""
        return "".join(f"{line}\n" for line in self._lines())

    def print_graph(self) -> None:
        """Print `print_graph_dfs()`."""
        print(self.print_graph_dfs(), end="")

    def to_dot(self) -> str:
        """Return the graph in the DOT language of Graphviz, with a box per stream."""
        lines = [f"digraph {_quoted(self.title)} {{", "  node [shape=box];"]
        for stream in dict.fromkeys(node.stream for node in self.nodes):
            nodes = [node for node in self.nodes if node.stream == stream]
            lines.append(f"  subgraph cluster_{stream} {{ label={_quoted(nodes[0].program)};")
            lines += [f"    {node.id} [label={_quoted(node.label())}];" for node in nodes]
            lines.append("  }")
        lines += [f"  {begin} -> {end};" for begin, end in self.edges]
        return "\n".join([*lines, "}", ""])

    def to_svg(self) -> str:
        """Return the graph as an SVG with a column per stream, as displayed in notebooks."""
        return picture(self.nodes, self.title)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "image/svg+xml": self.to_svg()}

    def to_json(self) -> str:
        """Serialize the graph for `from_json`.

        Raises:
            ProgramError: JSON cannot hold a part of the graph, such as a user function.
        """
        return save(vars(self), self.title)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """Return the graph that `to_json` serialized as `text`.

        Raises:
            RecordError: `text` is damaged or from another version of the format.
        """
        with reading("the graph", "Pass the text of Graph.to_json()."):
            graph = load(text, cls)
            _ = graph.signature  # ValueError for invalid parameter names
        return graph

    def __repr__(self) -> str:
        streams = len({node.stream for node in self.nodes})
        calls = sum(isinstance(node.what, Gen | Select) for node in self.nodes)
        counts = (len(self.nodes), "node"), (streams, "stream"), (calls, "call")
        told = ", ".join(f"{number} {what}{'s' * (number != 1)}" for number, what in counts)
        return f"<Graph of {printable(self.title)}: {told}{', stopped' * bool(self.stopped)}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for node in self.nodes:
            program = f"  # {node.program}" if node.program != self.title else ""
            yield node.line() + printable(program)
        if self.stopped:
            yield printable(f"# stopped: {self.stopped}")


def _quoted(text: str) -> str:
    """Quote a text for Graphviz."""
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
