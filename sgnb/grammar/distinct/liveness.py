"""Proof of a continuation without a repeated item or name.

The search follows the beginnings of earlier items and names until the current items and names
differ from all earlier items and names. Required items exist, because `item_counts`
checks their number. Most searches end after a byte.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..automaton.automaton import Automaton
from ..matcher import Matcher
from ..vocabulary import Vocabulary
from .json_memory import JsonMemory

MOST_STEPS = 1000
"""Limit of a search in bytes. A longer search counts as a proof."""

MOST_DETOURS = 100
MOST_COMPARED = 6
"""Limits of `shortest_ending`: the detours, and the bytes compared for a detour."""

_ENDS = frozenset(b"]}")
_FIRST = b'],}" 0123456789abcdefghijklmnopqrstuvwxyz'
_RANK = bytes(_FIRST.index(byte) if byte in _FIRST else 255 for byte in range(256))


class ByteWalk(Protocol):
    """Position of a grammar, moved byte by byte."""

    def next_bytes(self) -> bytes:
        """Return the allowed next bytes."""

    def push(self, data: bytes) -> None:
        """Advance by allowed bytes."""

    def pop(self) -> None:
        """Undo the last `push`."""

    def completion(self) -> bytes | None:
        """Return a short completion of the text; None if unknown."""

    def distance(self) -> int | None:
        """Return the length of `completion`."""


class AutomatonWalk:
    """`ByteWalk` through an automaton.

    Args:
        automaton: the grammar's automaton.
        state: number of the first state.
    """

    def __init__(self, automaton: Automaton, state: int) -> None:
        self._automaton = automaton
        self._path = [state]

    def next_bytes(self) -> bytes:
        return self._automaton.next_bytes(self._path[-1])

    def push(self, data: bytes) -> None:
        self._path.append(self._automaton.step(self._path[-1], data))

    def pop(self) -> None:
        self._path.pop()

    def completion(self) -> bytes | None:
        return self._automaton.completion(self._path[-1])

    def distance(self) -> int | None:
        return int(self._automaton.distance[self._path[-1]])


class TokenWalk:
    """`ByteWalk` by tokens of a single byte. Other bytes count as forbidden.

    Args:
        matcher: matcher, moved by the walk.
        vocabulary: bytes of the tokens.
    """

    def __init__(self, matcher: Matcher, vocabulary: Vocabulary) -> None:
        self._matcher, self._vocabulary = matcher, vocabulary
        self._bytes = np.array([*vocabulary.token_of_byte], np.uint8)
        self._tokens = np.array([*vocabulary.token_of_byte.values()], np.intp)
        self._lengths: list[int] = []  # number of tokens of each `push`

    def next_bytes(self) -> bytes:
        words = self._matcher.next_token_bitmask().take(self._tokens >> 5)
        allowed = words >> (self._tokens & 31).astype(np.uint32) & np.uint32(1)
        return self._bytes[allowed != 0].tobytes()

    def push(self, data: bytes) -> None:
        tokens = self._vocabulary.longest_match(data)
        for token in tokens:
            self._matcher.accept_token(token)
        self._lengths.append(len(tokens))

    def pop(self) -> None:
        self._matcher.rollback(self._lengths.pop())

    def completion(self) -> bytes | None:
        end = self._matcher.completion()
        is_known = end is not None and self._vocabulary.token_of_byte.keys() >= set(end)
        return end if is_known else None

    def distance(self) -> int | None:
        return self._matcher.distance()


def is_live(memory: JsonMemory, walk: ByteWalk) -> bool:
    """Return True if the text can continue without a repeated item or name.

    Args:
        memory: position of the text.
        walk: the same position in the grammar; unchanged at the end.
    """
    if memory.is_safe:
        return True
    exempt: frozenset[tuple[int, int]] = frozenset()  # slots of required items
    levels = [(memory, _ordered(walk, memory), exempt)]
    for _ in range(MOST_STEPS):
        memory, candidates, exempt = levels[-1]
        if not candidates:
            levels.pop()
            if not levels:
                return False
            walk.pop()
            continue

        byte = candidates.pop()
        after = memory.advance(byte)
        if after is None:
            continue
        if byte == b"," and _ENDS.isdisjoint(walk.next_bytes()):
            exempt |= after.unsafe_slots() - memory.unsafe_slots()
        if after.unsafe_slots() <= exempt:
            break
        walk.push(byte)
        levels.append((after, _ordered(walk, after), exempt))

    for _ in levels[1:]:
        walk.pop()
    return True


def _ordered(walk: ByteWalk, memory: JsonMemory) -> list[bytes]:
    """Return the next bytes, the best last: first bytes of no earlier item, then ends. Optional
    white space changes no item and is left out."""
    options = walk.next_bytes()
    if not memory.in_string:
        options = options.translate(None, b" \t\n\r") or options
    begun = {remainder[0] for remainder in memory.remainders() if remainder}
    ranked = sorted(options, key=lambda byte: (byte in begun, _RANK[byte]), reverse=True)
    return [bytes([byte]) for byte in ranked]


def shortest_ending(memory: JsonMemory, walk: ByteWalk) -> bytes | None:
    """Return a short completion of the text without a repeated item or name.

    Follows the grammar's shortest ending, with a detour for each repeated item.

    Args:
        memory: position of the text, with a continuation.
        walk: the same position in the grammar; moved.

    Returns:
        The text; None if unknown.
    """
    ending = bytearray()
    for _ in range(MOST_DETOURS):
        rest = walk.completion()
        if rest is None:
            return None
        for number in range(len(rest)):
            byte = rest[number : number + 1]
            after = memory.advance(byte)
            if after is None:
                break
            walk.push(byte)
            if not is_live(after, walk):
                walk.pop()
                break
            memory = after
            ending += byte
        else:
            return bytes(ending)
        detour = _detour(memory, walk, byte)
        if detour is None:
            return None
        memory = detour[1]
        ending += detour[0]

    return None


def _detour(
    memory: JsonMemory, walk: ByteWalk, forbidden: bytes
) -> tuple[bytes, JsonMemory] | None:
    """Advance `walk` by a byte with a short ending, except `forbidden`."""
    best: tuple[int, bytes, JsonMemory] | None = None
    compared = 0
    for byte in reversed(_ordered(walk, memory)):
        after = None if byte == forbidden else memory.advance(byte)
        if after is None:
            continue
        walk.push(byte)
        if is_live(after, walk) and (length := walk.distance()) is not None:
            compared += 1
            if best is None or length < best[0]:
                best = length, byte, after
        walk.pop()
        if compared == MOST_COMPARED:
            break

    if best is None:
        return None
    walk.push(best[1])
    return best[1:]
