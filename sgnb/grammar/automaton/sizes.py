"""Size of a tree with references inlined and repeats unrolled, estimated without most automata.

Detects recursion, and names the largest part of an oversized tree. Knows only byte counts.
"""

from __future__ import annotations

from ...errors import GrammarError, nearest
from ..syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
)
from .build_limits import Budget, Recursive
from .expand import common_automaton
from .utf8 import fragment

_MOST = 10**15


class Sizes:
    """Number of NFA positions (one per byte or byte range) of every reachable part.

    From now on, errors of `budget` name the largest part.

    Args:
        rules: syntax tree with rules.
        budget: limits of the build.

    Raises:
        Recursive: a rule is recursive.
        GrammarError: a rule is undefined.
        TooLarge: the work limit is exceeded.
    """

    def __init__(self, rules: Rules, budget: Budget) -> None:
        self._rules = rules
        self._needed: dict[int, int] = {}
        self._total: dict[int, int] = {}
        self._count(budget)
        budget.blame = self.largest

    @property
    def needed(self) -> int:
        """Lower bound on the automaton's positions: among options only the largest counts."""
        return self._needed[id(self._rules.start)]

    def largest(self) -> str:
        """Return the label or repeat with the largest share of the positions, in words."""
        node, label, repeat, share = self._rules.start, "", "", 1
        while parts := self._parts(node):
            total = self._total[id(node)]
            if isinstance(node, Source):
                label = node.label
            if isinstance(node, Repeat) and _copies(node) >= share:
                repeat, share = _braces(node), _copies(node)
            largest = max(parts, key=lambda part: self._total[id(part)])
            spread = 2 * self._total[id(largest)] < total and not isinstance(node, Repeat)
            if spread and (label or repeat):
                break
            node = largest

        if label and repeat:
            return f"{label}, with a repeat {repeat}"
        return label or (f"a repeat {repeat}" if repeat else "text and choices")

    def _count(self, budget: Budget) -> None:
        """Count every part after its children. The stack is explicit because trees may be deep."""
        open_rules: set[str] = set()
        stack = [self._rules.start]
        while stack:
            node = stack[-1]
            if id(node) in self._total:
                stack.pop()
                continue

            parts = self._parts(node)
            missing = [part for part in parts if id(part) not in self._total]
            if not missing:
                self._add(node, parts)
                budget.spend(1 + len(parts))
                if isinstance(node, Reference):
                    open_rules.discard(node.name)
            elif isinstance(node, Reference):
                if node.name in open_rules:
                    raise Recursive(node.name)
                open_rules.add(node.name)

            stack += missing

    def _parts(self, node: Node) -> tuple[Node, ...]:
        match node:
            case Concatenate(parts) | Intersect(parts) | Alternate(parts):
                return parts
            case Without(kept, removed):
                return kept, removed
            case Lexeme(inner, is_common):
                return () if is_common and common_automaton(inner).dfa is not None else (inner,)
            case Repeat(inner) | Source(inner):
                return (inner,)
            case Reference(name):
                rules = self._rules.rules
                if name not in rules:
                    raise GrammarError(f"rule {name!r} does not exist", nearest(name, rules))
                return (rules[name],)

        return ()

    def _add(self, node: Node, parts: tuple[Node, ...]) -> None:
        total = sum(self._total[id(part)] for part in parts)
        needed = sum(self._needed[id(part)] for part in parts)
        match node:
            case Literal(text):
                needed = total = len(text.encode("utf-8", "surrogatepass"))
            case Chars(ranges):
                needed = total = len(fragment(ranges))
            case Lexeme(inner, True) if not parts:
                dfa = common_automaton(inner).dfa
                needed = total = 0 if dfa is None else dfa.size
            case Repeat():
                needed, total = needed * _copies(node), total * _copies(node)
            case Alternate() | Intersect() | Without():
                needed = max((self._needed[id(part)] for part in parts), default=0)

        self._needed[id(node)] = min(needed, _MOST)
        self._total[id(node)] = min(total, _MOST)


def _copies(node: Repeat) -> int:
    """Return the number of copies after unrolling; 1 for a repeat of an unbounded repeat."""
    inner = node.node
    if isinstance(inner, Repeat) and inner.most is None and inner.least <= 1 and node.most != 0:
        return max(node.least, 1) if inner.least else 1
    return max(node.least, 1) if node.most is None else node.most


def _braces(node: Repeat) -> str:
    return f"{{{node.least},{'' if node.most is None else node.most}}}"
