"""The Triton attention agrees with the reference in triton's interpreter; its planner, in plain numpy, on its own."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attention_gpu import Case, chunks_of
from sgnb.engine.attention.cascade import find_cascade
from sgnb.engine.attention.planning import plan_extend, plan_invariant, plan_rows, worth_sharing
from sgnb.engine.attention.query_tiles import MASK_BASE, CostModel, KVIndices, TileConfig
from sgnb.engine.attention.schedule import Schedule, make_scatter_map, split_kv
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.request.request import Chunk, Request
from sgnb.sampling import SamplingParams

from .interpreter import interpreted, needs_triton
from .test_attention import random_batch

SCRATCH = 10_000
CHEAP = CostModel(row=0, kernel=0, piece=3, least=5, align=4, detach=6)


@needs_triton
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("triton_attention_check") == ["all", "agree"]


def seen(work: Schedule, lists: KVIndices, causal: bool = False) -> dict[int, list[tuple[int, int]]]:
    """What the tables say each row sees: (position, slot), every one as often as it is read for the row."""
    slots = np.concatenate(lists.arrays)
    result: dict[int, list[tuple[int, int]]] = {}
    parts: dict[int, list[int]] = {}
    for starts, pieces in (work.small, work.large):
        assert starts[0] == 0 and starts[-1] == len(pieces) and (np.diff(starts) >= 0).all()
        for first_slot, length, first_mark, position, first_pair, members, lowest, common in pieces.tolist():
            pairs = work.pairs[first_pair : first_pair + members]
            assert length > 0 and lowest == work.row_positions[pairs[:, 0]].min()
            for n in range(length):
                where, low, high = position + n, 0, members
                if first_mark >= 0:
                    mark, where = (int(of[first_mark + n]) for of in work.marks)
                    low, high = mark % MASK_BASE, mark % MASK_BASE + mark // MASK_BASE
                    assert high <= members and ((low, high) == (0, members) or n >= common)
                for row in pairs[low:high, 0].tolist():
                    if not causal or where <= work.row_positions[row]:
                        result.setdefault(row, []).append((where, int(slots[first_slot + n])))
            for row, part in pairs.tolist():
                parts.setdefault(row, []).append(part)
    for row, numbers in parts.items():
        first, last = work.partials_indptr[row : row + 2].tolist()
        assert sorted(numbers) == (list(range(first, last)) if len(numbers) > 1 else [-1 - row])
    return result


def expected(chunks: list[Chunk], first_rows: list[int]) -> dict[int, list[tuple[int, int]]]:
    return {
        row + i: [(p, int(chunk.request.slots[p])) for p in range(chunk.start + i + 1)]
        for chunk, row in zip(chunks, first_rows, strict=True)
        for i in range(chunk.length)
    }


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    small=st.sampled_from([1, 2, 4]),
    large=st.sampled_from([4, 7]),
    bins=st.integers(1, 7),
    fork=st.booleans(),
)
def test_every_row_sees_each_of_its_positions_once(seed: int, small: int, large: int, bins: int, fork: bool) -> None:
    chunks = random_batch(random.Random(seed))
    first_rows = [0, *np.cumsum([chunk.length for chunk in chunks]).tolist()]
    rows, wanted = first_rows.pop(), expected(chunks, first_rows)
    config = TileConfig(small, large, bins, bins + 1, CHEAP)
    lists = KVIndices()
    work = plan_rows(chunks, first_rows, config, lists, fork=fork, rows=rows, scratch=-1)
    assert {row: sorted(places) for row, places in seen(work, lists).items()} == wanted
    assert lists.count == sum(map(len, lists.arrays))
    lists = KVIndices()
    work = plan_invariant(chunks, first_rows, config, lists, rows=rows, scratch=-1)
    assert seen(work, lists, causal=True) == wanted  # and in order


@pytest.mark.parametrize("small", [1, 2, 5])
@pytest.mark.parametrize("large", [5, 16])
@pytest.mark.parametrize("costs", [CHEAP, CostModel(row=2, kernel=0, piece=9, least=40, align=8, detach=30), CostModel()])
def test_a_deep_tree(small: int, large: int, costs: CostModel) -> None:
    """Trees that are cut into several tiles at every level, with long and short tails and short nodes."""
    tree = Case("", [(1, 90), (3, 40), (6, 2), (12, 25), (48, 3)], 48)
    flat = Case("", [(5, 60), (30, 37)], 30)
    for case in (tree, flat):
        chunks, _ = chunks_of(case)
        chunks = [chunks[i] for i in np.random.default_rng(0).permutation(len(chunks))]
        first_rows, lists = list(range(len(chunks))), KVIndices()
        config = TileConfig(small, large, 6, 5, costs)
        work = plan_rows(chunks, first_rows, config, lists, fork=True, rows=len(chunks), scratch=-1)
        found = {row: sorted(places) for row, places in seen(work, lists).items()}
        assert found == expected(chunks, first_rows)
        assert lists.count <= sum(chunk.end for chunk in chunks) + costs.align * len(chunks)


def test_rows_of_padding_see_the_scratch_slot() -> None:
    request = Request(0, [1] * 9, SamplingParams(), 1)
    request.slots[:9] = range(9)
    config = TileConfig(4, 16, 3, 3)
    for plan in (
        lambda lists: plan_rows([Chunk(request, 8, 1)], [0], config, lists, fork=True, rows=4, scratch=SCRATCH),
        lambda lists: plan_invariant([Chunk(request, 8, 1)], [0], config, lists, rows=4, scratch=SCRATCH),
    ):
        lists = KVIndices()
        found = seen(plan(lists), lists)
        assert found == {0: [(i, i) for i in range(9)], **{row: [(0, SCRATCH)] for row in (1, 2, 3)}}


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 3000), max_size=40),
    bins=st.integers(1, 60),
    every=st.sampled_from([0, 0, 512]),
)
def test_bins_hold_equal_work(lengths: list[int], bins: int, every: int) -> None:
    costs = CostModel()
    index, begin, end, starts = split_kv(np.array(lengths, np.int64), bins, costs, every)
    pieces = list(zip(index.tolist(), begin.tolist(), end.tolist(), strict=True))
    covered = [(i, position) for i, first, last in pieces for position in range(first, last)]
    assert covered == [(i, position) for i, length in enumerate(lengths) for position in range(length)]
    assert len(starts) == bins + 1 and starts[0] == 0 and starts[-1] == len(pieces) and (np.diff(starts) >= 0).all()
    work = [sum(e - b + costs.piece for _, b, e in pieces[i:j]) for i, j in itertools.pairwise(starts)]
    fair = sum(work) / bins
    largest = (512 + costs.piece) if every else 2 * (costs.align + costs.piece)
    assert max(work) <= max(fair, 2 * costs.least) + largest
    if every:
        assert all(b % every == 0 and (e % every == 0 or e == lengths[i]) for i, b, e in pieces)
    else:
        assert len(pieces) <= len(lengths) + bins - 1
        assert len(lengths) > bins or work or len(pieces) <= bins


def test_parts_of_a_row_lie_together_in_order() -> None:
    pairs, partials_indptr = make_scatter_map(np.array([2, 0, 2, 3, 0, 2]), 5)
    assert partials_indptr.tolist() == [0, 2, 2, 5, 5, 5]
    assert pairs.tolist() == [[2, 2], [0, 0], [2, 3], [3, -4], [0, 1], [2, 4]]


def forks(trunk: int, tails: list[int]) -> list[Chunk]:
    """Requests that decode their last token: a common trunk in the tree, and `tails` tokens of their own."""
    tree, chunks, used = RadixTree(), [], trunk
    tree.insert(np.ones(trunk, np.int32), np.arange(trunk, dtype=np.int32))
    for i, tail in enumerate(tails):
        request = Request(i, [1] * trunk + [2 + i] * tail, SamplingParams(), 1)
        request.slots[: trunk + tail] = [*range(trunk), *range(used, used + tail)]
        request.node = tree.match(request.tokens[:trunk])
        used += tail
        chunks.append(Chunk(request, trunk + tail - 1, 1))
    return chunks


def slots_read(chunks: list[Chunk], **costs: int) -> int:
    lists = KVIndices()
    config = TileConfig(4, 16, 6, 6, CostModel(align=1, **costs))
    plan_rows(chunks, list(range(len(chunks))), config, lists, fork=True, rows=len(chunks), scratch=-1)
    return lists.count


def test_the_cost_rule() -> None:
    assert not worth_sharing(1, 100_000, CostModel())
    assert worth_sharing(2, 97, CostModel(row=48)) and not worth_sharing(2, 96, CostModel(row=48))
    assert worth_sharing(100, 50, CostModel(row=48)) and not worth_sharing(100, 48, CostModel(row=48))


def test_what_sharing_saves_in_reads() -> None:
    chunks = forks(1000, [20] * 32)
    assert slots_read(chunks) == 2 * 1000 + 32 * 20  # two tiles of 16 rows
    assert slots_read(chunks, kernel=100_000) == 32 * 1020  # too little in the whole step
    assert slots_read(chunks, row=1000) == 32 * 1020
    assert slots_read(forks(1000, [20] * 4), kernel=100_000) == 1000 + 4 * 20  # a small tile costs no kernel
    long = forks(1000, [20] * 15 + [5000])
    assert slots_read(long) == slots_read(long, detach=9000) == 1000 + 15 * 20 + 5000


def test_long_tails_have_tiles_of_their_own() -> None:
    chunks = forks(1000, [20] * 15 + [5000])
    lists = KVIndices()
    config = TileConfig(4, 16, 6, 6, CostModel(align=1))
    work = plan_rows(chunks, list(range(16)), config, lists, fork=True, rows=16, scratch=-1)
    assert work.small[1][:, 1].sum() == 5000 and work.large[1][:, 1].sum() == 1300
    assert set(work.small[1][:, 2].tolist()) == {-1}


def test_short_nodes_join_those_below() -> None:
    """Two tokens are not worth a segment, but with the 100 below them they are."""
    tree, chunks = RadixTree(), []
    for i, prompt in enumerate(([1, 1] + [2] * 100 + [5], [1, 1] + [2] * 100 + [6], [1, 1, 3, 7])):
        request = Request(i, prompt, SamplingParams(), 1)
        tree.insert(request.tokens[:-1], np.arange(len(prompt) - 1, dtype=np.int32))
        chunks.append(Chunk(request, len(prompt) - 1, 1))
    for chunk in chunks:
        chunk.request.node = tree.match(chunk.request.tokens[:-1])
    starts, begins, segments = find_cascade(chunks, [1, 1, 1], lambda rows, tokens: (rows - 1) * tokens >= 50)
    assert segments == [(0, 102, starts[0], starts[0] + 2, 0)]
    assert begins == [102, 102, 0] and sorted(starts) == [0, 1, 2]
    assert starts[1] == starts[0] + 1


def test_extend_tiles_begin_with_those_that_see_most() -> None:
    chunks = forks(10, [30, 5])
    lists = KVIndices()
    table = plan_extend(
        [chunk._replace(start=10, length=n) for chunk, n in zip(chunks, (30, 5), strict=True)], [0, 30], 8, lists
    )
    assert table.tolist() == [[24, 6, 34, 0], [16, 8, 26, 0], [8, 8, 18, 0], [0, 8, 10, 0], [30, 5, 10, 40]]
