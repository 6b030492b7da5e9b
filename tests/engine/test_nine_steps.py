"""The eviction example of the SGLang paper (arXiv 2312.07104, figure 3), step by step. Every
character is a token."""

from __future__ import annotations

import numpy as np

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import RadixNode
from sgnb.engine.cache.slot_allocator import SlotAllocator

MEMORY = 24
SYSTEM, HELLO, SOLVE, BACK = "sys:", "1st.", "integrate.", "comeback"
SECOND, MORE = "2nd.", "go."
EXAMPLES, ADD, BEE, CEE = "ex:", "aA", "b", "cC"


class Cache:
    """A cache manager with one request after another, as by the scheduler."""

    def __init__(self) -> None:
        self.manager = CacheManager(SlotAllocator(MEMORY))
        self.tree, self.pool = self.manager.tree, self.manager.slots

    def run(self, text: str) -> int:
        """Compute `text` and keep it; how many of its tokens were cached."""
        tokens = np.array([ord(c) for c in text], np.int32)
        node = self.tree.match(tokens)
        self.tree.lock(node)
        added = self.manager.allocate(len(tokens) - node.end)
        assert added is not None
        slots = np.concatenate([node.path_slots(), added])
        self.tree.insert(tokens, slots, start=node)
        self.tree.unlock(node)
        assert self.pool.available + self.tree.size == MEMORY and not self.tree.locked
        return node.end

    def outline(self) -> dict[str, object]:
        """Edge -> what hangs below it."""

        def below(node: RadixNode) -> dict[str, object]:
            return {
                "".join(map(chr, child.tokens)): below(child) for child in node.children.values()
            }

        return below(self.tree.root)


def test_the_nine_steps() -> None:
    cache = Cache()
    assert cache.outline() == {}  # 1: empty

    assert cache.run(SYSTEM + HELLO) == 0  # 2: a first chat, one edge
    assert cache.outline() == {SYSTEM + HELLO: {}}

    assert cache.run(SYSTEM + HELLO + SOLVE) == len(SYSTEM + HELLO)  # 3: its second turn
    assert cache.outline() == {SYSTEM + HELLO: {SOLVE: {}}}

    assert cache.run(SYSTEM + SECOND) == len(
        SYSTEM
    )  # 4: a second chat shares the system prompt, the node splits
    assert cache.outline() == {SYSTEM: {HELLO: {SOLVE: {}}, SECOND: {}}}

    assert cache.run(SYSTEM + SECOND + MORE) == len(
        SYSTEM + SECOND
    )  # 5: memory: the first chat's second turn goes
    assert cache.outline() == {SYSTEM: {HELLO: {}, SECOND: {MORE: {}}}}

    assert cache.run(EXAMPLES + ADD) == 0  # 6: a few-shot query, a second child of the root
    assert cache.outline() == {SYSTEM: {HELLO: {}, SECOND: {MORE: {}}}, EXAMPLES + ADD: {}}

    assert (
        cache.run(EXAMPLES + BEE) == cache.run(EXAMPLES + CEE) == len(EXAMPLES)
    )  # 7: more of them: their node splits
    few_shot = {ADD: {}, BEE: {}, CEE: {}}
    assert cache.outline() == {SYSTEM: {HELLO: {}, SECOND: {MORE: {}}}, EXAMPLES: few_shot}

    assert cache.run(SYSTEM + HELLO + BACK) == len(
        SYSTEM + HELLO
    )  # 8: the first chat again: all of the second goes
    assert cache.outline() == {SYSTEM: {HELLO: {BACK: {}}}, EXAMPLES: few_shot}

    for answer in "DEF":  # 9: more answers to the last question: the other questions go
        assert cache.run(EXAMPLES + "c" + answer) == len(EXAMPLES + "c")
    assert cache.outline() == {
        SYSTEM: {HELLO: {BACK: {}}},
        EXAMPLES: {"c": {"C": {}, "D": {}, "E": {}, "F": {}}},
    }
