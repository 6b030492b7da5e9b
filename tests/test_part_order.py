"""The order of parts with the longest cached prefix: against all permutations, on a tree of
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine.cache.part_extents import CachedPrompt, PartsPrompt, PartTokens, StoredKeys
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.cache.tiers.blocks import BLOCK, block_keys
from sgnb.part_order import CachedPart, NoCache, OrderMemory, PartOrder, find_order

HEAD = (7, 7, 7)
Tokens = tuple[int, ...]


class SlowCache:
    """`CachedParts` by comparison with every cached prompt, and a count of the measurements."""

    def __init__(self, parts: Sequence[Tokens], prompts: Sequence[Tokens]) -> None:
        self.parts, self.prompts, self.sizes = parts, prompts, [len(part) for part in parts]
        self.asked = 0
        self.begin()

    def begin(self) -> None:
        self.prefix: Tokens = HEAD

    def measure(self, parts: Sequence[int]) -> dict[int, CachedPart]:
        return {part: self._measure(part) for part in parts}

    def _measure(self, part: int) -> CachedPart:
        self.asked += 1
        text = self.prefix + self.parts[part]
        cached = max(0, cached_length(text, self.prompts) - len(self.prefix))
        end = len(self.prefix) - len(HEAD) + cached if cached else 0
        return CachedPart(cached, cached == len(self.parts[part]), end)

    def append(self, part: int) -> None:
        self.prefix += self.parts[part]


def cached_length(text: Tokens, prompts: Sequence[Tokens]) -> int:
    """Tokens of `text` in the cache, the slow way."""
    most = 0
    for prompt in prompts:
        count = 0
        while count < min(len(text), len(prompt)) and text[count] == prompt[count]:
            count += 1
        most = max(most, count)
    return most


def joined(parts: Sequence[Tokens], order: Sequence[int]) -> Tokens:
    return HEAD + tuple(token for index in order for token in parts[index])


def tree_of(prompts: Sequence[Tokens]) -> RadixTree:
    tree, used = RadixTree(), 0
    for prompt in prompts:
        tokens = np.array(prompt, np.int32)
        tree.insert(tokens, np.arange(used, used + len(tokens), dtype=np.int32))
        used += len(tokens)
    return tree


def tree_cache(
    parts: Sequence[Tokens],
    tree: RadixTree,
    stored: StoredKeys | None = None,
    namespace: str | None = "",
) -> CachedPrompt:
    pieces = [PartTokens(0, np.array(part, np.int32)) for part in parts]
    head = np.array(HEAD, np.int32)
    prompt = PartsPrompt(head, pieces, [pieces], [0] * len(pieces), 0, namespace)
    return CachedPrompt(tree, prompt, stored)


PARTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple), min_size=2, max_size=5
)


@given(st.data(), PARTS)
def test_the_order_is_never_worse_than_the_given_order_nor_better_than_all(
    data: st.DataObject, parts: list[Tokens]
) -> None:
    orders = list(permutations(range(len(parts))))
    earlier = data.draw(st.lists(st.sampled_from(orders), max_size=4))
    cuts = data.draw(st.lists(st.integers(0, 20), min_size=len(earlier), max_size=len(earlier)))
    prompts = [joined(parts, order)[:cut] for order, cut in zip(earlier, cuts, strict=True)]
    prompts = [prompt for prompt in prompts if prompt]
    keys = [hash(part) for part in parts]

    slow = SlowCache(parts, prompts)
    found = find_order(keys, 0, slow, OrderMemory())
    lengths = {order: cached_length(joined(parts, order), prompts) for order in orders}
    default = lengths[orders[0]]
    assert sorted(found.order) == list(range(len(parts)))
    assert default <= lengths[found.order] <= max(lengths.values())
    assert found.gained == lengths[found.order] - default and not found.follows
    count = len(parts)
    assert slow.asked <= count * (count + 1) / 2 + 3 * count

    fast = find_order(keys, 0, tree_cache(parts, tree_of(prompts)), OrderMemory())
    assert fast == found


@given(st.data(), st.integers(2, 5))
def test_distinct_parts_of_an_earlier_prompt_are_found_in_its_order(
    data: st.DataObject, count: int
) -> None:
    parts = [tuple([i + 10] * data.draw(st.integers(1, 9))) for i in range(count)]
    earlier = tuple(data.draw(st.permutations(range(count))))
    prompts = [(*joined(parts, earlier), 99, 98)]
    found = find_order(parts, 0, tree_cache(parts, tree_of(prompts)), OrderMemory())
    assert joined(parts, found.order) == joined(parts, earlier)
    assert cached_length(joined(parts, found.order), prompts) == len(joined(parts, earlier))


def test_merged_seams_replace_the_end_of_the_text_before() -> None:
    prompt = np.array([*HEAD, 1, 2, 50, 3, 4, 60], np.int32)  # 50, 60: merged separators
    first = [PartTokens(0, np.array(part, np.int32)) for part in ((3, 4, 9), (1, 2, 9))]
    later = [PartTokens(1, np.array(part, np.int32)) for part in ((50, 3, 4, 9), (50, 1, 2, 9))]
    tree = tree_of([tuple(prompt.tolist())])
    parts = PartsPrompt(prompt[:3], first, [later], [0, 0], separator=1)
    cache = CachedPrompt(tree, parts, None)
    assert find_order("ab", 0, cache, OrderMemory()) == PartOrder((1, 0), gained=5)
    cache.begin()
    assert cache.measure([0, 1]) == {1: (2, True, 2)}
    cache.append(1)
    assert cache.measure([0]) == {0: (3, True, 5)}


@pytest.mark.parametrize("in_tree", [0, 3, 40, 64, 100, 190])
def test_copies_of_the_tiers_continue_the_tree(in_tree: int) -> None:
    generator = np.random.default_rng(0)
    parts = [tuple(generator.integers(100, 9000, 90).tolist()) for _ in range(4)]
    prompt = joined(parts, (2, 0, 3, 1))
    held = set(block_keys(b"root", np.array(prompt, np.int32), {}))
    tree = tree_of([prompt[:in_tree]] if in_tree else [])
    stored = StoredKeys(
        b"root", lambda key, tokens: next(block_keys(key, tokens, {})), held.__contains__
    )
    cache = tree_cache(parts, tree, stored)
    found = find_order(parts, 0, cache, OrderMemory())
    assert found.order == (2, 0, 3, 1)
    assert found.gained == len(prompt) // BLOCK * BLOCK - len(HEAD)
    private = tree_cache(parts, RadixTree(), stored, "private")
    assert find_order(parts, 0, private, OrderMemory()).order == (0, 1, 2, 3)


def test_a_private_prompt_finds_nothing() -> None:
    parts = [(1, 1), (2, 2)]
    tree = tree_of([joined(parts, (1, 0))])
    cache = tree_cache(parts, tree, namespace=None)
    assert find_order(parts, 0, cache, OrderMemory()).order == (0, 1)


def test_the_order_of_an_earlier_prompt_is_remembered() -> None:
    memory, sizes = OrderMemory(), [5, 5, 5]
    first = find_order("abc", 0, NoCache(sizes), memory)
    assert first == PartOrder((0, 1, 2)) and first.is_given
    assert find_order("cab", 0, NoCache(sizes), memory) == PartOrder((1, 2, 0), follows=True)
    assert find_order("cab", 1, NoCache(sizes), memory) == PartOrder((0, 1, 2))  # another text
    # A new part comes after the parts of the earlier prompt.
    assert find_order("xcab", 0, NoCache([5] * 4), memory).order == (2, 3, 1, 0)


def test_the_same_parts_keep_their_order_whatever_other_prompts_began_with() -> None:
    memory = OrderMemory()
    find_order("ab", 0, NoCache([1, 9]), memory)
    find_order("bc", 0, NoCache([9, 1]), memory)
    assert find_order("ba", 0, NoCache([9, 1]), memory).order == (1, 0)


def test_a_whole_part_in_the_cache_goes_before_an_earlier_prompt() -> None:
    parts = [(1, 1), (2, 2), (3, 3)]
    memory = OrderMemory()
    find_order(parts, 0, NoCache([2, 2, 2]), memory)
    tree = tree_of([joined(parts, (2,))])
    found = find_order(parts, 0, tree_cache(parts, tree), memory)
    assert found.order[0] == 2 and found.gained == 2


def test_the_memory_is_bounded() -> None:
    memory = OrderMemory(capacity=4)
    for i in range(20):
        find_order([i, -i - 1], 0, NoCache([1, 1]), memory)
    assert len(memory._next) <= 4 and len(memory._orders) <= 4
    assert find_order([-20, 19], 0, NoCache([1, 1]), memory).order == (1, 0)


def test_words() -> None:
    assert PartOrder((1, 0), 1900).line() == "parts in the order 2, 1: 1,900 more tokens cached"
    assert PartOrder((1, 0), 1).line() == "parts in the order 2, 1: 1 more token cached"
    assert PartOrder((1, 0), 0, True).line() == "parts in the order 2, 1: as in an earlier prompt"
    assert PartOrder((0, 1)).line() == "2 parts in the given order"
    long: Any = tuple(range(1, 20))
    assert PartOrder((*long, 0), 5).line().startswith("parts in the order 2, 3, 4, 5, 6, 7, 8, 9,")
    assert "13, …: 5 more" in PartOrder((*long, 0), 5).line()
