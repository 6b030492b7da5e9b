"""A traced program as data: printed, drawn for Graphviz, saved as JSON.

JSON keeps every node without loss. Content that JSON cannot hold, such as user functions, is
rejected.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ...codec import build, check_version, dumps, parse, reading
from ...errors import ProgramError, TraceError, printable, shown
from ...media import MediaItem, from_plain, to_plain
from ..chat.reasoning import Reasoning
from ..core.choices import METHODS
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..ir import (
    Gen,
    MediaExpr,
    PartSet,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
    UnreadMedia,
)
from ..location import Location
from .drawing import picture
from .nodes import (
    CallNode,
    Constant,
    ForkItem,
    ForkNode,
    JoinNode,
    Node,
    ReturnNode,
    RunSettings,
)
from .placeholders import Argument, Placeholder, Variable, cut

FORMAT = 5
"""Version of the JSON format."""

_SAVED_TYPES: dict[str, Any] = {
    type_.__name__: type_
    for type_ in (
        Argument, Assign, CallNode, Constant, ForkItem, ForkNode, Gen, JoinNode, Location,
        MediaExpr, Node, Reasoning, ReturnNode, RoleBegin, RoleEnd, RunSettings, Select, Text,
        PartSet, UnreadMedia, Variable, VarScopeBegin, VarScopeEnd,
    )
}  # fmt: skip
_UNSAVED_FIELDS = {Node: {"dependencies"}, MediaExpr: {"source", "options"}}
"""Fields that follow from other fields."""
_MEDIA_HINT = "read the file outside, or make its path an argument without a default"
_HINT = "a graph runs without being saved; JSON holds texts, numbers, lists and dicts"


@dataclass(frozen=True)
class Graph:
    """A traced program. `SglFunction.trace` returns a graph; `SglFunction.compile` returns a
    runnable graph."""

    nodes: tuple[Node, ...]
    placeholders: tuple[Placeholder, ...]  # indexed by the numbers of the marks in texts
    parameters: tuple[str, ...]  # arguments of a run
    defaults: tuple[tuple[str, str], ...] = ()  # defaults of parameters
    stopped: str = ""  # reason for a partial trace (dependence on generated data); "" if complete
    keyword_only: tuple[str, ...] = ()  # names of parameters
    fixed: tuple[str, ...] = ()  # parameters whose value or default the trace has used

    @property
    def call(self) -> CallNode:
        """The call of the traced program."""
        call = self.nodes[0].op
        assert isinstance(call, CallNode)
        return call

    @property
    def settings(self) -> RunSettings:
        """The run settings of the traced program."""
        settings = self.call.settings
        assert settings is not None
        return settings

    @property
    def title(self) -> str:
        """The program's name."""
        return self.call.title

    @property
    def last_node(self) -> Node:
        """The last node of the program's main stream (the name is from SGLang's tracer)."""
        nodes = [node for node in self.nodes if node.stream == 0]
        return [node for node in nodes if not isinstance(node.op, ReturnNode)][-1]

    @property
    def arguments_in_texts(self) -> tuple[str, ...]:
        """The names of arguments in the program's texts and media, in order of appearance."""
        names = []
        for node in self.nodes:
            inside = [placeholder for _, placeholder in node.placeholders]
            values = inside if isinstance(node.op, UnreadMedia | PartSet) else [node.op]
            names += [value.name for value in values if isinstance(value, Argument)]
        return tuple(dict.fromkeys(names))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of node ids: the second node runs after the first."""
        return tuple((id, node.id) for node in self.nodes for id in node.dependency_ids)

    @property
    def signature(self) -> inspect.Signature:
        """The program's signature without the parameters bound by the trace."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        defaults = dict(self.defaults)
        parameters = [inspect.Parameter("s", kinds[0])]
        for name in self.parameters:
            default = defaults.get(name, inspect.Parameter.empty)
            kind = kinds[name in self.keyword_only]
            parameters.append(inspect.Parameter(name, kind, default=default))
        return inspect.Signature(parameters)

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
        try:
            _check_sources(self)
        except ValueError as error:
            raise ProgramError(f"{self.title} cannot be saved: {error}", _MEDIA_HINT) from None
        return _save(vars(self), self.title)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """Return the graph that `to_json` serialized as `text`.

        Raises:
            RecordError: `text` is damaged or from another version of the format.
        """
        with reading("the graph", "Pass the text of Graph.to_json()."):
            graph = _load(text)
            _ = graph.signature  # ValueError for invalid parameter names
        return graph

    def __repr__(self) -> str:
        streams = len({node.stream for node in self.nodes})
        calls = sum(isinstance(node.op, Gen | Select) for node in self.nodes)
        counts = (len(self.nodes), "node"), (streams, "stream"), (calls, "call")
        summary = ", ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in counts)
        return f"<Graph of {printable(self.title)}: {summary}{', stopped' * bool(self.stopped)}>"

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


def _save(parts: Mapping[str, Any], title: str) -> str:
    """Return the parts of the graph `title`, by their names, as JSON.

    Raises:
        ProgramError: JSON cannot hold a part.
    """
    try:
        saved = {name: _saved(value, title) for name, value in parts.items()}
        return dumps({"format": FORMAT, **saved})
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{title}: a value cannot be saved: {error}", _HINT) from None


