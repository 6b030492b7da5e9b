"""The Triton attention agrees with the reference in triton's interpreter; its planner, in plain
numpy, on its own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attention_gpu import Case, batch_of
from sgnb.engine.attention.cascade import find_cascade
from sgnb.engine.attention.planning import plan_extend, plan_invariant, plan_short, worth_sharing
from sgnb.engine.attention.query_tiles import MASK_BASE, CostModel, KVIndices, TileConfig
from sgnb.engine.attention.schedule import Schedule, make_scatter_map, split_kv
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.sampling import SamplingParams

from .interpreter import interpreted, needs_triton, quick_and_whole
from .test_attention import batch_of_spans, each, random_batch

SCRATCH = 10_000
CHEAP = CostModel(shared_row=0, launch=0, work_item=3, min_work=5, align=4, detach=6)


@needs_triton
@quick_and_whole
def test_the_kernels_in_the_interpreter(part: str) -> None:
    assert interpreted("triton_attention_check", part) == ["all", "agree"]


@pytest.mark.slow
@needs_triton
def test_bits_without_neighbours_in_the_interpreter() -> None:
    assert interpreted("triton_attention_check", "invariant") == ["all", "agree"]


@needs_triton
def test_a_graph_of_a_deterministic_step_has_its_passes_in_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two passes of two and two rows are launched otherwise than two of one and three."""
    from sgnb.engine.attention import triton_backend

    monkeypatch.setattr(triton_backend, "MAX_PARTIALS", 3)
    monkeypatch.setattr(triton_backend, "INVARIANT_SPLIT", 8)
    kv = KVCache({0: LayerShape(1, 16, 16)}, 64, torch.float32, torch.device("cpu"))
    attention = triton_backend.TritonAttention(kv, {0: 1}, batch_invariant=True)
    keys = []
    for lengths in ((9, 1, 1, 9), (17, 1, 1, 1), (9, 2, 2, 9)):
        requests = [Request(i, [1] * n, SamplingParams(), 1) for i, n in enumerate(lengths)]
        spans = [(request, n - 1, 1) for request, n in zip(requests, lengths, strict=True)]
        attention.plan(attention_input(batch_of_spans(spans)), 4)
        keys.append(attention.graph_key)
    assert keys[0] == keys[2] != keys[1]


def seen(
    schedule: Schedule, indices: Sequence[np.ndarray], causal: bool = False
) -> dict[int, list[tuple[int, int]]]:
    """What the tables say each row sees: (position, slot), every one as often as it is read for the
    row."""
    slots = np.concatenate(indices)
    result: dict[int, list[tuple[int, int]]] = {}
    partials: dict[int, list[int]] = {}
    for cta_indptr, items, _ in (schedule.small, schedule.large):
        assert (
            cta_indptr[0] == 0 and cta_indptr[-1] == len(items) and (np.diff(cta_indptr) >= 0).all()
        )
        for (
            first_index,
            length,
            first_mask,
            position,
            first_entry,
            count,
            lowest,
            common,
        ) in items.tolist():
            entries = schedule.scatter_map[first_entry : first_entry + count]
            assert length > 0 and lowest == schedule.row_positions[entries[:, 0]].min()
            for n in range(length):
                where, low, high = position + n, 0, count
                if first_mask >= 0:
                    mask, where = (int(of[first_mask + n]) for of in schedule.masks)
                    low, high = mask % MASK_BASE, mask % MASK_BASE + mask // MASK_BASE
                    assert high <= count and ((low, high) == (0, count) or n >= common)
                for row in entries[low:high, 0].tolist():
                    if not causal or where <= schedule.row_positions[row]:
                        result.setdefault(row, []).append((where, int(slots[first_index + n])))
            for row, partial in entries.tolist():
                partials.setdefault(row, []).append(partial)
    for row, numbers in partials.items():
        first, last = schedule.partials_indptr[row : row + 2].tolist()
        assert sorted(numbers) == (list(range(first, last)) if len(numbers) > 1 else [-1 - row])
    return result


def expected(batch: Batch) -> dict[int, list[tuple[int, int]]]:
    return {
        span.first + i: [(p, int(span.request.slots[p])) for p in range(span.start + i + 1)]
        for span in each(batch)
        for i in range(span.end - span.start)
    }


