"""Plans of decode steps that follow one another read what plans made anew read, whatever happens
between steps."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from collections.abc import Sequence
from itertools import compress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attention_gpu import Case, batch_of
from sgnb.engine.attention import decode_plans
from sgnb.engine.attention.decode_plans import DecodePlans
from sgnb.engine.attention.query_tiles import CostModel, TileConfig
from sgnb.engine.attention.schedule import Schedule
from sgnb.engine.attention.staging import StagingBuffers
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.engine.scheduler import Scheduler
from sgnb.sampling import SamplingParams

from .interpreter import needs_triton
from .test_triton_attention import CHEAP, SCRATCH, expected, planned, seen

MIDDLE = CostModel(shared_row=2, launch=0, work_item=9, min_work=40, align=8, detach=20)


class Engine:
    """A scheduler whose requests begin, fork, end, wait for memory and are rewritten at random,
    without a model."""

    def __init__(self, rng: random.Random, slots: int) -> None:
        pool = SlotAllocator(slots)
        self.scheduler = Scheduler(
            CacheManager(pool), context_length=200, max_step_tokens=64, max_running=12
        )
        self._rng, self._count, self._histories = rng, 0, [[1] * rng.choice([3, 30])]

    def begin(self) -> None:
        """A request below the beginning of what some request had."""
        rng = self._rng
        history = rng.choice(self._histories)
        prompt = history[: rng.randint(1, len(history))] + [
            rng.randrange(2, 4) for _ in range(rng.randint(1, 12))
        ]
        self._count += 1
        self.scheduler.add(Request(self._count, prompt, SamplingParams(), rng.choice([1, 5, 60])))

    def step(self) -> Batch | None:
        """What was launched, if anything; `read` must follow."""
        self._batch = self.scheduler.schedule()
        return self._batch if self._batch.requests else None

    def read(self) -> None:
        rng = self._rng
        self.scheduler.complete(self._batch)
        for request in compress(self._batch.requests, self._batch.samples):
            request.append(rng.randrange(2, 4))
        for request in list(self.scheduler.running):
            if request.remaining == 0 or rng.random() < 0.01:
                self._histories.append(request.tokens.tolist())
                self.scheduler.finish(request)
            elif (
                request.num_output_tokens > 2
                and request.num_uncomputed == 1
                and rng.random() < 0.02
            ):
                request.rewrite(request.num_tokens - 2, [rng.randrange(2, 4)])
                self.scheduler.requeue_rewritten(request)


class Plans:
    """Decode plans of a configuration, checked in every step. made, followed: how many of them."""

    def __init__(self, config: TileConfig, fork: bool = True) -> None:
        self.plans = DecodePlans(config, fork=fork, scratch=SCRATCH)
        self.made = self.followed = 0
        self._config, self._fork = config, fork

    def step(self, batch: Batch, rows: int) -> bool:
        """Whether it followed the step before. What each row reads is what it should, and what it
        would read by a plan made from nothing."""
        reserved = self.plans._reserved
        schedule, indices = self.plans.plan(attention_input(batch), rows)
        check(schedule, [indices], batch, rows)
        anew, kv_indices, has_cascade = planned(batch, self._config, self._fork, rows)
        assert self.plans.has_cascade == has_cascade
        check(anew, kv_indices.arrays, batch, rows)
        follows = self.plans._reserved == reserved - 1
        self.made, self.followed = self.made + (not follows), self.followed + follows
        return follows


def check(schedule: Schedule, indices: Sequence[np.ndarray], batch: Batch, rows: int) -> None:
    padding = {row: [(0, SCRATCH)] for row in range(len(batch), rows)}
    assert {row: sorted(places) for row, places in seen(schedule, indices).items()} == expected(
        batch
    ) | padding
    assert schedule.row_positions.tolist() == [*batch.starts, *[0] * len(padding)]


def after(batch: Batch, steps: int = 1) -> Batch:
    return Batch(batch.requests, batch.starts + steps, batch.lengths)


def follow(rng: random.Random, config: TileConfig, *, fork: bool, slots: int, steps: int) -> Plans:
    engine, plans, quiet = Engine(rng, slots), Plans(config, fork), 0
    for _ in range(steps):
        if quiet == 0:
            for _ in range(rng.randint(0, 3)):
                engine.begin()
            quiet = rng.choice([0, 1, 5, 40])
        else:
            quiet -= 1
        batch = engine.step()
        if batch is not None and batch.is_decode:
            plans.step(batch, -(-len(batch) // 4) * 4)
        elif batch is not None:
            plans.plans.forget()
        engine.read()
    return plans


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    small=st.sampled_from([1, 2, 4]),
    large=st.sampled_from([4, 7]),
    ctas=st.integers(1, 9),
    costs=st.sampled_from([CHEAP, MIDDLE]),
    slots=st.sampled_from([120, 250, 1000]),
    fork=st.booleans(),
)
def test_random_steps(
    seed: int, small: int, large: int, ctas: int, costs: CostModel, slots: int, fork: bool
) -> None:
    """Rows begin, fork, end, are retracted and rewritten; nodes split; slots of duplicates change;
    prefixes go."""
    follow(
        random.Random(seed),
        TileConfig(small, large, ctas, ctas + 1, costs),
        fork=fork,
        slots=slots,
        steps=60,
    )


def test_most_steps_follow() -> None:
    plans = follow(
        random.Random(1), TileConfig(2, 4, 5, 5, CHEAP), fork=True, slots=1000, steps=200
    )
    assert plans.followed > 2 * plans.made > 0


def growing(case: Case, room: int) -> Batch:
    """A decode step whose requests have slots for so many more."""
    batch, slots = batch_of(case)
    for i, (request, end) in enumerate(zip(batch.requests, batch.ends.tolist(), strict=True)):
        own = np.arange(room, dtype=np.int32) + slots + i * room
        request.slots = np.concatenate([request.slots[:end], own])
    return batch


@pytest.mark.parametrize("costs", [CHEAP, MIDDLE, CostModel(launch=0)])
@pytest.mark.parametrize("reserve", [13, pytest.param(100, marks=pytest.mark.slow)])
def test_a_tree_grows(costs: CostModel, reserve: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row: alone, in a tree, or with tokens that are read apart; until nothing is
    reserved."""
    monkeypatch.setattr(decode_plans, "MAX_RESERVE", reserve)
    batch = growing(Case("", [(1, 90), (3, 40), (6, 2), (12, 25), (24, 3)], 24), 50)
    plans = Plans(TileConfig(2, 5, 6, 5, costs))
    followed = [plans.step(after(batch, number), 32) for number in range(50)]
    assert followed == [number % (reserve + 1) > 0 for number in range(50)]


