"""UTF-8 encoding of code point ranges, as sequences of byte ranges and as a small byte automaton.

Exact: no overlong forms, no surrogates. Knows neither regexes nor states.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ..syntax import Ranges

ByteRange = tuple[int, int]
"""(first byte, last byte), inclusive."""

Sequence = tuple[ByteRange, ...]
"""One to four consecutive byte ranges."""

EXIT = -1

Fragment = tuple[tuple[tuple[int, int, int], ...], ...]
"""States as edges (low, high, target); a target is an earlier state or EXIT. The last state is the
start."""

# Code points by encoded length of one to four bytes; the surrogates split the third range.
_BLOCKS = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))


def sequences(ranges: Ranges) -> Iterator[Sequence]:
    """Yield the byte sequences of the characters in `ranges`: ascending, disjoint, without
    surrogates.

    Sequences with overlapping first ranges have equal first ranges, so a trie of the sequences is
    deterministic.

    Args:
        ranges: code points.
    """
    for low, high in ranges:
        for block_low, block_high in _BLOCKS:
            if low <= block_high and high >= block_low:
                yield from _split(max(low, block_low), min(high, block_high))


def _split(low: int, high: int) -> Iterator[Sequence]:
    """Split `low` .. `high`, of equal encoded length, at tails that do not span all of 80-BF."""
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
    """Return an automaton for a single character of `ranges`, with shared tails.

    Args:
        ranges: code points; an empty tuple returns a state without edges.
    """
    states: dict[tuple[tuple[int, int, int], ...], int] = {}
    _intern(list(sequences(ranges)), states)
    return tuple(states)


def _intern(tails: list[Sequence], states: dict[tuple[tuple[int, int, int], ...], int]) -> int:
    """Return the state that accepts exactly `tails`; add new states after their targets."""
    groups: dict[ByteRange, list[Sequence]] = {}
    for tail in tails:
        groups.setdefault(tail[0], []).append(tail[1:])
    edges: list[tuple[int, int, int]] = []
    for (low, high), suffixes in groups.items():
        target = _intern(suffixes, states) if suffixes[0] else EXIT
        if edges and edges[-1][1] + 1 == low and edges[-1][2] == target:
            low = edges.pop()[0]
        edges.append((low, high, target))
    return states.setdefault(tuple(edges), len(states))
