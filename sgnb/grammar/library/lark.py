"""A syntax tree, recursive or not, as a grammar of the same texts in llguidance's Lark notation.

The library's lexer is greedy (longest match). So the regular parts of a tree become terminals, for
speed, only as far as that loses nothing: those that `network.conflicts` names are split, if need be
down to single characters, where greed cannot matter. Nothing is skipped between terminals.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ...errors import GrammarError
from ..syntax import (
    EMPTY,
    Alternate,
    Chars,
    Concat,
    Intersect,
    Literal,
    Node,
    Ranges,
    Reference,
    Repeat,
    Rules,
    Without,
)
from .lexemes import Budget, Clashes, Piece, piece
from .network import conflicts
from .normal import children, closed, plain, postorder, rebuilt, references

LARGEST_TERMINAL = 200
"""Nodes. The library works on a whole terminal: a large one is slower to enter than small ones."""

DEEPEST_TERMINAL = 40
INLINE = 100  # characters of an expression; a longer one gets a definition of its own
INLINE_DEPTH = 12
SECONDS = 0.8  # for writing one grammar


def write(rules: Rules, seconds: float = SECONDS) -> str:
    """The grammar of `rules`. GrammarError where the library cannot follow it, or not in time."""
    budget = Budget(seconds)
    cut = _Cut(plain(rules, budget.spend), budget)
    while True:
        large = conflicts(cut.rules, cut.kind, cut.piece, cut.clashes)
        if not large:
            return cut.text()
        cut.split(large)


class _Cut:
    """Which parts of the rules are terminals. A terminal's kind is its text: equal ones are one."""

    def __init__(self, rules: Rules, budget: Budget) -> None:
        self.rules = rules
        self.budget = budget
        self.clashes = Clashes(self.piece, budget)
        self._measures: dict[int, tuple[int, int]] = {}  # by the id of a node
        self._alive: list[Rules | Node] = [rules]  # whatever is known by its id
        self._of_rule: dict[str, tuple[int, int]] = {}
        for name in closed({name: references(node) for name, node in rules.rules.items()}):
            self._of_rule[name] = self._measure(rules.rules[name])
        grouped = {name: rebuilt(node, self._grouped) for name, node in rules.rules.items()}
        self.rules = Rules(rebuilt(rules.start, self._grouped), grouped)
        self._kinds: dict[int, str | None] = {}
        self._nodes: dict[str, Node] = {}
        self._pieces: dict[str, Piece] = {}
        self._split: set[str] = set()
        self._peeled: set[str] = set()  # what was left of a terminal without its first character
        self.terminals = ExpressionWriter("T", self._inside, budget.spend)

    def kind(self, node: Node) -> str | None:
        """The text of `node` as a terminal; None if it is not one."""
        if id(node) not in self._kinds:
            self.budget.spend(5)
            self._kinds[id(node)] = self._kind(node)
        return self._kinds[id(node)]

    def piece(self, kind: str) -> Piece:
        if kind not in self._pieces:
            self._pieces[kind] = piece(self._nodes[kind], self.rules.rules.__getitem__, self.budget)
        return self._pieces[kind]

    def split(self, kinds: set[str]) -> None:
        """Make the parts of these terminals terminals of their own."""
        for kind in kinds:
            self.budget.spend(1)
            if isinstance(self._nodes[kind], (Intersect, Without)):
                end = "where an intersection or a difference ends in this grammar"
                hint = "put a character after it that it cannot contain"
                raise GrammarError(f"the grammar library cannot tell {end}", hint)
        self._split |= kinds
        rules = {name: rebuilt(node, self._apart) for name, node in self.rules.rules.items()}
        self.rules = Rules(rebuilt(self.rules.start, self._apart), rules)
        self._kinds = {}

    def _apart(self, node: Node) -> Node:
        """A split terminal without its first character, often the only conflict; then, smaller."""
        self.budget.spend(5)
        self._alive.append(node)
        head, tail = (node.parts[0], node.parts[1:]) if isinstance(node, Concat) else (node, ())
        if not isinstance(head, Literal) or len(head.text) < 2 or not self._fits(node):
            return node
        text = self.terminals.text(node)
        if text not in self._split:
            return node
        if text not in self._peeled:
            rest = Concat((Literal(head.text[1:]), *tail)) if tail else Literal(head.text[1:])
            self._alive.append(rest)
            self._peeled.add(self.terminals.text(rest))
            return Concat((Literal(head.text[0]), rest))
        return node if tail else Concat(tuple(Literal(char) for char in head.text))

    def _kind(self, node: Node) -> str | None:
        weight, depth = self._measure(node)
        if not weight or node == EMPTY or _is_optional(node):
            return None
        if not self._fits(node) and not isinstance(node, (Intersect, Without)):
            return None
        if depth > DEEPEST_TERMINAL:
            problem = "an intersection or a difference is nested too deeply"
            raise GrammarError(problem, "write it flatter")
        text = self.terminals.text(node)
        if text in self._split:
            return None
        self._nodes.setdefault(text, node)
        return text

    def _grouped(self, node: Node) -> Node:
        """A sequence with its regular neighbours joined: `"a` and `b"` delimit the text between."""
        self.budget.spend(5)
        self._alive.append(node)
        if not isinstance(node, Concat) or self._fits(node):
            return node
        parts: list[Node] = []
        run: list[Node] = []
        size = 0
        for part in node.parts:
            weight, _ = self._measure(part)
            joins = self._fits(part) and not _is_optional(part)
            if not joins or size + weight > LARGEST_TERMINAL:
                parts += [Concat(tuple(run))] if len(run) > 1 else run
                run, size = [], 0
            if joins:
                run.append(part)
                size += weight
            else:
                parts.append(part)
        parts += [Concat(tuple(run))] if len(run) > 1 else run
        return node if len(parts) == len(node.parts) else Concat(tuple(parts))

    def _fits(self, node: Node) -> bool:
        """Whether the tree is regular and small enough for one terminal."""
        weight, depth = self._measure(node)
        return 0 < weight < LARGEST_TERMINAL and depth < DEEPEST_TERMINAL

    def _measure(self, node: Node) -> tuple[int, int]:
        """(nodes, depth) of the tree with its rules inlined; (0, 0) if it is recursive."""
        known = self._measures
        for part in postorder(node, lambda part: () if id(part) in known else children(part)):
            if id(part) not in known:
                known[id(part)] = self._measure_one(part)
        return known[id(node)]

    def _measure_one(self, node: Node) -> tuple[int, int]:
        self.budget.spend(3)
        if isinstance(node, Reference):
            return self._of_rule.get(node.name, (0, 0))
        if isinstance(node, Alternate) and all(isinstance(o, Literal) for o in node.options):
            return 1, 1
        below = [self._measures[id(child)] for child in children(node)]
        if not all(weight for weight, _ in below):
            return 0, 0
        depth = max((depth for _, depth in below), default=0)
        return 1 + sum(weight for weight, _ in below), 1 + depth

    def _inside(self, node: Node) -> str | None:
        """Inside a terminal a rule is written in its place."""
        rule = self.rules.rules[node.name] if isinstance(node, Reference) else None
        return None if rule is None else self.terminals.text(rule)

    def text(self) -> str:
        terminals: dict[str, str] = {}
        names = {name: f"r{number}" for number, name in enumerate(self.rules.rules)}

        def leaf(node: Node) -> str | None:
            kind = self.kind(node)
            if kind is not None:
                return terminals.setdefault(kind, f"L{len(terminals)}")
            return names[node.name] if isinstance(node, Reference) else None

        writer = ExpressionWriter("h", leaf, self.budget.spend)
        lines = [f"start: {writer.text(self.rules.start)}"]
        for name, node in self.rules.rules.items():
            if self.kind(node) is None:
                lines.append(f"{names[name]}: {writer.text(node)}")
        lines += [f"{name}: {text}" for text, name in writer.hoisted.items()]
        lines += [f"{name}: {kind}" for kind, name in terminals.items()]
        lines += [f"{name}: {text}" for text, name in self.terminals.hoisted.items()]
        return "\n".join(lines) + "\n"