def test_what_does_not_follow() -> None:
    batch = growing(Case("", [(1, 40), (4, 6)], 4), 9)
    config = TileConfig(2, 5, 6, 5, CHEAP)

    def follows(then: Batch, rows: int = 4) -> bool:
        plans = Plans(config)
        assert not plans.step(batch, 4)
        return plans.step(then, rows)

    def among(request: Request) -> Batch:
        return Batch([*batch.requests[:3], request], batch.starts + 1, batch.lengths)

    assert follows(after(batch)) and not follows(batch) and not follows(after(batch, 2))
    assert not follows(after(batch), rows=8)
    assert not follows(after(batch.part(0, 3)))
    assert not follows(Batch(batch.requests[::-1], batch.starts + 1, batch.lengths))
    assert not follows(Batch(batch.requests, batch.starts + np.array([1, 1, 1, 0]), batch.lengths))
    twin = copy.copy(batch.requests[3])
    assert follows(among(twin))
    twin.id = 99
    assert not follows(among(twin))
    elsewhere = copy.copy(batch.requests[3])
    elsewhere.node = None
    assert not follows(among(elsewhere))
    plans = Plans(config)
    plans.step(batch, 4)
    plans.plans.forget()
    assert not plans.step(after(batch), 4)


def test_a_plan_keeps_no_request() -> None:
    """It stays until the next step, which may be long in coming."""
    batch = growing(Case("", [(1, 40), (4, 6)], 4), 9)
    plans = Plans(TileConfig(2, 5, 6, 5, CHEAP))
    plans.step(batch, 4)
    requests = [weakref.ref(request) for request in batch.requests]
    del batch
    gc.collect()
    assert [ref() for ref in requests] == [None] * 4


@needs_triton
@pytest.mark.parametrize("padded", [None, 24])
def test_tables_on_the_device(padded: int | None) -> None:
    """After each step they hold the whole plan."""
    from sgnb.engine.attention.triton_backend import TritonAttention

    batch = growing(Case("", [(1, 300), (2, 40), (20, 30)], 20), 80)
    kv = KVCache({0: LayerShape(2, 8, 8)}, 10_000, torch.float32, torch.device("cpu"))
    attention = TritonAttention(kv, {0: 8})
    for number in range(70):
        now = after(batch, number)
        if number % 30 == 20:
            now = now.part(0, 5)  # others, which end what was there
        step = attention_input(now)
        attention.plan(step, padded)
        [plan] = attention._active[attention._geometries[0]]
        decodes, tables = plan._decodes, plan._tables
        assert (
            tables["kv_indices"][: len(decodes._kv_indices)].tolist()
            == decodes._kv_indices.tolist()
        )
        assert (
            tables["row_masks"][: len(decodes._masks.masks)].tolist()
            == decodes._masks.masks.tolist()
        )
        assert attention.new_slots[: len(now)].tolist() == step.new_slots.tolist()
        assert attention.new_slots[len(now) :].tolist() == [kv.slots] * (
            (padded or len(now)) - len(now)
        )


def test_staging() -> None:
    """Several arrays of a table, tables near and far apart, until one grows."""
    tables = StagingBuffers(torch.device("cpu"), {"a": 100, "b": 9000, "c": 100})
    a, c = np.arange(90, dtype=np.int32), np.arange(90, 120, dtype=np.int32)
    for turn in range(5):
        tables.fill({"a": [a[:50] + turn, a[50:]], "c": [c + turn]})
        assert tables["a"][:90].tolist() == [*(a[:50] + turn), *a[50:]]
        assert tables["c"][:30].tolist() == (c + turn).tolist()
    tables.fill({"a": [a], "b": [a, a], "c": [c.reshape(15, 2)]})
    assert tables["b"][:180].tolist() == [*a, *a] and tables["c"][:30].tolist() == c.tolist()
    assert tables.generation == 0
    tables.fill({"a": [np.zeros(101, np.int32)]})
    assert tables.generation == 1 and len(tables["a"]) == 128
