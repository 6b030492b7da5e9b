"""Choice of the order with the longest cached prefix, for prompt parts in any order.

Knows no engine and no tokens: a `CachedParts` measures the cache. Imports no module of sgnb.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

REMEMBERED = 1 << 14
"""Maximum number of prefixes with remembered successors, and of remembered sets."""

SHOWN = 12
"""Maximum number of parts in the words for an order."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class PartOrder:
    """Chosen order of parts.

    Attributes:
        order: Indices of the parts, in the order of the text.
        gained: Further prompt tokens in the cache now, compared with the given order.
        follows: The order is that of an earlier prompt, which is not in the cache yet, or in the
            cache of a service.
    """

    order: tuple[int, ...]
    gained: int = 0
    follows: bool = False

    @property
    def is_given(self) -> bool:
        """True if the parts keep the given order."""
        return self.order == tuple(range(len(self.order)))

    def line(self) -> str:
        """Return the order in words, with parts numbered from 1."""
        if self.is_given:
            return f"{len(self.order)} parts in the given order"
        numbers = [str(index + 1) for index in self.order[:SHOWN]]
        numbers += ["…"] * (len(self.order) > SHOWN)
        return f"parts in the order {', '.join(numbers)}: {gain(self.gained)}"


def gain(tokens: int) -> str:
    """Return the gain of an order in words: tokens in the cache now, or a prompt on the way to the
    cache."""
    if not tokens:
        return "as in an earlier prompt"
    return f"{tokens:,} more {'token' if tokens == 1 else 'tokens'} cached"


def given_order(count: int) -> PartOrder:
    """Return the given order of `count` parts."""
    return PartOrder(tuple(range(count)))


class CachedPart(NamedTuple):
    """Cached tokens of a part."""

    tokens: int  # leading tokens in the cache
    is_whole: bool  # the part is cached to its end
    end: int = 0  # cached tokens from the first part on; 0 if the part has none


NOT_CACHED = CachedPart(0, False)


class CachedParts(Protocol):
    """Cached tokens of a prompt that grows by parts."""

    @property
    def sizes(self) -> Sequence[int]:
        """Number of tokens of each part."""

    def begin(self) -> None:
        """Return to the prompt without parts."""

    def measure(self, parts: Sequence[int]) -> Mapping[int, CachedPart]:
        """Return the cached tokens of parts, each as the next part. A part may be absent if an
        earlier part has as many cached tokens or more, or if another part is whole in a faster
        cache; whole parts of the fastest cache are never absent."""

    def append(self, part: int) -> None:
        """Append a part."""


