"""Plans of decodes that follow one another read what plans made from nothing read, whatever happens between steps."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attention_gpu import Case, chunks_of
from sgnb.engine.attention import decoding
from sgnb.engine.attention.decoding import DecodePlan, Decodes
from sgnb.engine.attention.planning import plan_rows
from sgnb.engine.attention.query_tiles import CostModel, KVIndices, TileConfig
from sgnb.engine.attention.staging import StagingBuffers
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.request import Chunk, Request
from sgnb.engine.scheduler import Scheduler
from sgnb.sampling import SamplingParams

from .interpreter import needs_triton
from .test_triton_attention import CHEAP, SCRATCH, expected, seen

MIDDLE = CostModel(row=2, kernel=0, piece=9, least=40, align=8, detach=20)


class Engine:
    """A scheduler whose requests begin, fork, end, wait for memory and are rewritten at random, without a model."""

    def __init__(self, rng: random.Random, slots: int) -> None:
        pool = SlotAllocator(slots)
        self.scheduler = Scheduler(RadixTree(), pool, context_length=200, max_step_tokens=64, max_running=12)
        self._rng, self._count, self._histories = rng, 0, [[1] * rng.choice([3, 30])]

    def begin(self) -> None:
        """A request below the beginning of what some request had."""
        rng = self._rng
        history = rng.choice(self._histories)
        prompt = history[: rng.randint(1, len(history))] + [rng.randrange(2, 4) for _ in range(rng.randint(1, 12))]
        self._count += 1
        self.scheduler.add(Request(self._count, prompt, SamplingParams(), rng.choice([1, 5, 60])))

    def step(self) -> list[Chunk]:
        """Its chunks, when they were launched; `read` must follow."""
        return self.scheduler.schedule()

    def read(self, chunks: list[Chunk]) -> None:
        rng = self._rng
        self.scheduler.complete(chunks)
        for chunk in chunks:
            if chunk.samples:
                chunk.request.append(rng.randrange(2, 4))
        for request in list(self.scheduler.running):
            if request.remaining == 0 or rng.random() < 0.01:
                self._histories.append(request.tokens.tolist())
                self.scheduler.finish(request)
            elif request.num_output_tokens > 2 and request.num_uncomputed == 1 and rng.random() < 0.02:
                request.rewrite(request.num_tokens - 2, [rng.randrange(2, 4)])
                self.scheduler.requeue_rewritten(request)


def check(plan: DecodePlan, chunks: list[Chunk], rows: int, config: TileConfig, fork: bool) -> None:
    """What each row reads, and that a plan made from nothing reads the same."""
    count = len(chunks)
    wanted = expected(chunks, list(range(count)))
    padding: dict[int, list[tuple[int, int]]] = {row: [(0, SCRATCH)] for row in range(count, rows)}
    lists = KVIndices()
    anew = plan_rows(chunks, list(range(count)), config, lists, fork=fork, rows=rows, scratch=SCRATCH)
    for work, slots in ((plan.work, [plan.slots]), (anew, lists.arrays)):
        found: Any = seen(work, SimpleNamespace(arrays=slots))  # type: ignore[arg-type]
        assert {row: sorted(places) for row, places in found.items()} == wanted | padding
        assert work.row_positions.tolist() == [chunk.start for chunk in chunks] + [0] * (rows - count)
    assert plan.new_slots.tolist() == [int(chunk.request.slots[chunk.start]) for chunk in chunks]


def follow(rng: random.Random, config: TileConfig, *, fork: bool, slots: int, steps: int) -> tuple[int, int]:
    """How many plans were made from nothing, and how many followed another."""
    engine, plan, made, followed = Engine(rng, slots), None, 0, 0
    quiet = 0
    for _ in range(steps):
        if quiet == 0:
            for _ in range(rng.randint(0, 3)):
                engine.begin()
            quiet = rng.choice([0, 1, 5, 40])
        else:
            quiet -= 1
        chunks = engine.step()
        if chunks and all(chunk.length == 1 for chunk in chunks):
            decodes, rows = Decodes.of(chunks), -(-len(chunks) // 4) * 4
            if plan is not None and plan.precedes(decodes, rows):
                plan.advance(decodes)
                followed += 1
            else:
                plan = DecodePlan(chunks, decodes, config, fork=fork, rows=rows, scratch=SCRATCH)
                made += 1
            check(plan, chunks, rows, config, fork)
        engine.read(chunks)
    return made, followed


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    small=st.sampled_from([1, 2, 4]),
    large=st.sampled_from([4, 7]),
    bins=st.integers(1, 9),
    costs=st.sampled_from([CHEAP, MIDDLE]),
    slots=st.sampled_from([120, 250, 1000]),
    fork=st.booleans(),
)
def test_random_steps(seed: int, small: int, large: int, bins: int, costs: CostModel, slots: int, fork: bool) -> None:
    """Rows begin, fork, end, are retracted and rewritten; nodes split; slots of duplicates change; prefixes go."""
    follow(random.Random(seed), TileConfig(small, large, bins, bins + 1, costs), fork=fork, slots=slots, steps=60)


def test_most_steps_follow() -> None:
    made, followed = follow(random.Random(1), TileConfig(2, 4, 5, 5, CHEAP), fork=True, slots=1000, steps=200)
    assert followed > 3 * made > 0


@pytest.mark.parametrize("costs", [CHEAP, MIDDLE, CostModel(kernel=0)])
@pytest.mark.parametrize(("most", "steps"), [(13, 13), (100, 50)])
def test_a_tree_grows(costs: CostModel, most: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row, alone, in a tree or with tokens that are read apart, until there is no room or no slot."""
    monkeypatch.setattr(decoding, "MOST_ROOM", most)
    chunks, slots = chunks_of(Case("", [(1, 90), (3, 40), (6, 2), (12, 25), (24, 3)], 24))
    for chunk in chunks:
        request = chunk.request
        request.slots = np.concatenate([request.slots[: chunk.end], np.arange(50, dtype=np.int32) + slots])
    config, cuts = TileConfig(2, 5, 6, 5, costs), 0
    plan = DecodePlan(chunks, Decodes.of(chunks), config, fork=True, rows=32, scratch=SCRATCH)
    check(plan, chunks, 32, config, fork=True)
    for _ in range(steps):
        chunks = [Chunk(request, start + 1, 1) for request, start, _ in chunks]
        assert plan.precedes(Decodes.of(chunks), 32)
        cuts += plan.advance(Decodes.of(chunks))
        check(plan, chunks, 32, config, fork=True)
    assert 0 < cuts < steps
    assert not plan.precedes(Decodes.of([Chunk(request, start + 1, 1) for request, start, _ in chunks]), 32)


