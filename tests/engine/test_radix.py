"""The radix tree against a dictionary that maps every stored prefix to the slot of its last
token."""

from __future__ import annotations

import random
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from sgnb.engine.cache import manual
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import EVICTION_POLICIES, Prefix, RadixNode, RadixTree, common_length
from sgnb.engine.cache.slot_allocator import SlotAllocator

from ..marks import some_are_slow
from .replay import Mirror, Replay, tree_rows

KEYS: dict[str, Callable[[Mirror], Any]] = {
    "lru": lambda n: n.tick,
    "lfu": lambda n: (n.hits, n.tick),
    "fifo": lambda n: n.born,
    "slru": lambda n: (n.hits >= 2, n.tick),
    "cost": lambda n: (not n.copied, n.hits >= 2, n.tick),
}

Sequence = tuple[int, ...]


def ints(tokens: Sequence) -> np.ndarray:
    return np.array(tokens, np.int32)


def slots(nodes: list[RadixNode]) -> list[np.ndarray]:
    return [node.slots for node in nodes]


class Checked:
    """A tree under random operations. `stored` is the oracle; `replay` is the same tree, made from
    the events only."""

    def __init__(self, policy: str, seed: int) -> None:
        self.policy = policy
        self.rng = random.Random(seed)
        self.replay = Replay()
        self.tree = RadixTree(self.replay.apply, policy)
        self.stored: dict[tuple[str, Sequence], int] = {}
        self.held: list[tuple[str, Sequence, RadixNode]] = []
        self.hints: dict[tuple[str, Sequence], Prefix] = {}
        self.slots = 0
        self.kept: dict[tuple[int, str], tuple[str, Sequence]] = {}  # what is pinned

    def known(self, namespace: str, tokens: Sequence) -> int:
        """Length of the longest stored prefix."""
        return next(
            n
            for n in range(len(tokens), -1, -1)
            if n == 0 or (namespace, tokens[:n]) in self.stored
        )

    def expected_slots(self, namespace: str, tokens: Sequence) -> list[int]:
        return [self.stored[namespace, tokens[: i + 1]] for i in range(len(tokens))]

    def draw(self) -> tuple[str, Sequence]:
        """A namespace and a short sequence of few different tokens."""
        return self.rng.choice(["", "", "adapter"]), tuple(
            self.rng.choices(range(3), k=self.rng.randint(1, 9))
        )

    def insert(self) -> None:
        """From the root, or below a node that is locked."""
        (namespace, tokens), start = self.draw(), None
        if self.held and self.rng.random() < 0.5:
            namespace, begin, start = self.rng.choice(self.held)
            tokens = begin + tokens
            if not begin:
                start = None
        slots = ints(tuple(range(self.slots, self.slots + len(tokens))))
        self.slots += len(tokens)
        known, begin = self.known(namespace, tokens), start.end if start else 0
        node, existing = self.tree.insert(ints(tokens), slots, namespace, start)
        assert (node.end, existing) == (len(tokens), known - begin)
        for n in range(known + 1, len(tokens) + 1):
            self.stored[namespace, tokens[:n]] = int(slots[n - 1])
        assert node.path_slots().tolist() == self.expected_slots(namespace, tokens)

    def match(self) -> None:
        namespace, tokens = self.draw()
        known = self.known(namespace, tokens)
        node = self.tree.match(ints(tokens), namespace)
        assert node.end == known
        assert node.path_slots().tolist() == self.expected_slots(namespace, tokens[:known])
        for used in self.replay.path(node.id):
            used.hits += 1
        if len(self.held) < 6:
            self.tree.lock(node)
            self.held.append((namespace, tokens[:known], node))

    def peek(self) -> None:
        """Without a hint, and with what earlier looks gave."""
        before = tree_rows(self.tree)
        for seen, hint in [*self.hints.items(), (self.draw(), None)]:
            prefix = self.tree.peek(ints(seen[1]), seen[0], hint)
            assert prefix.length == self.known(*seen)
            assert prefix.holds and prefix.node.end <= prefix.length
            self.hints[seen] = prefix
        assert tree_rows(self.tree) == before

    def unlock(self) -> None:
        if self.held:
            _, _, node = self.held.pop(self.rng.randrange(len(self.held)))
            self.tree.unlock(node)

    def evict(self) -> None:
        count = self.rng.randint(0, 12)
        victims = self.replay.victims(count, KEYS[self.policy])
        self._remove(victims, lambda: slots(self.tree.evict(count)), "memory")

    def copy(self) -> None:
        """A lower tier has a copy of a node."""
        nodes = list(self.tree.nodes())
        if nodes:
            node = self.rng.choice(nodes)
            self.tree.mark_copied(node)
            self.replay.nodes[node.id].copied = True

    def pin(self) -> None:
        """The node in which a prefix ends, by one of two people."""
        namespace, tokens = self.draw()
        prefix = self.tree.peek(ints(tokens), namespace)
        node, owner = prefix.child or prefix.node, self.rng.choice("ab")
        self.tree.pin(node, owner)
        if node is not self.tree.root:
            path = self.replay.namespace(node.id), self.replay.tokens(node.id)
            self.kept[node.id, owner] = path

    def unpin(self) -> None:
        if self.kept:
            node, owner = self.rng.choice(list(self.kept))
            self.tree.unpin(self.tree.pins[node, owner], owner)
            del self.kept[node, owner]

    def evict_subtree(self) -> None:
        """By hand: all that is not locked of a node and below it."""
        if not self.replay.nodes:
            return
        cache, top = CacheManager(SlotAllocator(self.slots)), self.rng.choice([*self.replay.nodes])
        cache.tree = self.tree
        cache.slots.allocate(self.slots)
        below = [n for n in self.replay.nodes if top in [one.id for one in self.replay.path(n)]]
        unlocked = [n for n in below if not self.replay.nodes[n].locks]
        used = {one.id for _, _, held in self.held for one in self.replay.path(held.id)}
        stay = [(n, len(self.replay.nodes[n].tokens)) for n in below if n not in unlocked]
        results: list[manual.EvictionReport] = []

        def act() -> list[np.ndarray]:
            cache.slots.unit_bytes = 10
            results.append(manual.evict(cache, top))
            return [cache.slots.allocate(cache.slots.available)]

        self._remove(unlocked, act, "hand", in_order=False)
        (gone,) = results
        assert (gone.nodes, gone.bytes) == (len(unlocked), 10 * gone.freed)
        assert gone.in_use == sum(tokens for n, tokens in stay if n in used)
        assert gone.pinned == sum(tokens for n, tokens in stay if n not in used)

    def flush(self) -> None:
        unlocked = [n.id for n in self.replay.nodes.values() if not n.locks]
        self._remove(unlocked, lambda: slots(self.tree.flush()), "flush", in_order=False)

    def discard(self) -> None:
        """The topmost unlocked node on a path, and all below it. Pins that hold any of it are
        undone."""
        namespace, tokens = self.draw()
        released: Counter[int] = Counter()
        for node, owner in list(self.kept):
            path = self.replay.path(node)
            if (path[-1].namespace, path[-1].tokens) == (namespace, tokens[: len(path[-1].tokens)]):
                del self.kept[node, owner]
                released.update(one.id for one in path)
        on_path = [
            node
            for node, mirror in self.replay.nodes.items()
            if mirror.locks == released[node]
            and self.replay.namespace(node) == namespace
            and self.replay.tokens(node) == tokens[: len(self.replay.tokens(node))]
        ]
        begin = min(
            (self.replay.tokens(node) for node in on_path), key=len, default=(*tokens, None)
        )
        below = [
            node
            for node in self.replay.nodes
            if self.replay.namespace(node) == namespace
            and self.replay.tokens(node)[: len(begin)] == begin
        ]
        discard = partial(self.tree.discard, ints(tokens), namespace)
        self._remove(below, lambda: slots(discard()), "spoilt", in_order=False)

    def _remove(
        self,
        victims: list[int],
        act: Callable[[], list[np.ndarray]],
        reason: str,
        in_order: bool = True,
    ) -> None:
        gone = []
        for node in victims:
            namespace, tokens = self.replay.namespace(node), self.replay.tokens(node)
            own = len(self.replay.nodes[node].tokens)
            gone += [(namespace, tokens[:n]) for n in range(len(tokens) - own + 1, len(tokens) + 1)]
        self.replay.evicted.clear()
        freed = act()
        happened = [node for node, why in self.replay.evicted if why == reason]
        assert happened == victims if in_order else sorted(happened) == sorted(victims)
        assert sorted(int(s) for part in freed for s in part) == sorted(
            self.stored.pop(prefix) for prefix in gone
        )

    def check(self) -> None:
        assert self.replay.rows() == tree_rows(self.tree)
        locked = {
            (namespace, tokens[: n + 1])
            for namespace, tokens, _ in self.held
            for n in range(len(tokens))
        }
        locked |= {
            (namespace, tokens[: n + 1])
            for namespace, tokens in self.kept.values()
            for n in range(len(tokens))
        }
        assert sorted(self.replay.pins) == sorted(self.kept) == sorted(self.tree.pins)
        assert locked <= self.stored.keys(), "a locked node was evicted"
        assert (self.tree.size, self.tree.locked) == (len(self.stored), len(locked))
        assert self.tree.evictable == len(self.stored) - len(locked)
        for node in [self.tree.root, *self.tree.nodes()]:
            for key, child in node.children.items():
                first = child.tokens[0].item()
                assert child.parent is node and child.key == key == (
                    first if node.parent else (key[0], first)
                )
                assert child.end == node.end + len(child.tokens) and len(child.slots) == len(
                    child.tokens
                )


