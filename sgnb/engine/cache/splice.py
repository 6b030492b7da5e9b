"""Approximate keys and values of a prompt: reuse of a cached passage at other positions. No
torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .radix import Ints, RadixNode

GRAM = 16
"""Tokens of a passage that must agree before the texts around are compared."""

MAX_DONORS = 16
"""Cached texts that are compared with a prompt."""

MIN_REUSED = 64
"""Shortest reused part, in tokens."""

MIN_WINDOW, WINDOW_SHARE = 32, 0.02
"""Tokens computed behind an edit and at the end of a prompt: the larger of a count and a share of
the prompt."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class Splice:
    """Tokens of a request whose keys and values come from other positions of a cached text.

    Attributes:
        donor: Locked node at the end of the cached text.
        slots: KV slots of the reused tokens in the donor, int32[end - begin].
        begin: Position of the first reused token in the prompt. Earlier tokens are computed first.
        end: Position after the last reused token. Later tokens are computed afterwards.
        shift: Position in the prompt minus position in the donor.
    """

    donor: RadixNode
    slots: Ints
    begin: int
    end: int
    shift: int


def window(num_tokens: int) -> int:
    """Return the number of computed tokens behind an edit, and at the end of a prompt."""
    return max(MIN_WINDOW, math.ceil(WINDOW_SHARE * num_tokens))


def find_splice(tokens: Ints, namespace: str, node: RadixNode, vocab_size: int) -> Splice | None:
    """Return the longest passage of a cached text that a prompt repeats behind its cached prefix.

    Args:
        tokens: The prompt.
        namespace: Part of the cache to search.
        node: End of the cached prefix.
        vocab_size: Texts with larger ids are skipped: positions behind an image are no indices.

    Returns:
        A splice without the tokens behind the edit and at the end of the prompt. None if fewer than
        `MIN_REUSED` tokens remain.
    """
    margin = window(len(tokens))
    uncached = tokens[node.end :]
    hashes = _hashes(uncached)
    best: Splice | None = None
    for leaf in _donors(node, namespace):
        text = np.concatenate([part.tokens for part in leaf.path()])
        if text.max() >= vocab_size:
            continue
        start, begin, length = _repeated(uncached, hashes, text)
        end = min(node.end + start + length, len(tokens) - margin)
        start, begin = node.end + start + margin, begin + margin
        if end - start < MIN_REUSED or (best is not None and end - start <= best.end - best.begin):
            continue
        slots = leaf.path_slots()[begin : begin + end - start].copy()
        best = Splice(leaf, slots, start, end, start - begin)
        if 2 * len(slots) > len(uncached):
            break
    return best


def _donors(node: RadixNode, namespace: str) -> Iterator[RadixNode]:
    """Yield leaves of the tree: leaves with a longer common prefix first, then the latest."""
    count, below = 0, None
    top: RadixNode | None = node
    while top is not None:
        children = [
            child
            for key, child in top.children.items()
            if child is not below and (top.parent is not None or key[0] == namespace)
        ]
        leaves = sorted(_leaves(children), key=lambda leaf: -leaf.tick)
        yield from leaves[: MAX_DONORS - count]
        count += len(leaves)
        if count >= MAX_DONORS:
            return
        top, below = top.parent, top


def _leaves(nodes: list[RadixNode]) -> Iterator[RadixNode]:
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.children:
            stack.extend(node.children.values())
        else:
            yield node


def _hashes(tokens: Ints) -> NDArray[np.uint64]:
    """Return a hash of each passage of `GRAM` tokens."""
    count = max(0, len(tokens) - GRAM + 1)
    values, result = tokens.astype(np.uint64), np.zeros(count, np.uint64)
    for i in range(GRAM):
        result = result * _FACTOR + values[i : i + count]
    return result


def _repeated(tokens: Ints, hashes: NDArray[np.uint64], text: Ints) -> tuple[int, int, int]:
    """Return the longest common passage at a constant distance: the start in `tokens`, the start in
    `text`, and the length. The distance is the most frequent distance of passages with a single
    occurrence in `tokens`.
    """
    unique, places, counts = np.unique(hashes, return_index=True, return_counts=True)
    unique, places = unique[counts == 1], places[counts == 1]
    others = _hashes(text)
    if not len(unique) or not len(others):
        return 0, 0, 0

    index = np.minimum(np.searchsorted(unique, others), len(unique) - 1)
    matches = np.flatnonzero(unique[index] == others)
    if not len(matches):
        return 0, 0, 0
    distances, votes = np.unique(matches - places[index[matches]], return_counts=True)
    distance = int(distances[votes.argmax()])

    first = max(0, -distance)
    aligned, donor = tokens[first:], text[first + distance :]
    count = min(len(aligned), len(donor))
    equal = np.concatenate([[False], aligned[:count] == donor[:count], [False]])
    edges = np.flatnonzero(equal[1:] != equal[:-1]).reshape(-1, 2)
    start, end = edges[(edges[:, 1] - edges[:, 0]).argmax()].tolist()
    return first + start, first + start + distance, end - start
