"""Minimal automata of lexemes that many grammars share, such as numbers, strings and dates.

A build embeds the automaton instead of the tree. The counted work of a build is independent of the
cache, because a build pays for each lexeme as if the cache were empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ..syntax import Node, Rules
from .build_limits import Budget, BuildLimits, TooLarge
from .determinise import determinise
from .dfa import Dfa
from .minimise import minimise
from .nfa import Follow, Nfa

LIMITS = BuildLimits(states=600, building=2_000, positions=2_000, work=20_000)
"""Limits of a cached automaton; larger lexemes are expanded as trees."""

MAX_CACHED = 256
"""Maximum number of cached automata."""

Expand = Callable[[Rules, Nfa, Budget], Follow]
"""Adds the texts of rules to an NFA."""


class CommonLexeme(NamedTuple):
    """Automaton of a lexeme, or None if too large, and the work of its build in steps."""

    dfa: Dfa | None
    steps: int


class _Identity:
    """Cache key of a node object: trees share parts, so comparing trees may take exponential
    time."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.node is other.node


def common_lexeme(node: Node, expand: Expand) -> CommonLexeme:
    """Return the automaton of a tree without references and labels.

    Args:
        node: tree; the cache identifies the tree by its object.
        expand: `expand.expand`.
    """
    return _cached(_Identity(node), expand)


@lru_cache(maxsize=MAX_CACHED)
def _cached(key: _Identity, expand: Expand) -> CommonLexeme:
    budget = Budget(LIMITS)
    nfa = Nfa(budget)
    try:
        start = expand(Rules(key.node), nfa, budget)
        dfa = minimise(determinise(nfa, start, budget), nfa.labels, budget)
        budget.check("states", dfa.size, "states")
    except TooLarge:
        return CommonLexeme(None, budget.spent)
    return CommonLexeme(dfa, budget.spent)