def planned(
    batch: Batch, config: TileConfig, fork: bool = True, rows: int | None = None
) -> tuple[Schedule, KVIndices, bool]:
    """The schedule of short chunks, and whether it shares a prefix."""
    indices = KVIndices()
    schedule, has_cascade = plan_short(
        attention_input(batch),
        config,
        indices,
        fork=fork,
        num_rows=rows or batch.num_tokens,
        scratch=SCRATCH,
    )
    return schedule, indices, has_cascade


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    small=st.sampled_from([1, 2, 4]),
    large=st.sampled_from([4, 7]),
    bins=st.integers(1, 7),
    fork=st.booleans(),
)
def test_every_row_sees_each_of_its_positions_once(
    seed: int, small: int, large: int, bins: int, fork: bool
) -> None:
    batch = random_batch(random.Random(seed))
    config, wanted = TileConfig(small, large, bins, bins + 1, CHEAP), expected(batch)
    schedule, indices, _ = planned(batch, config, fork)
    assert {row: sorted(places) for row, places in seen(schedule, indices.arrays).items()} == wanted
    assert indices.count == sum(map(len, indices.arrays))
    indices = KVIndices()
    schedule = plan_invariant(
        attention_input(batch), 0, config, indices, num_rows=batch.num_tokens, scratch=SCRATCH
    )
    assert seen(schedule, indices.arrays, causal=True) == wanted  # and in order


@pytest.mark.parametrize("small", [1, 2, 5])
@pytest.mark.parametrize("large", [5, 16])
@pytest.mark.parametrize("costs", [CHEAP, CostModel(2, 0, 9, 40, 8, 30), CostModel()])
def test_a_deep_tree(small: int, large: int, costs: CostModel) -> None:
    """Trees that are cut into several tiles at every level, with long and short tails and short
    nodes."""
    tree = Case("", [(1, 90), (3, 40), (6, 2), (12, 25), (48, 3)], 48)
    flat = Case("", [(5, 60), (30, 37)], 30)
    for case in (tree, flat):
        batch, _ = batch_of(case)
        order = np.random.default_rng(0).permutation(len(batch)).tolist()
        batch = Batch([batch.requests[i] for i in order], batch.starts[order], batch.lengths[order])
        schedule, indices, _ = planned(batch, TileConfig(small, large, 6, 5, costs))
        assert {
            row: sorted(places) for row, places in seen(schedule, indices.arrays).items()
        } == expected(batch)
        assert indices.count <= batch.ends.sum() + costs.align * len(batch)


def test_rows_of_padding_see_the_scratch_slot() -> None:
    request = Request(0, [1] * 9, SamplingParams(), 1)
    request.slots[:9] = range(9)
    config, batch = TileConfig(4, 16, 3, 3), Batch([request], [8], [1])
    wanted = {0: [(i, i) for i in range(9)], **{row: [(0, SCRATCH)] for row in (1, 2, 3)}}
    schedule, indices, _ = planned(batch, config, rows=4)
    assert seen(schedule, indices.arrays) == wanted
    indices = KVIndices()
    assert (
        seen(
            plan_invariant(attention_input(batch), 0, config, indices, num_rows=4, scratch=SCRATCH),
            indices.arrays,
        )
        == wanted
    )


def test_a_later_pass_has_rows_of_its_own() -> None:
    batch = forks(10, [30, 5])
    indices, config = KVIndices(), TileConfig(4, 16, 3, 3)
    schedule = plan_invariant(
        attention_input(batch), 7, config, indices, num_rows=12, scratch=SCRATCH
    )
    wanted = {7 + row: places for row, places in expected(batch).items()}
    assert seen(schedule, indices.arrays) == wanted | {row: [(0, SCRATCH)] for row in (9, 10, 11)}


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=40),
    bins=st.integers(1, 60),
    every=st.sampled_from([0, 0, 512]),
)
def test_ctas_have_equal_work(lengths: list[int], bins: int, every: int) -> None:
    costs = CostModel()
    index, begin, end, starts = split_kv(np.array(lengths, np.int64), bins, costs, every)
    pieces = list(zip(index.tolist(), begin.tolist(), end.tolist(), strict=True))
    covered = [(i, position) for i, first, last in pieces for position in range(first, last)]
    assert covered == [
        (i, position) for i, length in enumerate(lengths) for position in range(length)
    ]
    assert (
        len(starts) == bins + 1
        and starts[0] == 0
        and starts[-1] == len(pieces)
        and (np.diff(starts) >= 0).all()
    )
    work = [
        sum(e - b + costs.work_item for _, b, e in pieces[i:j])
        for i, j in itertools.pairwise(starts)
    ]
    fair = sum(work) / bins
    largest = (512 + costs.work_item) if every else 2 * (costs.align + costs.work_item)
    assert max(work) <= max(fair, 2 * costs.min_work) + largest
    if every:
        assert all(b % every == 0 and (e % every == 0 or e == lengths[i]) for i, b, e in pieces)
    else:
        assert len(pieces) <= len(lengths) + bins - 1
        assert len(lengths) > bins or work or len(pieces) <= bins


