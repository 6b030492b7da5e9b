"""The bytes of every token of a tokenizer, and the prefix tree over them. Knows no tokenizer
library and no automaton.

The tree is laid out level by level, so that numpy can walk a whole level at once: the nodes are
numbered by depth, and the children of a node are neighbours, in the order of their bytes.
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
"""What numpy takes as an index without converting it first."""


class Vocabulary:
    """Immutable, and shared by every grammar. `size` tokens; `pieces[i]` are the bytes of token i.

    A token without bytes is no text: a special token, which no grammar allows. Several tokens may
    have the same bytes.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(pieces)
        self.size = len(self.pieces)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pieces in their order, in hexadecimal."""
        lengths = np.fromiter(map(len, self.pieces), np.dtype("<u4"), self.size)
        return hashlib.sha256(lengths.tobytes() + b"".join(self.pieces)).hexdigest()

    @cached_property
    def single_bytes(self) -> Index:
        """The bytes that are a token each."""
        return np.unique(np.array([piece[0] for piece in self.pieces if len(piece) == 1], np.intp))

    @cached_property
    def tree(self) -> PrefixTree:
        """Made when it is first asked for: in 0.1 s for 131,072 tokens, so that it is not worth
        keeping on disk."""
        return PrefixTree(self.pieces)

    def longest_match(self, data: bytes) -> list[int]:
        """Tokens whose bytes, joined, are `data`: at each place the longest piece after which the
        rest can be written.

        Of several tokens with the same bytes the one with the smallest id. GrammarError if the
        vocabulary has no way to write `data`.
        """
        starts: list[int] = []  # of the tokens so far
        choices: list[
            list[tuple[int, int]]
        ] = []  # for each of them (end, token) of the pieces not tried, best last
        hopeless: set[int] = set()
        position = furthest = 0
        while position < len(data):
            starts.append(position)
            choices.append(
                [match for match in self.tree.matches(data, position) if match[0] not in hopeless]
            )
            while not choices[-1]:
                hopeless.add(starts.pop())
                choices.pop()
                if not choices:
                    raise GrammarError(
                        f"no token begins {data[furthest : furthest + 16]!r}, at byte {furthest} of {data[:80]!r}",
                        "the grammar forces bytes that this tokenizer cannot write: allow other characters there",
                    )
                choices[-1].pop()
            position = choices[-1][-1][0]
            furthest = max(furthest, position)
        return [options[-1][1] for options in choices]


class PrefixTree:
    """Every prefix of every piece is a node; node 0 is the empty one. N nodes, T tokens with bytes.

    parent: intp[N], 0 for the root. depth_start: the nodes of depth d are depth_start[d] ..
    depth_start[d + 1]. byte: uint8[N], the last byte of the prefix; `symbols` and `data` are the
    same, as indices and as bytes. first_child: intp[N + 1], the children of node n are
    first_child[n] .. first_child[n + 1]. tokens: int32[T], ids sorted by node; those at node n are
    tokens[first_token[n] : first_token[n + 1]]. node_of: intp[vocabulary size], the node of each
    token, 0 for special ones.
    nodes_below: for each child of the root, how many nodes are at it and below it.
    """

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        order = sorted((i for i in range(len(pieces)) if pieces[i]), key=pieces.__getitem__)
        tokens = np.array(order, np.int32)
        lengths = np.fromiter((len(pieces[i]) for i in order), np.intp, len(order))
        text = np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)
        at = np.cumsum(lengths) - lengths
        node = np.zeros(len(order), np.intp)  # where each piece's prefix of the present depth is
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
        self.parent: Index = np.concatenate(parents)
        self.byte: NDArray[np.uint8] = np.concatenate(last_bytes)
        self.depth_start = starts
        self.first_child: Index = (
            np.searchsorted(self.parent[1:], np.arange(len(self.parent) + 1)) + 1
        )
        by_node = np.argsort(node, kind="stable")
        self.tokens: NDArray[np.int32] = tokens[by_node]
        self.first_token: Index = np.searchsorted(node[by_node], np.arange(len(self.parent) + 1))
        self.node_of: Index = np.zeros(len(pieces), np.intp)
        self.node_of[tokens] = node
        self.nodes_below = self._count_below()
        self.data = self.byte.tobytes()
        self.symbols: Index = self.byte.astype(np.intp)
        self.first_child_view = self.first_child.data

    def __len__(self) -> int:
        return len(self.parent)

    def matches(self, data: bytes, start: int) -> list[tuple[int, int]]:
        """(end, token) of every piece that is at `data[start:end]`, the longest last."""
        found = []
        node = 0
        for end in range(start + 1, len(data) + 1):
            first, last = self.first_child_view[node], self.first_child_view[node + 1]
            node = self.data.find(data[end - 1], first, last)
            if node < 0:
                break
            if self.first_token[node] < self.first_token[node + 1]:
                found.append((end, int(self.tokens[self.first_token[node]])))
        return found

    def _count_below(self) -> Index:
        ancestor = np.arange(len(self))
        for first, last in itertools.pairwise(self.depth_start[2:]):
            ancestor[first:last] = ancestor.take(self.parent[first:last])
        return np.bincount(ancestor[1:] - 1)
