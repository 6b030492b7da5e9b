"""Values of placeholders in a run: texts, options and media of a graph's nodes. Knows no
execution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...errors import shown
from ..ir import ExpressionError, Text, UnreadMedia, media
from ..location import standing
from .nodes import Node
from .placeholders import Argument, Placeholder, Variable, cut, fill


class Filler(ABC):
    """Fills the placeholders of nodes with the values of a run.

    Args:
        arguments: The values of the graph's parameters, defaults included.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments

    def read(self, placeholder: Placeholder) -> str:
        """Return the text of `placeholder`.

        Raises:
            ExpressionError: The value of an argument is not a text.
        """
        if isinstance(placeholder, Argument):
            kind, value = "argument", self.arguments[placeholder.name]
            hint = f"give a string: {placeholder.name}=str(value)"
        else:
            kind, value = "variable", self._variable(placeholder)
            hint = "it was one at the trace"
        if placeholder.conversion is None and not isinstance(value, str):
            reason = f"the {kind} {placeholder.name!r} is {shown(value)}, which is no text"
            raise ExpressionError(f"{standing.get()}: {reason}", hint)
        return _formatted(value, placeholder.conversion)

    def fill(self, value: Any, node: Node) -> Any:
        """Fill the placeholders of `value` for this run; lists and dicts are copied."""
        placeholders = dict(node.placeholders)
        return fill(value, lambda number: self.read(placeholders[number]))

    def text(self, pieces: Iterable[str | Placeholder]) -> str:
        """Return the text of pieces."""
        return "".join([p if isinstance(p, str) else self.read(p) for p in pieces])

    def gen(self, node: Node) -> Any:
        """Return the generation of a node."""
        gen: Any = node.op
        if not node.placeholders:
            return gen
        options = [(name, _hashable(self._option(value, node))) for name, value in gen.options]
        return replace(gen, options=tuple(item for item in options if item[1] is not None))

    def select(self, node: Node) -> Any:
        """Return the select of a node."""
        select: Any = node.op
        if not node.placeholders:
            return select
        return replace(select, choices=self.fill(select.choices, node))

    def media(self, node: Node) -> Any:
        """Return the image, video or audio of a node."""
        return self._media_of(node.op, node)

    def unordered(self, node: Node) -> Any:
        """Return the unordered parts of a node."""
        unordered: Any = node.op

        def filled(part: Any) -> Any:
            if isinstance(part, Text):
                return replace(part, text=self.fill(part.text, node))
            return self._media_of(part, node) if isinstance(part, UnreadMedia) else part

        return unordered.map(filled) if node.placeholders else unordered

    def _media_of(self, unread: Any, node: Node) -> Any:
        options = [(name, self.filled(value, node)) for name, value in unread.options]
        return media(unread.kind, self.filled(unread.source, node), tuple(options))

    def call_arguments(self, node: Node) -> tuple[tuple[str, Any], ...]:
        """Return names and values of the arguments of a called program."""
        call: Any = node.op
        return tuple([(name, self.filled(value, node)) for name, value in call.arguments])

    def filled(self, value: Any, node: Node) -> Any:
        """Fill the placeholders of `value`. An argument keeps its type, also in a list or tuple."""
        if type(value) in (list, tuple):
            return type(value)([self.filled(item, node) for item in value])
        return self._option(value, node)

    @abstractmethod
    def _variable(self, variable: Variable) -> Any:
        """Return the value of a variable."""

    def _option(self, value: Any, node: Node) -> Any:
        """Return the value of an option; an option that is an argument keeps the argument's
        type."""
        match cut(value) if isinstance(value, str) else ():
            case [int(number)]:
                placeholder = dict(node.placeholders)[number]
                if isinstance(placeholder, Argument) and placeholder.conversion is None:
                    return self.arguments[placeholder.name]
        return self.fill(value, node)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _formatted(value: Any, conversion: str | None) -> str:
    if conversion is None or conversion == "s":
        return str(value)
    return repr(value) if conversion == "r" else format(value, conversion[1:])
