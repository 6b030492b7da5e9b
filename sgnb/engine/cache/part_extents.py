"""Cached tokens of a prompt that grows by parts: in the radix tree, then in the copies of the
tiers. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...part_order import CachedPart
from .radix import Ints, RadixNode, RadixTree, common_length
from .tiers.blocks import BLOCK


class PartTokens(NamedTuple):
    """Tokens of a part after the text before the part.

    Tokens can merge at a seam: the part replaces the last `replaced` tokens of the text before.
    """

    replaced: int
    tokens: Ints


@dataclass(frozen=True, slots=True)
class PartsPrompt:
    """A prompt with parts in any order, as token ids.

    Attributes:
        head: Tokens before the parts.
        first: Each part as the first part, the separator after the part included.
        later: Each part after the separator, for each ending of the part before: spaces at the end
            of a part can merge with the separator.
        endings: Index into `later` of each part, for the next part.
        separator: Tokens after a part that do not belong to the part: the text after the last part
            of an earlier prompt may be another text.
        namespace: Part of the cache; None: nothing is cached.
    """

    head: Ints
    first: Sequence[PartTokens]
    later: Sequence[Sequence[PartTokens]]
    endings: Sequence[int]
    separator: int
    namespace: str | None = ""


class StoredKeys(NamedTuple):
    """Copies of blocks below the radix tree."""

    root: bytes  # key of the empty prompt
    after: Callable[[bytes, Ints], bytes]  # key of a block, for the key before and the tokens
    holds: Callable[[bytes], bool]  # for the key of a block


class _PrefixEnd(NamedTuple):
    """End of a text in the tree, or in the tiers behind the tree.

    Attributes:
        length: Tokens of the text.
        cached: Leading tokens of the text that are cached.
        node: Last node whose edge agrees completely.
        child: Node below whose edge agrees in `common` tokens; None without one.
        key: Key of the last full block.
        tail: Tokens after the last full block.
    """

    length: int
    cached: int
    node: RadixNode
    child: RadixNode | None
    common: int
    key: bytes
    tail: Ints


_NO_TOKENS: Ints = np.empty(0, np.int32)


class CachedPrompt:
    """`sgnb.part_order.CachedParts` of a tree. On the engine's thread.

    Args:
        tree: The radix tree.
        prompt: The prompt.
        stored: Copies below the tree; None without tiers.
    """

    def __init__(self, tree: RadixTree, prompt: PartsPrompt, stored: StoredKeys | None) -> None:
        self.sizes = [len(piece.tokens) for piece in prompt.later[0]]
        if prompt.namespace != "":  # the tiers hold the shared part of the cache only
            stored = None
        self._prompt, self._stored = prompt, stored
        self._namespace = prompt.namespace or ""
        key = b"" if stored is None else stored.root
        self._root = _PrefixEnd(0, 0, tree.root, None, 0, key, _NO_TOKENS)
        self.begin()

    def begin(self) -> None:
        """See `CachedParts`."""
        self._parts = self._prompt.first
        self._start: _PrefixEnd | None = self._root  # before the last part
        self._last = self._prompt.head  # the last part
        self._places: dict[int, _PrefixEnd | None] = {}  # by the number of replaced tokens
        if self._prompt.namespace is None:
            self._start = None

    def measure(self, parts: Sequence[int]) -> dict[int, CachedPart]:
        """See `CachedParts`. The tiers are read if no part is whole in the tree."""
        cached_parts = self._in_tree(parts)
        if self._stored is None or any(cached.is_whole for cached in cached_parts.values()):
            return cached_parts
        pieces = [(part, self._parts[part]) for part in parts]
        return {part: cached for part, piece in pieces if (cached := self._in_tiers(piece))}

    def _in_tree(self, parts: Sequence[int]) -> dict[int, CachedPart]:
        """Return the parts that are whole in the tree, and the longest beginnings of parts."""
        cached_parts: dict[int, CachedPart] = {}
        longest = 0
        for part in parts:
            piece = self._parts[part]
            place = self._place(piece.replaced)
            if place is None or place.cached < place.length:
                continue
            count = self._descend(place.node, place.child, place.common, piece.tokens)[0]
            if count > longest or count >= max(1, len(piece.tokens) - self._prompt.separator):
                cached_parts[part] = self._cached_part(place, piece, count)
                longest = max(longest, count)
        return cached_parts

    def _in_tiers(self, piece: PartTokens) -> CachedPart | None:
        """Return the cached tokens of a part in the tree and the tiers, or None."""
        place = self._place(piece.replaced)
        if place is None:
            return None
        end = self._advance(place, piece.tokens)
        # The next block may hold the end of the part.
        reaches_end = end.cached >= end.length - len(end.tail) > place.length
        count = end.cached - place.length
        return self._cached_part(place, piece, count, reaches_end) if count > 0 else None

    def _cached_part(
        self, place: _PrefixEnd, piece: PartTokens, count: int, reaches_end: bool = False
    ) -> CachedPart:
        is_whole = reaches_end or count >= max(1, len(piece.tokens) - self._prompt.separator)
        return CachedPart(count, is_whole, place.length + count - len(self._prompt.head))

    def append(self, part: int) -> None:
        """See `CachedParts`."""
        piece = self._parts[part]
        self._start, self._last = self._place(piece.replaced), piece.tokens
        self._parts = self._prompt.later[self._prompt.endings[part]]
        self._places = {}

    def _place(self, replaced: int) -> _PrefixEnd | None:
        """Return the place of the prompt so far without the last `replaced` tokens; None if the
        tokens before are not cached."""
        if replaced not in self._places:
            place, end = self._start, len(self._last) - replaced
            if place is not None:
                place = self._advance(place, self._last[:end]) if end >= 0 else None
            # The tiers hold whole blocks: the next block may hold the tokens after the last one.
            in_blocks = self._stored is not None
            if place is not None and place.cached < place.length - len(place.tail) * in_blocks:
                place = None
            self._places[replaced] = place
        return self._places[replaced]

    def _advance(self, place: _PrefixEnd, tokens: Ints) -> _PrefixEnd:
        """Return the place after further tokens."""
        length, cached, node, child, common, key, tail = place
        if cached == length:
            matched, node, child, common = self._descend(node, child, common, tokens)
            cached += matched
        if self._stored is not None:
            key, tail, cached = self._in_blocks(self._stored, place, tokens, cached)
        return _PrefixEnd(length + len(tokens), cached, node, child, common, key, tail)

    def _descend(
        self, node: RadixNode, child: RadixNode | None, common: int, tokens: Ints
    ) -> tuple[int, RadixNode, RadixNode | None, int]:
        """Return the number of tokens that the tree has after a place, and the end in the tree."""
        matched = 0
        while matched < len(tokens):
            if child is None:
                token = tokens.item(matched)
                key = token if node.parent is not None else (self._namespace, token)
                child, common = node.children.get(key), 0
                if child is None:
                    break
            count = common_length(child.tokens[common:], tokens[matched:])
            matched, common = matched + count, common + count
            if common < len(child.tokens):
                break
            node, child = child, None
        return matched, node, child, common

    def _in_blocks(
        self, stored: StoredKeys, place: _PrefixEnd, tokens: Ints, cached: int
    ) -> tuple[bytes, Ints, int]:
        """Return key and tail after further tokens, and the cached tokens with blocks of the
        tiers. Blocks behind the first missing block are not read."""
        key, tail = place.key, np.concatenate([place.tail, tokens])
        end = place.length - len(place.tail)
        while len(tail) >= BLOCK and cached >= end:
            key = stored.after(key, tail[:BLOCK])
            tail, begin, end = tail[BLOCK:], end, end + BLOCK
            if cached < end and cached >= begin and stored.holds(key):
                cached = end
        return key, tail, cached