def test_what_does_not_follow() -> None:
    chunks, _ = chunks_of(Case("", [(1, 40), (4, 6)], 4))
    chunks = [Chunk(request, start - 2, 1) for request, start, _ in chunks]
    after = [Chunk(request, start + 1, 1) for request, start, _ in chunks]
    config = TileConfig(2, 5, 6, 5, CHEAP)
    plan = DecodePlan(chunks, Decodes.of(chunks), config, fork=True, rows=4, scratch=-1)
    assert plan.precedes(Decodes.of(after), 4)
    assert not plan.precedes(Decodes.of(after), 8)
    assert not plan.precedes(Decodes.of(after[::-1]), 4) and not plan.precedes(Decodes.of(after[:3]), 4)
    assert not plan.precedes(Decodes.of([*after[:3], chunks[3]]), 4)
    node, after[0].request.node = after[0].request.node, None
    assert not plan.precedes(Decodes.of(after), 4)
    after[0].request.node = node
    twin = copy.copy(after[3].request)
    assert plan.precedes(Decodes.of([*after[:3], Chunk(twin, *after[3][1:])]), 4)
    twin.id = 99
    assert not plan.precedes(Decodes.of([*after[:3], Chunk(twin, *after[3][1:])]), 4)
    after[1].request.slots[41] = 7  # a token of its own, as when another request had computed the same
    plan.advance(Decodes.of(after))
    check(plan, after, 4, config, fork=True)
    for _ in range(2):
        after = [Chunk(request, start + 1, 1) for request, start, _ in after]
        assert plan.precedes(Decodes.of(after), 4)
        plan.advance(Decodes.of(after))
    assert not plan.precedes(Decodes.of([Chunk(request, start + 1, 1) for request, start, _ in after]), 4)  # no slots


def test_a_plan_keeps_no_request() -> None:
    """It stays until the next step, which may be long in coming."""
    chunks, _ = chunks_of(Case("", [(1, 40), (4, 6)], 4))
    chunks = [Chunk(request, start, 1) for request, start, _ in chunks]
    plan = DecodePlan(chunks, Decodes.of(chunks), TileConfig(2, 5, 6, 5, CHEAP), fork=True, rows=4, scratch=-1)
    requests = [weakref.ref(chunk.request) for chunk in chunks]
    chunks.clear()
    gc.collect()
    assert [ref() for ref in requests] == [None] * 4 and len(plan.slots)


@needs_triton
@pytest.mark.parametrize("padded", [None, 24])
def test_tables_on_the_device(padded: int | None) -> None:
    """After each step they hold the whole plan, though most of it was copied before."""
    from sgnb.engine.attention.device_plan import _tables
    from sgnb.engine.attention.triton_backend import TritonAttention

    chunks, slots = chunks_of(Case("", [(1, 300), (2, 40), (20, 30)], 20))
    for chunk in chunks:
        request = chunk.request
        request.slots = np.concatenate([request.slots[: chunk.end], np.arange(80, dtype=np.int32) + slots])
    kv = KVCache({0: LayerShape(2, 8, 8)}, 10_000, torch.float32, torch.device("cpu"))
    attention = TritonAttention(kv, {0: 8})
    for number in range(70):
        now = [Chunk(request, start + number, 1) for request, start, _ in chunks]
        if number % 30 == 20:
            now = now[:5]  # others, which end what was there
        attention.plan(now, padded)
        (step,) = attention._active[attention._geometries[0]]
        plan = step._decodes
        assert plan is not None
        for name, arrays in _tables(plan.work, [plan.slots]).items():
            wanted = np.concatenate([array.ravel() for array in arrays])
            assert step._tables[name][: len(wanted)].tolist() == wanted.tolist(), (number, name)
        assert attention.new_slots[: len(now)].tolist() == [int(c.request.slots[c.start]) for c in now]
        assert attention.new_slots[len(now) :].tolist() == [kv.slots] * ((padded or len(now)) - len(now))


def test_tables_that_are_not_filled_stay() -> None:
    """Also between two that are; until one grows."""
    tables = StagingBuffers(torch.device("cpu"), {"a": 100, "b": 100, "c": 100})
    data = {name: np.full(90, i, np.int32) for i, name in enumerate("abc")}
    tables.fill({name: [array] for name, array in data.items()})
    for turn in range(5):
        tables.fill({"a": [data["a"][:50] + turn, data["a"][50:]], "c": [data["c"] + turn]})
        assert tables["a"].tolist() == [turn] * 50 + [0] * 40 + [0] * 10
        assert tables["b"][:90].tolist() == [1] * 90 and tables["c"][:90].tolist() == [2 + turn] * 90
    assert tables.generation == 0
    tables.fill({"a": [np.zeros(101, np.int32)]})
    assert tables.generation == 1 and len(tables["a"]) == 128
