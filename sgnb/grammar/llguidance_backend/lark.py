"""A syntax tree, possibly recursive, as an equivalent grammar in llguidance's Lark notation.

llguidance's lexer is greedy (longest match). Regular parts become terminals for speed, but only if
greedy lexing loses no text. Terminals named by `network.conflicts` are split, down to single
characters if necessary. Nothing is skipped between terminals.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ...errors import GrammarError
from ..syntax import (
    EMPTY,
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Ranges,
    Reference,
    Repeat,
    Rules,
    Without,
    children,
    postorder,
)
from .lexemes import Clashes, Piece, WorkBudget, piece
from .network import conflicts
from .normal import closed, plain, rebuilt, references

LARGEST_TERMINAL = 200
"""Maximum nodes of a terminal. llguidance compiles whole terminals: large terminals are slower to
enter."""

DEEPEST_TERMINAL = 40
INLINE = 100  # characters of an expression; longer expressions get a definition
INLINE_DEPTH = 12
WORK = 800_000  # limit of steps for writing a grammar, of about a microsecond each


def write(rules: Rules, work: int = WORK) -> str:
    """Return `rules` in Lark notation.

    Args:
        rules: syntax tree with rules.
        work: limit of the steps.

    Raises:
        GrammarError: llguidance cannot match the grammar, or the work exceeds the limit.
    """
    budget = WorkBudget(work)
    cut = _TerminalPartition(plain(rules, budget.spend), budget)
    while True:
        large = conflicts(cut.rules, cut.kind, cut.piece, cut.clashes)
        if not large:
            return cut.text()
        cut.split(large)


class _TerminalPartition:
    """Assignment of a grammar's nodes to Lark terminals: a node is a terminal, or stays a rule.

    `split` makes a terminal smaller if greedy lexing would lose texts. The kind of a terminal is
    its text, so equal terminals share a kind.
    """

    def __init__(self, rules: Rules, budget: WorkBudget) -> None:
        self.rules = rules
        self.budget = budget
        self.clashes = Clashes(self.piece, budget)
        self._measures: dict[int, tuple[int, int]] = {}  # id of a node -> (nodes, depth)
        self._alive: list[Rules | Node] = [rules]  # keeps nodes alive, because keys are ids
        self._of_rule: dict[str, tuple[int, int]] = {}
        for name in closed({name: references(node) for name, node in rules.rules.items()}):
            self._of_rule[name] = self._measure(rules.rules[name])

        grouped = {name: rebuilt(node, self._grouped) for name, node in rules.rules.items()}
        self.rules = Rules(rebuilt(rules.start, self._grouped), grouped)
        self._kinds: dict[int, str | None] = {}
        self._nodes: dict[str, Node] = {}
        self._pieces: dict[str, Piece] = {}
        self._split: set[str] = set()
        self._peeled: set[str] = set()  # terminals without their first character
        self.terminals = ExpressionWriter("T", self._inside, budget.spend)

    def kind(self, node: Node) -> str | None:
        """Return the text of `node` as a terminal; None if `node` is not a terminal."""
        if id(node) not in self._kinds:
            self.budget.spend(5)
            self._kinds[id(node)] = self._kind(node)
        return self._kinds[id(node)]

    def piece(self, kind: str) -> Piece:
        if kind not in self._pieces:
            self._pieces[kind] = piece(self._nodes[kind], self.rules.rules.__getitem__, self.budget)
        return self._pieces[kind]

    def split(self, kinds: set[str]) -> None:
        """Split terminals into smaller terminals."""
        for kind in kinds:
            self.budget.spend(1)
            if isinstance(self._nodes[kind], (Intersect, Without)):
                end = "where an intersection or a difference ends in this grammar"
                hint = "put a character after it that it cannot contain"
                raise GrammarError(f"llguidance cannot tell {end}", hint)
        self._split |= kinds
        rules = {name: rebuilt(node, self._apart) for name, node in self.rules.rules.items()}
        self.rules = Rules(rebuilt(self.rules.start, self._apart), rules)
        self._kinds = {}

    def _apart(self, node: Node) -> Node:
        """Split off the first character of a terminal, often the only conflict; split further on
        the next call."""
        self.budget.spend(5)
        self._alive.append(node)
        head, tail = (
            (node.parts[0], node.parts[1:]) if isinstance(node, Concatenate) else (node, ())
        )
        if not isinstance(head, Literal) or len(head.text) < 2 or not self._fits(node):
            return node
        text = self.terminals.text(node)
        if text not in self._split:
            return node
        if text not in self._peeled:
            remainder = (
                Concatenate((Literal(head.text[1:]), *tail)) if tail else Literal(head.text[1:])
            )
            self._alive.append(remainder)
            self._peeled.add(self.terminals.text(remainder))
            return Concatenate((Literal(head.text[0]), remainder))

        return node if tail else Concatenate(tuple(Literal(char) for char in head.text))

    def _kind(self, node: Node) -> str | None:
        weight, depth = self._measure(node)
        if not weight or node == EMPTY or _is_optional(node):
            return None
        if not self._fits(node) and not isinstance(node, (Intersect, Without)):
            return None
        if depth > DEEPEST_TERMINAL:
            problem = "an intersection or a difference is nested too deeply"
            raise GrammarError(problem, "use fewer levels")

        text = self.terminals.text(node)
        if text in self._split:
            return None
        self._nodes.setdefault(text, node)
        return text

    def _grouped(self, node: Node) -> Node:
        """Join regular neighbours of a sequence, so a terminal includes its delimiters."""
        self.budget.spend(5)
        self._alive.append(node)
        if not isinstance(node, Concatenate) or self._fits(node):
            return node
        parts: list[Node] = []
        run: list[Node] = []
        size = 0

        for part in node.parts:
            weight, _ = self._measure(part)
            joins = self._fits(part) and not _is_optional(part)
            if not joins or size + weight > LARGEST_TERMINAL:
                parts += [Concatenate(tuple(run))] if len(run) > 1 else run
                run, size = [], 0
            if joins:
                run.append(part)
                size += weight
            else:
                parts.append(part)

        parts += [Concatenate(tuple(run))] if len(run) > 1 else run
        return node if len(parts) == len(node.parts) else Concatenate(tuple(parts))

    def _fits(self, node: Node) -> bool:
        """True if the tree is regular and small enough for a terminal."""
        weight, depth = self._measure(node)
        return 0 < weight < LARGEST_TERMINAL and depth < DEEPEST_TERMINAL

    def _measure(self, node: Node) -> tuple[int, int]:
        """Return (nodes, depth) of the tree with rules inlined; (0, 0) if recursive."""
        measures = self._measures
        for part in postorder(node, lambda part: () if id(part) in measures else children(part)):
            if id(part) not in measures:
                measures[id(part)] = self._measure_one(part)
        return measures[id(node)]

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
        """Inline a rule inside a terminal."""
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
    """True for an optional part, which stays a rule because the inner terminal is simpler."""
    return isinstance(node, Repeat) and (node.least, node.most) == (0, 1)


class ExpressionWriter:
    """Writer of trees as Lark expressions. Long or deep expressions are defined in `hoisted`: text
    -> name.

    Args:
        prefix: prefix of the names of definitions.
        leaf: returns the expression of a leaf, or None for an inner node.
        spend: receives the estimated microseconds of the next step; may raise.
    """

    def __init__(
        self, prefix: str, leaf: Callable[[Node], str | None], spend: Callable[[int], None]
    ) -> None:
        self.prefix, self.leaf, self.spend = prefix, leaf, spend
        self.hoisted: dict[str, str] = {}
        self._texts: dict[int, tuple[str, int]] = {}
        self._alive: list[Node] = []

    def text(self, node: Node) -> str:
        if id(node) not in self._texts:
            self._alive.append(node)
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
        case Concatenate():
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
    if (least, most) in (symbols := {(0, None): "*", (1, None): "+", (0, 1): "?"}):
        return symbols[least, most]
    return f"{{{least},{'' if most is None else most}}}"


def _class(ranges: Ranges) -> str:
    return "".join(
        _char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in ranges
    )


def _char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:X}}}"