def _is_optional(node: Node) -> bool:
    """Whether it is better left to the rules: the terminal inside is simpler."""
    return isinstance(node, Repeat) and (node.least, node.most) == (0, 1)


class ExpressionWriter:
    """Trees as expressions. Long or deep ones get definitions in `hoisted`: text -> name."""

    def __init__(
        self, prefix: str, leaf: Callable[[Node], str | None], spend: Callable[[int], None]
    ) -> None:
        self.prefix, self.leaf, self.spend = prefix, leaf, spend
        self.hoisted: dict[str, str] = {}
        self._texts: dict[int, tuple[str, int]] = {}
        self._kept: list[Node] = []

    def text(self, node: Node) -> str:
        if id(node) not in self._texts:
            self._kept.append(node)
            leaves: dict[int, str | None] = {}

            def below(part: Node) -> tuple[Node, ...]:
                if id(part) in self._texts:
                    return ()
                leaves[id(part)] = self.leaf(part)
                return children(part) if leaves[id(part)] is None else ()

            for part in postorder(node, below):
                if id(part) not in self._texts:
                    self._texts[id(part)] = self._short(part, leaves[id(part)])
        return self._texts[id(node)][0]

    def _short(self, node: Node, leaf: str | None) -> tuple[str, int]:
        self.spend(5)
        if leaf is not None:
            return leaf, 0
        below = [self._texts[id(child)] for child in children(node)]
        depth = 1 + max((depth for _, depth in below), default=0)
        text = _expression(node, [text for text, _ in below])
        if below and (len(text) > INLINE or depth > INLINE_DEPTH):
            return self.hoisted.setdefault(text, f"{self.prefix}{len(self.hoisted)}"), 0
        return text, depth


def _expression(node: Node, below: list[str]) -> str:
    match node:
        case Literal(text):
            return json.dumps(text).replace("\x7f", "\\u007f")
        case Chars(ranges):
            return f"/[{_class(ranges)}]/"
        case Concat():
            return f"({' '.join(below)})"
        case Alternate():
            return f"({' | '.join(below)})"
        case Intersect():
            return f"({' & '.join(below)})"
        case Without():
            return f"({below[0]} & ~{below[1]})"
        case Repeat(_, least, most):
            return f"({below[0]}{_count(least, most)})"
    raise TypeError(f"no expression for {node!r:.80}")


def _count(least: int, most: int | None) -> str:
    if (least, most) in (known := {(0, None): "*", (1, None): "+", (0, 1): "?"}):
        return known[least, most]
    return f"{{{least},{'' if most is None else most}}}"


def _class(ranges: Ranges) -> str:
    return "".join(
        _char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in ranges
    )


def _char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:X}}}"
