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
    """A traced program: `SglFunction.trace` makes it, `SglFunction.compile` one that runs."""

    nodes: tuple[Node, ...]
    holes: tuple[Hole, ...]  # by the numbers that marks in texts have
    parameters: tuple[str, ...]  # the arguments that a run gives
    defaults: tuple[tuple[str, str], ...] = ()  # of some of them
    stopped: str = ""  # why there is no more: where it depends on generated data; "" for all of it
    by_name: tuple[str, ...] = ()  # the parameters that stand in no place

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
    def arguments_in_texts(self) -> tuple[str, ...]:
        """The names of those that its texts hold, in their order."""
        held = (node.what.name for node in self.nodes if isinstance(node.what, Argument))
        return tuple(dict.fromkeys(held))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of ids: the second comes after the first."""
        return tuple((id, node.id) for node in self.nodes for id in node.after)

    @property
    def signature(self) -> inspect.Signature:
        """The program's, less what the trace has given values."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        defaults = dict(self.defaults)
        own = [inspect.Parameter(name, kinds[name in self.by_name],
                                 default=defaults.get(name, inspect.Parameter.empty))
               for name in self.parameters]  # fmt: skip
        return inspect.Signature([inspect.Parameter("s", kinds[0]), *own])

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

    def to_svg(self) -> str:
        """A picture: a column for each stream. Notebooks show it."""
        return picture(self.nodes, self.title)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "image/svg+xml": self.to_svg()}

    def to_json(self) -> str:
        """A text of which `from_json` makes an equal graph. ProgramError, with the line, for what
        JSON cannot hold, such as a function of yours."""
        return save(vars(self), self.title)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """Return the graph of which `to_json` returned `text`.

        Raises:
            RecordError: `text` is damaged or from another version of the format.
        """
        with reading("the graph", "Pass the text of Graph.to_json()."):
            graph = load(text, cls)
            _ = graph.signature  # ValueError for names that no function can have
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
    """As Graphviz writes a text."""
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
