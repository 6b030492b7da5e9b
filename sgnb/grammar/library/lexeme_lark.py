"""A tree whose texts are made of `Lexeme`s, as JSON's are, in llguidance's Lark notation.

Each lexeme becomes a terminal. The library's lexer is greedy, which loses nothing: where a lexeme
can end, no other that is possible in its place goes on. So its parser has an item a symbol, not a
character, and nothing needs to be proved.
"""

from __future__ import annotations

from collections.abc import Callable

from ..syntax import (
    NOTHING,
    Alternate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Rules,
    Without,
    alternate,
)
from .lark import ExpressionWriter
from .normal import postorder, rebuilt, simplified, trimmed


def write_lexemes(
    rules: Rules, spend: Callable[[int], None], has_text: Callable[[str], bool]
) -> str:
    """The grammar of `rules`. GrammarError where they have no text.

    spend: called with about as many microseconds as the next step takes; may raise. has_text:
    whether the language of a grammar in this notation is not empty.
    """
    lexemes = _Lexemes(spend, has_text)
    rules = Rules(
        rebuilt(rules.start, lexemes.joined),
        {name: rebuilt(node, lexemes.joined) for name, node in rules.rules.items()},
    )
    rules = trimmed(rules, spend)
    names = {name: f"r{number}" for number, name in enumerate(rules.rules)}
    terminals: dict[str, str] = {}

    def leaf(node: Node) -> str | None:
        if isinstance(node, Lexeme):
            return terminals.setdefault(lexemes.texts[id(node)], f"L{len(terminals)}")
        return names[node.name] if isinstance(node, Reference) else None

    writer = ExpressionWriter("h", leaf, spend)
    lines = [f"start: {writer.text(rules.start)}"]
    lines += [f"{names[name]}: {writer.text(node)}" for name, node in rules.rules.items()]
    lines += [f"{name}: {text}" for text, name in writer.hoisted.items()]
    lines += [f"{name}: {text}" for text, name in terminals.items()]
    return "\n".join([*lines, *lexemes.definitions(), ""])


class _Lexemes:
    """The lexemes of one grammar as terminals."""

    def __init__(self, spend: Callable[[int], None], has_text: Callable[[str], bool]) -> None:
        self.texts: dict[int, str] = {}  # by the id of a lexeme
        self._spend, self._has_text = spend, has_text
        self._writer = ExpressionWriter("T", lambda node: None, spend)
        self._known: dict[int, Node] = {}  # of the node inside
        self._kept: list[Node] = []  # nodes are known by their ids

    def joined(self, node: Node) -> Node:
        """Lexemes without a text as NOTHING; options that are lexemes as one: a terminal for all
        values of an enum."""
        if isinstance(node, Lexeme):
            return self._lexeme(node.node)
        if isinstance(node, Alternate):
            inner = [option.node for option in node.options if isinstance(option, Lexeme)]
            if len(inner) > 1:
                others = [option for option in node.options if not isinstance(option, Lexeme)]
                joined = Lexeme(alternate(*inner))
                self._kept.append(joined)
                self.texts[id(joined)] = self._writer.text(joined.node)
                return alternate(joined, *others)
        return node

    def _lexeme(self, inside: Node) -> Node:
        if id(inside) not in self._known:
            self._kept.append(inside)
            self._known[id(inside)] = self._made(inside)
        return self._known[id(inside)]

    def _made(self, inside: Node) -> Node:
        literal = isinstance(inside, Literal)  # most are: names and punctuation
        node = inside if literal else simplified(inside, set(), self._spend)
        if node is None:
            return NOTHING
        text = self._writer.text(node)
        if not literal and any(isinstance(part, (Intersect, Without)) for part in postorder(node)):
            definitions = "\n".join(self.definitions())
            if not self._has_text(f"start: L\nL: {text}\n{definitions}\n"):
                return NOTHING
        lexeme = Lexeme(node)
        self.texts[id(lexeme)] = text
        return lexeme

    def definitions(self) -> list[str]:
        """The lines that the terminals need."""
        return [f"{name}: {text}" for text, name in self._writer.hoisted.items()]
