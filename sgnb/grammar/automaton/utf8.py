"""UTF-8: code point ranges to sequences of byte ranges, and those to a small byte automaton.

Exact: no overlong forms, no surrogates. Knows nothing of regexes or states.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ..syntax import Ranges

ByteRange = tuple[int, int]
"""Bytes from the first to the second, both included."""

Sequence = tuple[ByteRange, ...]
"""One to four byte ranges, one after the other."""

EXIT = -1

Fragment = tuple[tuple[tuple[int, int, int], ...], ...]
"""States as edges (low, high, target), a target being an earlier state or EXIT. Starts at the last
state."""

# The largest code points of one, two, three and four bytes; the surrogates cut the third in two.
_BLOCKS = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))


def sequences(ranges: Ranges) -> Iterator[Sequence]:
    """The byte sequences of the characters in `ranges`, rising and disjoint, without surrogates.

    Two sequences whose first ranges overlap have the same first range: a trie is deterministic.
    """
    for low, high in ranges:
        for block_low, block_high in _BLOCKS:
            if low <= block_high and high >= block_low:
                yield from _split(max(low, block_low), min(high, block_high))


def _split(low: int, high: int) -> Iterator[Sequence]:
    """`low` .. `high`, encoded in one length, cut where a tail does not span all of 80-BF."""
    first, last = chr(low).encode(), chr(high).encode()
    for shift in range(6 * (len(first) - 1), 0, -6):
        mask = (1 << shift) - 1
        if low & ~mask == high & ~mask:
            continue
        if low & mask:
            yield from _split(low, low | mask)
            yield from _split((low | mask) + 1, high)
            return
        if high & mask != mask:
            yield from _split(low, (high & ~mask) - 1)
            yield from _split(high & ~mask, high)
            return
    yield tuple(zip(first, last, strict=True))


@lru_cache(maxsize=256)
def fragment(ranges: Ranges) -> Fragment:
    """An automaton for one character of `ranges`, tails shared; without ranges it has no edges."""
    states: dict[tuple[tuple[int, int, int], ...], int] = {}
    _intern(list(sequences(ranges)), states)
    return tuple(states)


def _intern(tails: list[Sequence], states: dict[tuple[tuple[int, int, int], ...], int]) -> int:
    """The state that accepts exactly `tails`, made in `states` after its targets."""
    groups: dict[ByteRange, list[Sequence]] = {}
    for tail in tails:
        groups.setdefault(tail[0], []).append(tail[1:])
    edges: list[tuple[int, int, int]] = []
    for (low, high), rest in groups.items():
        target = _intern(rest, states) if rest[0] else EXIT
        if edges and edges[-1][1] + 1 == low and edges[-1][2] == target:
            low = edges.pop()[0]
        edges.append((low, high, target))
    return states.setdefault(tuple(edges), len(states))