OPERATIONS = {
    "insert": 6,
    "match": 5,
    "peek": 1,
    "unlock": 4,
    "evict": 2,
    "flush": 0.1,
    "discard": 0.5,
    "pin": 2,
    "unpin": 2,
    "evict_subtree": 0.4,
    "copy": 1,
}


@pytest.mark.parametrize("policy", sorted(KEYS))
@pytest.mark.parametrize("seed", some_are_slow(range(4), range(2)))
def test_random_operations(policy: str, seed: int) -> None:
    checked = Checked(policy, seed)
    kinds: Counter[type] = Counter()
    checked.tree._emit = lambda event: (kinds.update([type(event)]), checked.replay.apply(event))
    for operation in checked.rng.choices(list(OPERATIONS), list(OPERATIONS.values()), k=1500):
        getattr(checked, operation)()
        checked.check()
    assert len(kinds) == 6 and min(kinds.values()) > 100, "every kind of event happened often"


def test_every_policy_is_tested() -> None:
    assert set(KEYS) == set(EVICTION_POLICIES)


def test_a_node_that_was_a_hint_may_be_evicted() -> None:
    tree = RadixTree()
    tree.insert(ints((1, 2, 3)), ints((0, 1, 2)))
    hint = tree.peek(ints((1, 2, 3, 4)))
    tree.evict(3)
    assert not hint.holds
    assert tree.peek(ints((1, 2, 3, 4)), hint=hint)[:2] == (tree.root, 0)


def test_a_flushed_tree_holds_no_node() -> None:
    tree = RadixTree()
    node = tree.insert(ints((1, 2, 3)), ints((0, 1, 2))).node
    kept = tree.insert(ints((4, 5)), ints((3, 4))).node
    tree.lock(kept)
    gone = weakref.ref(node.tokens)
    del node
    tree.flush()
    assert gone() is None
    tree.unlock(kept)
    assert [node.slots.tolist() for node in tree.evict(9)] == [[3, 4]]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((), (1,), 0), ((1, 2), (1, 2, 3), 2), ((1, 2), (1, 3), 1), ((4,), (5,), 0)],
)
def test_common_length(a: Sequence, b: Sequence, expected: int) -> None:
    assert common_length(ints(a), ints(b)) == common_length(ints(b), ints(a)) == expected