def _load(text: str) -> Graph:
    """Return the graph in a text of `_save`. Call inside `codec.reading`."""
    nodes: dict[int, Node] = {}
    saved = parse(text)
    check_version(saved, "format", FORMAT)
    parts = {name: _read(value, nodes) for name, value in saved.items()}
    _check(list(nodes.values()))
    graph = build(Graph, parts)
    _check_sources(graph)
    return graph


def _saved(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Location):
        return {"Location": list(value)}
    if type(value) is tuple:
        return [_saved(item, where) for item in value]
    if type(value) is list:
        return {"list": [_saved(item, where) for item in value]}
    if type(value) is dict:
        return {"dict": [_saved(pair, where) for pair in value.items()]}
    if isinstance(value, MediaItem):
        return {"item": to_plain(value)}
    if isinstance(value, Node):
        where = f"{value.location}: {value.label()}"
    if type(value).__name__ in _SAVED_TYPES and is_dataclass(value):
        values = [_saved(getattr(value, name), where) for name in _saved_fields(type(value))]
        return {type(value).__name__: values}
    for name, method in METHODS.items():
        if value is method:
            return {"method": name}
    raise ProgramError(f"{where}: {shown(value)} cannot be saved", _HINT)


def _read(saved: Any, nodes: dict[int, Node]) -> Any:
    """Decode a saved value. `nodes`: the decoded nodes by id."""
    if isinstance(saved, list):
        return tuple(_read(item, nodes) for item in saved)
    if not isinstance(saved, dict):
        return saved
    ((name, value),) = saved.items()
    if name == "method":
        return METHODS[value]
    if name == "item":
        return from_plain(value)
    inner = _read(value, nodes)
    if name in ("list", "dict"):
        return list(inner) if name == "list" else dict(inner)
    type_ = _SAVED_TYPES[name]
    if type_ is Location:
        return build(Location, inner)
    arguments = dict(zip(_saved_fields(type_), inner, strict=True))
    if type_ is MediaExpr:
        return MediaExpr(**arguments)
    if type_ is not Node:
        return build(type_, arguments)

    arguments["dependencies"] = tuple(nodes[id] for id in arguments["dependency_ids"])
    node = build(Node, arguments)
    if nodes and node.id <= next(reversed(nodes)):
        raise ValueError(f"node {node.id} is there twice, or too late")
    nodes[node.id] = node
    return node


def _check(nodes: list[Node]) -> None:
    """Raise ValueError if a node uses a stream or a variable before the first node of the stream or
    variable."""
    if not nodes or not isinstance(nodes[0].op, CallNode) or nodes[0].op.settings is None:
        raise ValueError("the first node is not the call of the program")
    streams, variables = {0}, set[tuple[int, str, int]]()
    for node in nodes:
        needed_streams = {node.stream}
        match node.op:
            case CallNode(settings=RunSettings(caller=caller)):
                needed_streams = {caller}
                streams.add(node.stream)
            case ForkNode(streams=children):
                streams.update(children)
            case JoinNode(streams=children):
                needed_streams.update(children)
        if not needed_streams <= streams:
            raise ValueError(f"node {node.id} is on a stream that nothing begins")

        values = (node.op, *(placeholder for _, placeholder in node.placeholders))
        needed = {(v.stream, v.name, v.version) for v in values if isinstance(v, Variable)}
        if not needed <= variables:
            raise ValueError(f"node {node.id} reads a variable that nothing sets")
        variables.update((node.stream, name, version) for name, version in node.assignments)
        node.line()  # KeyError for a mark without a placeholder


def _check_sources(graph: Graph) -> None:
    """Raise ValueError if the graph itself names a file to read. Saved graphs come from other
    people, so only arguments of a run may name files and URLs."""
    defaults = dict(graph.defaults)
    for node, media in _unread_media(graph):
        placeholders = dict(node.placeholders)
        texts = media.source if isinstance(media.source, list | tuple) else [media.source]
        for text in texts:
            pieces = _pieces(text)
            names = [placeholders[piece] for piece in pieces if isinstance(piece, int)]
            if len(pieces) != 1 or not (names and isinstance(names[0], Argument)):
                raise ValueError(f"{node.label()} reads a file that no argument names")
            if names[0].name in defaults:
                raise ValueError(f"{node.label()} reads the default of {names[0].name!r}")


def _unread_media(graph: Graph) -> Iterator[tuple[Node, UnreadMedia]]:
    for node in graph.nodes:
        op = node.op
        inner = [each for part in op.parts for each in part] if isinstance(op, PartSet) else [op]
        yield from ((node, each) for each in inner if isinstance(each, UnreadMedia))


def _pieces(text: Any) -> list[str | int]:
    """Return the pieces of a text with placeholders; none for a damaged text."""
    try:
        return cut(text) if isinstance(text, str) else []
    except TraceError:
        return []


def _saved_fields(type_: Any) -> list[str]:
    return [
        field.name for field in fields(type_) if field.name not in _UNSAVED_FIELDS.get(type_, ())
    ]
