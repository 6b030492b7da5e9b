"""Comparison of two traces of a program: the graph with placeholders for arguments, and the entries
of a trace with the values of the arguments. Knows no execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import printable, shown
from ..core.ops import Assign
from ..ir import ExpressionError, Gen, MediaExpr, PartSet, Select, Text, UnreadMedia
from .building import TraceEntry
from .filling import Filler
from .graph import Graph
from .nodes import CallNode, Node, ReturnNode
from .placeholders import Variable, mark
from .replay import Plan, Step

Pairs = tuple[tuple[str, Any], ...]

_SCALARS = str, int, float, bool, type(None)


class TraceCheck:
    """Compares traces with the graph of a plan. Thread-safe."""

    def __init__(self, plan: Plan) -> None:
        self._graph = plan.graph
        self._steps = plan.steps
        self.numbers = {p: number for number, p in enumerate(plan.graph.placeholders)}

    def first_difference(
        self, entries: Sequence[TraceEntry], arguments: Mapping[str, Any]
    ) -> int | None:
        """Return the index of the first entry that the graph does not produce for `arguments`, or
        None if the graph produces all entries.

        Args:
            entries: The entries of a trace with values.
            arguments: The values of the graph's parameters.
        """
        expected = _ExpectedValues(self._graph, arguments, self.numbers)
        steps = self._steps
        for i in range(1, min(len(steps), len(entries))):  # entry 0 is the call of the program
            if not _is_equal(steps[i], entries[i], expected):
                return i
        return None if len(steps) == len(entries) else min(len(steps), len(entries))

    def describe(self, index: int, other: Plan) -> tuple[str, str]:
        """Describe the steps at `index` in the graph and in the graph of another trace, with their
        lines."""
        return _described(self._steps, index), _described(other.steps, index)


def _described(steps: Sequence[Step], index: int) -> str:
    if index >= len(steps):
        return "the end of the program"
    step = steps[index]
    label = step.node.label()
    if len(step.pieces) > 1:
        label = printable(shown("".join([str(piece) for piece in step.pieces])))
    return f"{step.node.location}: {label}"


class _ExpectedValues(Filler):
    """The values of arguments, and marks for generated data."""

    def __init__(
        self, graph: Graph, arguments: Mapping[str, Any], numbers: Mapping[Any, int]
    ) -> None:
        super().__init__({**dict(graph.defaults), **arguments})
        self._numbers = numbers

    def _variable(self, variable: Variable) -> str:
        return mark(self._numbers[variable])


def _is_equal(step: Step, entry: TraceEntry, expected: _ExpectedValues) -> bool:
    node, op = step.node, entry.op
    if entry.stream != node.stream or entry.assignments != node.assignments:
        return False
    try:
        if isinstance(op, MediaExpr):
            return _is_equal_media(node, op, expected)
        if isinstance(op, Text):
            return (
                bool(step.pieces) and op.kind == node.kind and op.text == expected.text(step.pieces)
            )
        return not step.pieces and type(op) is type(node.op) and _is_equal_op(node, op, expected)
    except (ExpressionError, ValueError, TypeError):
        # An argument that is no text where the graph needs a text, or a wrong format
        return False


def _is_equal_media(node: Node, media: MediaExpr, expected: _ExpectedValues) -> bool:
    """Compare media of a trace. Equal sources are not read again."""
    unread = node.op
    if not isinstance(unread, UnreadMedia):
        return bool(unread == media)
    if unread.kind != media.kind:
        return False
    source, options = (expected.filled(part, node) for part in (unread.source, unread.options))
    return _is_equal_source(source, media.source) and options == media.options


def _is_equal_source(source: Any, other: Any) -> bool:
    """Return whether two sources are equal texts, the same object, or lists with equal items."""
    if type(source) in (list, tuple) and type(source) is type(other) and len(source) == len(other):
        return all(map(_is_equal_source, source, other))
    return source is other or _is_equal_value(source, other)


def _is_equal_op(node: Node, op: Any, expected: _ExpectedValues) -> bool:
    match op:
        case Gen():
            return bool(op == expected.gen(node))
        case Select():
            return bool(op == expected.select(node))
        case PartSet():
            return bool(op == expected.unordered(node))
        case Assign() | ReturnNode():
            known: Any = node.op
            return _is_equal_value(op.value, expected.fill(known.value, node))
        case CallNode():
            return _is_equal_call(node, op, expected)
    return bool(op == node.op)


def _is_equal_call(node: Node, call: CallNode, expected: _ExpectedValues) -> bool:
    known: Any = node.op
    settings = known.settings
    if settings is not None:
        settings = replace(settings, defaults=expected.fill(settings.defaults, node))
    return (
        call.title == known.title
        and call.settings == settings
        and _are_equal_arguments(call.arguments, expected.call_arguments(node))
    )


def _are_equal_arguments(arguments: Pairs, others: Pairs) -> bool:
    """Return whether the arguments of a call are equal. An object of the run equals itself."""
    return len(arguments) == len(others) and all(
        name == other_name and (value is other or _is_equal_value(value, other))
        for (name, value), (other_name, other) in zip(arguments, others, strict=True)
    )


def _is_equal_value(value: Any, other: Any) -> bool:
    """Return whether two values are equal texts, numbers or containers, with equal types.

    False for other objects: a run needs the object of the run.
    """
    if type(value) is not type(other):
        return False
    if isinstance(value, _SCALARS):
        return bool(value == other) and repr(value) == repr(other)
    if type(value) in (list, tuple):
        return len(value) == len(other) and all(map(_is_equal_value, value, other))
    if type(value) is dict:
        return _is_equal_value([*value.items()], [*other.items()])
    if type(value) in (set, frozenset):
        return bool(value == other) and all(isinstance(item, _SCALARS) for item in value)
    return False