class NoCache:
    """`CachedParts` of an unknown cache, for example the cache of a service."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes

    def begin(self) -> None:
        pass

    def measure(self, parts: Sequence[int]) -> Mapping[int, CachedPart]:
        return {}

    def append(self, part: int) -> None:
        pass


class OrderMemory:
    """Orders of earlier prompts: prompts on their way to the cache, or in the cache of a service.

    A prefix is the hash of the text before the parts and of the parts so far. The oldest entries
    are forgotten. Not thread-safe.

    Attributes:
        number: Number of the memory in this process.
    """

    def __init__(self, capacity: int = REMEMBERED) -> None:
        self._capacity = capacity
        self.number = next(_numbers)
        self._next: OrderedDict[int, set[Hashable]] = OrderedDict()  # successors of a prefix
        self._orders: OrderedDict[int, tuple[Hashable, ...]] = OrderedDict()  # of a set of parts

    def follows(self, prefix: int, key: Hashable) -> bool:
        """Return whether the part `key` followed a prefix."""
        return key in self._next.get(prefix, ())

    def same_parts(self, start: int, keys: Sequence[Hashable]) -> tuple[Hashable, ...]:
        """Return the last order of equal parts after an equal text; () without an earlier order."""
        return self._orders.get(hash((start, frozenset(keys))), ())

    def remember(self, start: int, keys: Sequence[Hashable]) -> None:
        """Record a prompt: the parts `keys` in order, after a text."""
        prefix = start
        for key in keys:
            self._next.setdefault(prefix, set()).add(key)
            self._next.move_to_end(prefix)
            prefix = hash((prefix, key))
        parts = hash((start, frozenset(keys)))
        self._orders[parts] = tuple(keys)
        self._orders.move_to_end(parts)
        while len(self._next) > self._capacity:
            self._next.popitem(last=False)
        while len(self._orders) > self._capacity:
            self._orders.popitem(last=False)


class _Value(NamedTuple):
    """Value of an order, in tokens. The larger tuple is better."""

    whole: int  # of parts that are cached to their end
    remembered: int  # of parts that follow as in an earlier prompt
    cached: int  # all cached tokens, the beginning of another part included


def find_order(
    keys: Sequence[Hashable], start: int, cache: CachedParts, memory: OrderMemory
) -> PartOrder:
    """Return the order with the longest cached prefix, and remember the order.

    The search is greedy: each place takes the part that extends the cached prefix furthest, then a
    part that followed in an earlier prompt, then the part with the longest cached beginning; ties
    keep the given order. At most n * (n + 1) / 2 measurements for n parts. The result is never
    worse than the given order.

    Args:
        keys: Identities of the parts; equal parts have equal keys.
        start: Hash of the text before the parts.
        cache: Measures the parts in the cache.
        memory: Orders of earlier prompts.
    """
    count = len(keys)
    chosen = tuple(range(count))
    value = default = _value(chosen, keys, start, cache, memory)
    for order in (_greedy(keys, start, cache, memory), _same_parts(keys, start, memory)):
        if order and order != chosen:
            other = _value(order, keys, start, cache, memory)
            if other > value:
                chosen, value = order, other

    memory.remember(start, [keys[index] for index in chosen])
    gained = max(0, value.cached - default.cached)
    return PartOrder(chosen, gained, value.remembered > 0)


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """Arguments of `find_order` without the cache. A call with the cache searches the order."""

    keys: Sequence[Hashable]
    start: int
    memory: OrderMemory

    def __call__(self, cache: CachedParts) -> PartOrder:
        return find_order(self.keys, self.start, cache, self.memory)


def _greedy(
    keys: Sequence[Hashable], start: int, cache: CachedParts, memory: OrderMemory
) -> tuple[int, ...]:
    remaining, order, prefix, is_cached = list(range(len(keys))), list[int](), start, True
    cache.begin()
    while len(remaining) > 1:
        measured = cache.measure(remaining) if is_cached else {}
        whole = {i: part.tokens for i, part in measured.items() if part.is_whole}
        longest = whole or {i: cache.sizes[i] for i in remaining if memory.follows(prefix, keys[i])}
        longest = longest or {i: part.tokens for i, part in measured.items() if part.tokens}
        if not longest:
            break
        best = max(longest, key=longest.__getitem__)
        is_cached = bool(whole)
        remaining.remove(best)
        order.append(best)
        cache.append(best)
        prefix = hash((prefix, keys[best]))
    return (*order, *remaining)


def _same_parts(keys: Sequence[Hashable], start: int, memory: OrderMemory) -> tuple[int, ...]:
    """Return the last order of equal parts; () without an earlier order, or with repeated parts."""
    indices = {key: index for index, key in enumerate(keys)}
    earlier = memory.same_parts(start, keys)
    if not len(indices) == len(keys) == len(earlier):
        return ()
    return tuple(indices[key] for key in earlier)


def _value(
    order: Sequence[int],
    keys: Sequence[Hashable],
    start: int,
    cache: CachedParts,
    memory: OrderMemory,
) -> _Value:
    whole = remembered = cached = 0
    prefix, is_cached = start, True
    cache.begin()
    for part in order:
        measured = cache.measure([part]).get(part, NOT_CACHED) if is_cached else NOT_CACHED
        cached = max(cached, measured.end)
        is_cached = measured.is_whole
        if is_cached:
            whole = cached
        elif memory.follows(prefix, keys[part]):
            remembered += cache.sizes[part]
        else:
            break
        cache.append(part)
        prefix = hash((prefix, keys[part]))
    return _Value(whole, remembered, cached)
