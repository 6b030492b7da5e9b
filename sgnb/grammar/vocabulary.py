"""Bytes of every token, and a prefix tree over them. Knows no tokenizer and no automaton.

Nodes are numbered breadth first: by depth, and the children of a node are contiguous in byte order.
numpy can therefore process a whole level at once.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import GrammarError

Index = NDArray[np.intp]
"""Index arrays that numpy uses without conversion."""


class Vocabulary:
    """Immutable token vocabulary, shared by all grammars.

    Tokens without bytes are special: no grammar allows them. Several tokens may have equal bytes.

    Args:
        pieces: bytes of each token, by id.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(pieces)
        self.size = len(self.pieces)
        self._longer: dict[int, NDArray[np.uint32]] = {}

    @cached_property
    def _lengths(self) -> NDArray[np.uint32]:
        """Length of each piece in bytes, uint32[size]."""
        return np.fromiter(map(len, self.pieces), np.dtype("<u4"), self.size)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pieces in order, in hexadecimal."""
        return hashlib.sha256(self._lengths.tobytes() + b"".join(self.pieces)).hexdigest()

    @cached_property
    def longest(self) -> int:
        """Length of the longest piece in bytes."""
        return int(self._lengths.max(initial=0))

    @cached_property
    def single_bytes(self) -> Index:
        """Bytes with a single-byte token, sorted."""
        return np.unique(np.array([piece[0] for piece in self.pieces if len(piece) == 1], np.intp))

    @cached_property
    def token_of_byte(self) -> dict[int, int]:
        """Byte -> id of a single-byte token."""
        return {piece[0]: token for token, piece in enumerate(self.pieces) if len(piece) == 1}

    def longer_than(self, length: int) -> NDArray[np.uint32]:
        """Return a mask of the tokens with more than `length` bytes.

        Args:
            length: number of bytes.

        Returns:
            uint32[ceil(size / 32)], read-only: bit i % 32 of word i // 32 is token i.
        """
        mask = self._longer.get(length)
        if mask is None:
            bits = np.zeros(-(-self.size // 32) * 32, np.bool_)
            bits[: self.size] = self._lengths > length
            mask = np.packbits(bits, bitorder="little").view(np.uint32)
            mask.flags.writeable = False
            self._longer[length] = mask
        return mask

    def unpacked(self, words: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Unpack a token bitmask to bool[size].

        Args:
            words: uint32[ceil(size / 32)], as returned by `longer_than`.
        """
        bits = np.unpackbits(words.view(np.uint8), count=self.size, bitorder="little")
        return bits.view(np.bool_)

    @cached_property
    def tree(self) -> PrefixTree:
        """Prefix tree, built on first use: 0.1 s for 131,072 tokens, too fast for a disk cache."""
        return PrefixTree(self.pieces)

    def longest_match(self, data: bytes) -> list[int]:
        """Tokenize `data`: at each position the longest piece after which the remainder can be
        tokenized.

        Args:
            data: bytes to tokenize.

        Returns:
            Token ids; among tokens with equal bytes, the smallest id.

        Raises:
            GrammarError: no tokenization exists.
        """
        starts: list[int] = []  # start of each token
        choices: list[list[tuple[int, int]]] = []  # untried (end, token) pairs per start, best last
        hopeless: set[int] = set()
        position = furthest = 0
        while position < len(data):
            starts.append(position)
            matches = self.tree.matches(data, position)
            choices.append([match for match in matches if match[0] not in hopeless])
            while not choices[-1]:
                hopeless.add(starts.pop())
                choices.pop()
                if not choices:
                    raise _untokenizable(data, furthest)
                choices[-1].pop()
            position = choices[-1][-1][0]
            furthest = max(furthest, position)

        return [options[-1][1] for options in choices]


def _untokenizable(data: bytes, at: int) -> GrammarError:
    problem = f"no token starts {data[at : at + 16]!r}, at byte {at} of {data[:80]!r}"
    cause = "the grammar forces bytes that this tokenizer cannot write"
    return GrammarError(problem, f"{cause}: allow other characters at this position")


class PrefixTree:
    """Prefix tree with a node per prefix of any piece; node 0 is the empty prefix. N nodes, T
    tokens with bytes."""

    parent: Index  # intp[N], 0 for the root
    depth_start: list[int]  # nodes of depth d: depth_start[d] .. depth_start[d + 1]
    byte: NDArray[np.uint8]  # uint8[N], last byte of the prefix
    symbols: Index  # `byte` as indices
    data: bytes  # `byte` as bytes
    first_child: Index  # intp[N + 1], CSR: children of n are first_child[n] .. first_child[n + 1]
    first_child_view: memoryview
    tokens: NDArray[np.int32]  # int32[T], ids sorted by node
    first_token: Index  # intp[N + 1], CSR: n has tokens[first_token[n] : first_token[n + 1]]
    node_of: Index  # intp[vocabulary size], node of each token; 0 for special tokens
    nodes_below: Index  # subtree size of each child of the root

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        order = sorted((i for i in range(len(pieces)) if pieces[i]), key=pieces.__getitem__)
        tokens = np.array(order, np.int32)
        lengths = np.fromiter((len(pieces[i]) for i in order), np.intp, len(order))
        text = np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)
        at = np.cumsum(lengths) - lengths
        node = np.zeros(len(order), np.intp)  # node of each piece's prefix at the current depth
        parents, last_bytes, starts = [np.zeros(1, np.intp)], [np.zeros(1, np.uint8)], [0, 1]
        depth, longer = 0, np.arange(len(order))

        while len(longer):
            byte, parent = text[at[longer] + depth], node[longer]
            new = np.empty(len(longer), np.bool_)
            new[0] = True
            new[1:] = (byte[1:] != byte[:-1]) | (parent[1:] != parent[:-1])
            node[longer] = starts[-1] - 1 + np.cumsum(new)
            parents.append(parent[new])
            last_bytes.append(byte[new])
            starts.append(starts[-1] + len(parents[-1]))
            depth += 1
            longer = longer[lengths[longer] > depth]

        self.parent = np.concatenate(parents)
        self.depth_start = starts
        self.byte = np.concatenate(last_bytes)
        self.symbols, self.data = self.byte.astype(np.intp), self.byte.tobytes()
        numbers = np.arange(len(self.parent) + 1)
        self.first_child = np.searchsorted(self.parent[1:], numbers) + 1
        self.first_child_view = self.first_child.data

        by_node = np.argsort(node, kind="stable")
        self.tokens = tokens[by_node]
        self.first_token = np.searchsorted(node[by_node], numbers)
        self.node_of = np.zeros(len(pieces), np.intp)
        self.node_of[tokens] = node
        self.nodes_below = self._count_below()

    def __len__(self) -> int:
        return len(self.parent)

    def matches(self, data: bytes, start: int) -> list[tuple[int, int]]:
        """Return (end, token) for every piece equal to `data[start:end]`, longest last.

        Args:
            data: bytes to match.
            start: first position.
        """
        matches = []
        node = 0
        for end in range(start + 1, len(data) + 1):
            first, last = self.first_child_view[node], self.first_child_view[node + 1]
            node = self.data.find(data[end - 1], first, last)
            if node < 0:
                break
            if self.first_token[node] < self.first_token[node + 1]:
                matches.append((end, int(self.tokens[self.first_token[node]])))
        return matches

    def _count_below(self) -> Index:
        ancestor = np.arange(len(self))
        for first, last in itertools.pairwise(self.depth_start[2:]):
            ancestor[first:last] = ancestor.take(self.parent[first:last])
        return np.bincount(ancestor[1:] - 1)