def test_partials_of_a_row_lie_together_in_order() -> None:
    scatter_map, partials_indptr = make_scatter_map(np.array([2, 0, 2, 3, 0, 2]), 5)
    assert partials_indptr.tolist() == [0, 2, 2, 5, 5, 5]
    assert scatter_map.tolist() == [[2, 2], [0, 0], [2, 3], [3, -4], [0, 1], [2, 4]]


def forks(trunk: int, tails: list[int]) -> Batch:
    """Requests that decode their last token: a common trunk in the tree, and `tails` tokens of
    their own."""
    tree, spans, used = RadixTree(), [], trunk
    tree.insert(np.ones(trunk, np.int32), np.arange(trunk, dtype=np.int32))
    for i, tail in enumerate(tails):
        request = Request(i, [1] * trunk + [2 + i] * tail, SamplingParams(), 1)
        request.slots[: trunk + tail] = [*range(trunk), *range(used, used + tail)]
        request.node = tree.match(request.tokens[:trunk])
        used += tail
        spans.append((request, trunk + tail - 1, 1))
    return batch_of_spans(spans)


def slots_read(batch: Batch, **costs: int) -> int:
    _, indices, _ = planned(batch, TileConfig(4, 16, 6, 6, CostModel(align=1, **costs)))
    return indices.count


def test_the_cost_rule() -> None:
    assert not worth_sharing(1, 100_000, CostModel())
    assert worth_sharing(2, 97, CostModel(48)) and not worth_sharing(2, 96, CostModel(48))
    assert worth_sharing(100, 50, CostModel(48)) and not worth_sharing(100, 48, CostModel(48))


def test_what_sharing_saves_in_reads() -> None:
    batch = forks(1000, [20] * 32)
    assert slots_read(batch) == 2 * 1000 + 32 * 20  # two tiles of 16 rows
    assert slots_read(batch, launch=100_000) == 32 * 1020  # too little in the whole step
    assert slots_read(batch, shared_row=1000) == 32 * 1020
    assert (
        slots_read(forks(1000, [20] * 4), launch=100_000) == 1000 + 4 * 20
    )  # a small tile costs no kernel
    long = forks(1000, [20] * 15 + [5000])
    assert slots_read(long) == slots_read(long, detach=9000) == 1000 + 15 * 20 + 5000


def test_long_tails_have_tiles_of_their_own() -> None:
    schedule, *_ = planned(
        forks(1000, [20] * 15 + [5000]), TileConfig(4, 16, 6, 6, CostModel(align=1))
    )
    assert schedule.small.items[:, 1].sum() == 5000 and schedule.large.items[:, 1].sum() == 1300
    assert set(schedule.small.items[:, 2].tolist()) == {-1}


def test_short_nodes_join_those_below() -> None:
    """Two tokens are not worth a group, but with the 100 below them they are."""
    tree, spans = RadixTree(), []
    for i, prompt in enumerate(([1, 1] + [2] * 100 + [5], [1, 1] + [2] * 100 + [6], [1, 1, 3, 7])):
        request = Request(i, prompt, SamplingParams(), 1)
        tree.insert(request.tokens[:-1], np.arange(len(prompt) - 1, dtype=np.int32))
        spans.append((request, len(prompt) - 1, 1))
    batch = batch_of_spans(spans)
    for request in batch.requests:
        request.node = tree.match(request.tokens[:-1])
    places, own_from, groups = find_cascade(
        attention_input(batch), [1, 1, 1], lambda rows, tokens: (rows - 1) * tokens >= 50
    )
    [(begin, end, low, high, holder)] = groups.tolist()
    assert (begin, end, low, high) == (0, 102, places[0], places[0] + 2) and holder in (0, 1)
    assert own_from.tolist() == [102, 102, 0] and sorted(places) == [0, 1, 2]
    assert places[1] == places[0] + 1


def test_what_is_computed_anew_is_not_read_from_the_tree() -> None:
    batch = forks(100, [20] * 4)
    again = Batch(batch.requests, [119, 119, 50, 119], [1, 1, 1, 1])
    _, own_from, groups = find_cascade(attention_input(again), [1] * 4, lambda rows, tokens: True)
    assert own_from.tolist() == [100, 100, 0, 100] and groups[:, :2].tolist() == [[0, 100]]


def test_extend_tiles_begin_with_those_that_see_most() -> None:
    requests = forks(10, [30, 5]).requests
    table = plan_extend(attention_input(Batch(requests, [10, 10], [30, 5])), 7, 8, KVIndices())
    assert table.tolist() == [
        [31, 6, 34, 0, -1],
        [23, 8, 26, 0, -1],
        [15, 8, 18, 0, -1],
        [7, 8, 10, 0, -1],
        [37, 5, 10, 40, -1],
    ]
