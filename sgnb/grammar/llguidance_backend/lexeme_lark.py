"""A tree of `Lexeme`s, such as JSON, in llguidance's Lark notation.

Each lexeme becomes a terminal. llguidance's greedy lexer loses no text, because after a lexeme no
other lexeme allowed at the same position can continue. The parser therefore has an item per symbol
instead of per character, and no proof is necessary.
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
    """Return `rules` in Lark notation.

    Args:
        rules: syntax tree made of lexemes.
        spend: receives the estimated microseconds of the next step; may raise.
        has_text: returns True if the language of a Lark grammar is not empty.

    Raises:
        GrammarError: the rules describe no text.
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
    """Terminals of the lexemes of a grammar."""

    def __init__(self, spend: Callable[[int], None], has_text: Callable[[str], bool]) -> None:
        self.texts: dict[int, str] = {}  # id of a lexeme -> terminal
        self._spend, self._has_text = spend, has_text
        self._writer = ExpressionWriter("T", lambda node: None, spend)
        self._lexeme_of: dict[int, Node] = {}  # id of the inner node -> lexeme
        self._alive: list[Node] = []  # keeps nodes alive, because keys are ids

    def joined(self, node: Node) -> Node:
        """Replace lexemes without a text by NOTHING, and join alternative lexemes: an enum becomes
        a single terminal."""
        if isinstance(node, Lexeme):
            return self._lexeme(node.node)
        if isinstance(node, Alternate):
            inner = [option.node for option in node.options if isinstance(option, Lexeme)]
            if len(inner) > 1:
                others = [option for option in node.options if not isinstance(option, Lexeme)]
                joined = Lexeme(alternate(*inner))
                self._alive.append(joined)
                self.texts[id(joined)] = self._writer.text(joined.node)
                return alternate(joined, *others)
        return node

    def _lexeme(self, inside: Node) -> Node:
        if id(inside) not in self._lexeme_of:
            self._alive.append(inside)
            self._lexeme_of[id(inside)] = self._new_lexeme(inside)
        return self._lexeme_of[id(inside)]

    def _new_lexeme(self, inside: Node) -> Node:
        literal = isinstance(inside, Literal)  # the common case: names and punctuation
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
        """Return the definitions that the terminals refer to."""
        return [f"{name}: {text}" for text, name in self._writer.hoisted.items()]
