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
            pool.release(taken.pop(rng.randrange(len(taken))))
        elif pool.free:
            taken.append(pool.allocate(rng.randint(1, pool.free)))
        used = np.concatenate([np.empty(0, np.int32), *taken])
        assert len(set(used.tolist())) == len(used) == pool.total - pool.free
        assert all(0 <= slot < 50 for slot in used)


def test_neighbours_come_in_order() -> None:
    pool = SlotAllocator(10)
    first, second = pool.allocate(4), pool.allocate(3)
    assert first.tolist() == [0, 1, 2, 3] and second.tolist() == [4, 5, 6]
    pool.release(first)
    assert pool.allocate(4).tolist() == [0, 1, 2, 3]


def test_too_many() -> None:
    pool = SlotAllocator(3)
    with pytest.raises(MemoryError, match="4 KV slots asked for, 3 of 3 free"):
        pool.allocate(4)
    assert pool.free == 3
