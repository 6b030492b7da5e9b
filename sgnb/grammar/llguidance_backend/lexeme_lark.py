"""A tree of `Lexeme`s, such as JSON, in llguidance's Lark notation.

Each lexeme becomes a terminal. llguidance's greedy lexer loses no text, because after a lexeme no
other lexeme allowed at the same position can continue. The parser therefore has an item per symbol
instead of per character, and no proof is necessary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...errors import GrammarError
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
    children,
    postorder,
)
from .lark import ExpressionWriter
from .normal import productive, simple, simplified, trimmed
from .shortest import ShortestTexts, UnknownText, shortest_text


class LexemeGrammar(NamedTuple):
    """A grammar in Lark notation."""

    lark: str
    rules: Rules  # without labels, unused rules and parts without a text
    shortest: bytes | None  # see `shortest_text`


def write_lexemes(
    rules: Rules, spend: Callable[[int], None], has_text: Callable[[str], bool]
) -> LexemeGrammar:
    """Write `rules` in Lark notation.

    Args:
        rules: syntax tree made of lexemes.
        spend: receives the estimated microseconds of the next step; may raise.
        has_text: returns True if the language of a Lark grammar is not empty.

    Raises:
        GrammarError: the rules describe no text.
    """
    lexemes = _Lexemes(spend, has_text)
    rules = _Outline(rules, lexemes, spend).rules()
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
    lark = "\n".join([*lines, *lexemes.definitions(), ""])
    return LexemeGrammar(lark, rules, shortest_text(rules, lexemes.shortest))


class _Outline:
    """Rules whose leaves are lexemes and references, written in a single pass over the trees.

    Args:
        rules: syntax tree made of lexemes.
        lexemes: terminals of the lexemes.
        spend: receives the estimated microseconds of the next step; may raise.
    """

    def __init__(self, rules: Rules, lexemes: _Lexemes, spend: Callable[[int], None]) -> None:
        self._rules, self._lexemes, self._spend = rules, lexemes, spend
        self._results: dict[int, Node | None] = {}
        self._reached: dict[str, None] = {}
        self._is_whole = True  # False if a part without a text was removed

    def rules(self) -> Rules:
        """Return the outline.

        Raises:
            GrammarError: a rule is undefined, or no text remains.
        """
        start = self._outline(self._rules.start)
        outlines: dict[str, Node] = {}
        while missing := [name for name in self._reached if name not in outlines]:
            for name in missing:
                if name not in self._rules.rules:
                    message = f"the grammar refers to a rule {name!r}, which it does not have"
                    raise GrammarError(message, "define the rule")
                outlines[name] = self._outline(self._rules.rules[name])

        outline = Rules(start, outlines)
        whole = self._is_whole and len(productive(outlines, self._spend)) == len(outlines)
        return outline if whole else trimmed(outline, self._spend)

    def _outline(self, root: Node) -> Node:
        results = self._results
        for node in postorder(root, self._below):
            if id(node) not in results:
                self._spend(5)
                results[id(node)] = result = self._of_node(node)
                self._is_whole = self._is_whole and result is not None
        outline = results[id(root)]
        return NOTHING if outline is None else outline

    def _below(self, node: Node) -> tuple[Node, ...]:
        return () if id(node) in self._results else children(node)

    def _of_node(self, node: Node) -> Node | None:
        if isinstance(node, Lexeme):
            return self._lexemes.lexeme(node.node)
        if isinstance(node, Reference):
            self._reached[node.name] = None
            return node
        result = simple(node, [self._results[id(child)] for child in children(node)], ())
        return self._lexemes.joined(result) if isinstance(result, Alternate) else result


class _Lexemes:
    """Terminals of the lexemes of a grammar. Equal lexemes are a single node."""

    def __init__(self, spend: Callable[[int], None], has_text: Callable[[str], bool]) -> None:
        self.texts: dict[int, str] = {}  # id of a lexeme -> terminal
        self._spend, self._has_text = spend, has_text
        self._writer = ExpressionWriter("T", lambda node: None, spend)
        self._lexemes: dict[int, Lexeme | None] = {}  # by the id of the inner node
        self._of_text: dict[str, Lexeme] = {}  # by the terminal
        self._joined: dict[tuple[int, ...], Lexeme] = {}  # by the ids of the lexemes
        self.shortest = ShortestTexts(Rules(NOTHING))

    def lexeme(self, inside: Node) -> Lexeme | None:
        """Return the lexeme of a tree; None if the tree has no text.

        Args:
            inside: tree of the lexeme's texts; the caller keeps the tree alive.
        """
        if id(inside) not in self._lexemes:
            self._lexemes[id(inside)] = self._new_lexeme(inside)
        return self._lexemes[id(inside)]

    def joined(self, node: Alternate) -> Node:
        """Join alternative lexemes: an enum becomes a single terminal.

        Args:
            node: alternatives.
        """
        lexemes = [option for option in node.options if isinstance(option, Lexeme)]
        if len(lexemes) <= 1:
            return node
        key = tuple(map(id, lexemes))
        if key not in self._joined:
            joined = Lexeme(alternate(*(lexeme.node for lexeme in lexemes)))
            self._joined[key] = joined
            self.texts[id(joined)] = self._writer.text(joined.node)
        others = [option for option in node.options if not isinstance(option, Lexeme)]
        return alternate(self._joined[key], *others)

    def _new_lexeme(self, inside: Node) -> Lexeme | None:
        literal = isinstance(inside, Literal)  # the common case: names and punctuation
        node = inside if literal else simplified(inside, (), self._spend)
        if node is None:
            return None
        text = self._writer.text(node)
        if text not in self._of_text:
            self._of_text[text] = lexeme = Lexeme(node)
            self.texts[id(lexeme)] = text
        lexeme = self._of_text[text]
        return lexeme if literal or self._is_possible(lexeme) else None

    def _is_possible(self, lexeme: Lexeme) -> bool:
        """True if the lexeme has a text."""
        if not any(isinstance(part, (Intersect, Without)) for part in postorder(lexeme.node)):
            return True
        try:
            return self.shortest.of_lexeme(lexeme) is not None
        except UnknownText:
            definitions = "\n".join(self.definitions())
            return self._has_text(f"start: L\nL: {self.texts[id(lexeme)]}\n{definitions}\n")

    def definitions(self) -> list[str]:
        """Return the definitions that the terminals refer to."""
        return [f"{name}: {text}" for text, name in self._writer.hoisted.items()]
