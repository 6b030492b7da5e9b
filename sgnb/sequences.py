"""Comparison of sequences, and depth of nested values. Imports no module of sgnb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common_length(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the length of the longest common prefix.

    Uses bisection, because comparing slices is much faster than comparing items. Not for arrays.
    """
    if type(a) is not type(b):  # slices of different types are never equal
        a, b = tuple(a), tuple(b)

    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _SuffixState:
    """State of a suffix automaton: transitions, suffix link, and length of the longest text."""

    __slots__ = ("length", "link", "next")

    def __init__(
        self, length: int, link: _SuffixState | None, next: dict[Any, _SuffixState]
    ) -> None:
        self.length, self.link, self.next = length, link, next


def longest_common_block(a: Sequence[Any], b: Sequence[Any]) -> tuple[int, int]:
    """Return the longest run of items in both sequences as (start in `a`, length).

    Returns the first run in `a` of several with equal length. The time is linear in the lengths: a
    suffix automaton (Blumer et al., "The smallest automaton recognizing the subwords of a text",
    1985). `difflib` takes quadratic time for repeated items.
    """
    start = at = _suffix_automaton(b)
    length, best = 0, (0, 0)
    for i, item in enumerate(a):
        while at.link is not None and item not in at.next:
            at = at.link
            length = at.length
        if item not in at.next:
            at, length = start, 0
            continue
        at, length = at.next[item], length + 1
        if length > best[1]:
            best = (i + 1 - length, length)
    return best


def _suffix_automaton(items: Sequence[Any]) -> _SuffixState:
    """Return the start state of the automaton of all runs of `items`."""
    start = last = _SuffixState(0, None, {})
    for item in items:
        state = _SuffixState(last.length + 1, start, {})
        at: _SuffixState | None = last
        while at is not None and item not in at.next:
            at.next[item] = state
            at = at.link

        if at is not None:
            target = at.next[item]
            if at.length + 1 == target.length:
                state.link = target
            else:
                copy = _SuffixState(at.length + 1, target.link, dict(target.next))
                while at is not None and at.next.get(item) is target:
                    at.next[item] = copy
                    at = at.link
                target.link = state.link = copy
        last = state
    return start


def exceeds_depth(value: Any, depth: int) -> bool:
    """Return whether lists and dicts are nested in more than `depth` levels.

    Python's JSON parser stops at the recursion limit up to version 3.11, and much later since.
    """
    level = [value]
    for _ in range(depth):
        parents = [parent for parent in level if isinstance(parent, list | dict)]
        if not parents:
            return False
        level = [
            child
            for parent in parents
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return any(isinstance(value, list | dict) for value in level)
