"""From the entries of a trace to the nodes of a graph. Knows no running program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...errors import TraceError
from ..core.ops import Assign
from ..ir import Gen, Part, PartSet, Select, Text, ToolResults, UnreadMedia, UseTools
from ..location import Location, caller, standing
from .nodes import CallNode, Constant, ForkItem, ForkNode, JoinNode, Node, NodeOp, ReturnNode
from .placeholders import Placeholders, Variable, cut, numbers

GIVE_VALUE = "give the argument a value: f.trace(name=value)"


class TraceEntry(NamedTuple):
    """A recorded operation. The builder cuts a text into constants and placeholders, and adds the
    beginnings of a fork's streams."""

    stream: int
    op: NodeOp | Text
    assignments: tuple[tuple[str, int], ...]  # variable and number of earlier assignments
    program: str
    location: Location


class NodeBuilder:
    """Builds nodes, with the dependencies between streams."""

    def __init__(self, placeholders: Placeholders) -> None:
        self.nodes: list[Node] = []
        self._placeholders = placeholders
        self._last: dict[int, Node] = {}  # last node of each stream
        self._setters: dict[tuple[int, str, int], Node] = {}  # by stream, name and version

    def add_all(self, entries: Iterable[TraceEntry]) -> None:
        """Add the nodes of all entries.

        Raises:
            TraceError: A text with a placeholder was changed, or an object contains a placeholder.
                The message names the line of the entry.
        """
        token = standing.set(None)
        try:
            for entry in entries:
                standing.set(entry.location)
                self._add_entry(entry)
        finally:
            standing.reset(token)

    def _add_entry(self, entry: TraceEntry) -> None:
        op = entry.op
        if not isinstance(op, Text):
            node = self._add(entry, op)
            if isinstance(op, ForkNode):
                for i, stream in enumerate(op.streams):
                    item = entry._replace(stream=stream, assignments=())
                    self._add(item, ForkItem(i), dependencies=[node])
            return
        for i, piece in enumerate(cut(op.text) or [""]):
            text: NodeOp
            text = Constant(piece) if isinstance(piece, str) else self._placeholders.all[piece]
            self._add(entry, text, kind=op.kind, continues_text=i > 0)

    def _add(
        self, entry: TraceEntry, op: NodeOp, dependencies: Iterable[Node] = (), **text: Any
    ) -> Node:
        """Add a node. `text`: `Node.kind` and `Node.continues_text`."""
        if isinstance(op, JoinNode):
            dependencies = [self._last[stream] for stream in op.streams]
        placeholders = {n: self._placeholders.all[n] for n in _numbers_in(op)}
        setters = [
            self._setter(value)
            for value in (op, *placeholders.values())
            if isinstance(value, Variable)
        ]

        last = [self._last[entry.stream]] if entry.stream in self._last else []
        distinct = tuple({node.id: node for node in (*last, *dependencies, *setters)}.values())

        node = Node(
            id=len(self.nodes),
            stream=entry.stream,
            op=op,
            program=entry.program,
            location=entry.location,
            dependency_ids=tuple(node.id for node in distinct),
            dependencies=distinct,
            assignments=entry.assignments,
            placeholders=tuple(placeholders.items()),
            **text,
        )
        self._setters |= {(entry.stream, *assigned): node for assigned in entry.assignments}
        self.nodes.append(node)
        self._last[entry.stream] = node
        return node

    def _setter(self, variable: Variable) -> Node:
        """Return the node that sets a variable."""
        setter = self._setters.get((variable.stream, variable.name, variable.version))
        if setter is None:
            reason = f"s[{variable.name!r}] is a text of another trace"
            raise TraceError(f"{caller()}: {reason}", "keep texts of a program inside the program")
        return setter


def _texts_of(part: Part) -> Any:
    """Return the values of a part that can contain placeholders."""
    if isinstance(part, Text):
        return part.text
    return (part.source, part.options) if isinstance(part, UnreadMedia) else ()


def _numbers_in(op: NodeOp) -> dict[int, None]:
    """Return the numbers of the placeholders inside a node, in order."""
    match op:
        case Gen():
            inner: Any = (op.options, op.reasoning, op.tools)
        case Select():
            inner = op.choices
        case UnreadMedia():
            inner = (op.source, op.options)
        case PartSet():
            inner = (op.separator.text, [[_texts_of(node) for node in part] for part in op.parts])
        case Assign() | ReturnNode():
            inner = op.value
        case CallNode():
            inner = (op.arguments, () if op.settings is None else op.settings.defaults)
        case UseTools() | ToolResults():
            inner = op
        case _:
            inner = ()
    return dict.fromkeys(numbers(inner))
