"""The pool of free KV slots."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sgnb.engine.cache.slot_allocator import SlotAllocator


def test_no_slot_is_handed_out_twice() -> None:
    rng = random.Random(0)
    pool, taken = SlotAllocator(50), []
    for _ in range(500):
        if taken and rng.random() < 0.5:
            pool.free(taken.pop(rng.randrange(len(taken))))
        elif pool.available:
            taken.append(pool.allocate(rng.randint(1, pool.available)))
        used = np.concatenate([np.empty(0, np.int32), *taken])
        assert len(set(used.tolist())) == len(used) == pool.total - pool.available
        assert all(0 <= slot < 50 for slot in used)


def test_neighbours_come_in_order() -> None:
    pool = SlotAllocator(10)
    first, second = pool.allocate(4), pool.allocate(3)
    assert first.tolist() == [0, 1, 2, 3] and second.tolist() == [4, 5, 6]
    pool.free(first)
    assert pool.allocate(4).tolist() == [0, 1, 2, 3]


def test_too_many() -> None:
    pool = SlotAllocator(3)
    with pytest.raises(MemoryError, match="4 slots requested, 3 of 3 are available"):
        pool.allocate(4)
    assert pool.available == 3
