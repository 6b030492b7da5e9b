"""The limits of the GPU benchmarks: counted by hand, against brute force, and near those of the
table."""

from __future__ import annotations

import random

import pytest

from benchmarks.gpu.limits import (
    H200_BYTES,
    H200_OPERATIONS,
    Edge,
    _count,
    _edges,
    _tokens_read,
    limit_seconds,
)
from benchmarks.gpu.model import random_model
from benchmarks.gpu.more_workloads import WORKLOADS
from benchmarks.gpu.shapes import (
    GEMMA_3_4B,
    LLAMA_8B,
    QWEN3_06B,
    QWEN3_30B_A3B,
    SHAPES,
    TOYS,
    Shape,
)
from benchmarks.gpu.table import limit_figure
from benchmarks.gpu.workloads import Call, Workload
from sgnb.sequences import common_length


@pytest.mark.parametrize("toy", TOYS.values(), ids=list(TOYS))
def test_a_step_reads_the_matrices_that_transformers_makes(toy: Shape) -> None:
    """All of them where every expert is met; a tied embedding is the last product's weight."""
    matrices = dict(random_model(toy, "cpu", "float32").named_parameters())
    read = sum(
        matrix.numel()
        for name, matrix in matrices.items()
        if matrix.dim() > 1 and (toy.tied or "embed" not in name)
    )
    assert toy.tied == ("lm_head.weight" not in matrices)
    assert toy.step_bytes(10_000) == pytest.approx(2 * read, abs=1e-3)


@pytest.mark.parametrize(
    ("shape", "one_token", "all_experts", "layer_kv"),
    [
        # 32 x (q, o: 2 x 4096 x 4096; k, v: 2 x 4096 x 1024; gate, up, down: 3 x 4096 x 14,336)
        # + head: 4096 x 131,072 = 7,516,192,768
        (LLAMA_8B, 15_032_385_536, 15_032_385_536, 4096),
        # 28 x (2 x 1024 x 2048 + 2 x 1024 x 1024 + 3 x 1024 x 3072) + 1024 x 151,936 = 595,984,384
        (QWEN3_06B, 1_191_968_768, 1_191_968_768, 4096),
        # 34 x (2 x 2560 x 2048 + 2 x 2560 x 1024 + 3 x 2560 x 10,240) + 2560 x 262,144
        # = 3,879,731,200
        (GEMMA_3_4B, 7_759_462_400, 7_759_462_400, 4096),
        # 48 x (2 x 2048 x 4096 + 2 x 2048 x 512 + 2048 x 128 + 8 x 3 x 2048 x 768) + 2048 x 151,936
        # = 3,041,656,832; with 128 for 8: 30,220,746,752
        (QWEN3_30B_A3B, 6_083_313_664, 60_441_493_504, 2048),
    ],
    ids=list(SHAPES),
)
def test_bytes_counted_by_hand(
    shape: Shape, one_token: int, all_experts: int, layer_kv: int
) -> None:
    assert shape.step_bytes(1) == pytest.approx(one_token, rel=1e-12)
    assert shape.step_bytes(10_000) == pytest.approx(all_experts, rel=1e-12)
    assert shape.kv_bytes == layer_kv


def test_two_tokens_share_some_experts() -> None:
    """8 + 8 of 128, of which 8 x 8 / 128 are met twice: 15.5."""
    more = QWEN3_30B_A3B.step_bytes(2) - QWEN3_30B_A3B.step_bytes(1)
    assert more == pytest.approx(2 * 48 * 7.5 * 3 * 2048 * 768)


def test_a_token_works_with_its_own_experts() -> None:
    """One token at position 99, whose 100 keys are seen by 32 heads of 128 in 48 layers."""
    pairs = QWEN3_30B_A3B.pairs(99, 100)
    assert pairs == 48 * 100
    assert QWEN3_30B_A3B.operations(1, pairs, 1) == 2 * 3_041_656_832 + 4 * 32 * 128 * 48 * 100


def test_gemma_has_a_layer_without_a_window_after_five_with_one() -> None:
    from transformers import Gemma3TextConfig

    kinds = Gemma3TextConfig(**GEMMA_3_4B.config()).layer_types or []
    assert [kinds.count(kind) for kind in ("full_attention", "sliding_attention")] == [5, 29]
    assert kinds[:6] == ["sliding_attention"] * 5 + ["full_attention"]
    assert GEMMA_3_4B.windows == ((5, float("inf")), (29, 1024))
    assert GEMMA_3_4B.pairs(1999, 2000) == 5 * 2000 + 29 * 1024
    assert GEMMA_3_4B.pairs(0, 3) == 34 * 6


def test_a_decode_behind_a_window_by_hand() -> None:
    """The step after a prompt of 3,000 reads 3,001 tokens in 5 layers and 1,024 in 29."""
    prompt = list(range(100, 3100))
    longer, shorter = (
        limit_seconds(Workload([Call(prompt, new)], "tok/s"), GEMMA_3_4B) for new in (2, 1)
    )
    read = 7_759_462_400 + 4096 * (5 * 3001 + 29 * 1024)
    assert longer - shorter == pytest.approx(read / H200_BYTES)


@pytest.mark.parametrize(
    ("name", "figure", "within"),
    [
        ("decode 1", 286, 0.01), ("batch 256", 13300, 0.01), ("prefill", 41600, 0.01),
        ("few-shot", 333, 0.01), ("tree of thought", 32000, 0.02),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_table(name: str, figure: float, within: float) -> None:
    assert limit_figure(name) == pytest.approx(figure, rel=within)


def test_one_decode_by_hand() -> None:
    """A prompt of 3 and 4 tokens out: one pass and three steps, all bound by the weights they
    read."""
    workload = Workload([Call([20, 21, 22], 4)], "tok/s")
    weights, token = LLAMA_8B.step_bytes(1), 131_072
    reads = [weights] + [weights + seen * token for seen in (4, 5, 6)]
    assert limit_seconds(workload) == pytest.approx(sum(reads) / H200_BYTES)


def test_shared_prefixes_count_once() -> None:
    shared = list(range(100, 3100))
    apart = Workload([Call([i, *shared], 1) for i in range(8)], "req/s")
    same = Workload([Call([*shared, i], 1) for i in range(8)], "req/s")
    assert limit_seconds(apart) == pytest.approx(
        8 * limit_seconds(Workload(apart.calls[:1], "req/s")), rel=0.01
    )
    work = LLAMA_8B.operations(3008, 32 * (3000 * 3001 / 2 + 8 * 3001), 8)
    assert limit_seconds(same) == pytest.approx(work / H200_OPERATIONS)


def test_a_continuation_computes_only_what_is_new() -> None:
    """The last output token of the first call has not been through the model."""
    first, second = Call(list(range(20, 4020)), 2), Call(list(range(30, 1030)), 1, context=0)
    both = limit_seconds(Workload([first, second], "req/s"))
    alone = limit_seconds(Workload([first], "req/s"))
    new = 1 + 1000
    work = LLAMA_8B.operations(new, 32 * sum(range(4002, 4002 + new)), 1)
    seconds = max(work / H200_OPERATIONS, LLAMA_8B.step_bytes(new) / H200_BYTES)
    assert both - alone == pytest.approx(seconds)


@pytest.mark.parametrize("toy", [TOYS["llama-8b"], TOYS["gemma-3-4b"]], ids=["full", "windows"])
def test_the_tree_against_brute_force(toy: Shape) -> None:
    rng = random.Random(0)
    for _ in range(50):
        sequences = [
            [rng.randrange(2) for _ in range(rng.randint(1, 14))] for _ in range(rng.randint(1, 9))
        ]
        prefixes = {
            tuple(sequence[: i + 1]) for sequence in sequences for i in range(len(sequence))
        }
        seen = sum(
            layers * min(len(prefix), window)
            for layers, window in toy.windows
            for prefix in prefixes
        )
        edges = _edges(sequences)
        assert _count(edges, toy) == (len(prefixes), seen)
        for step in (1, 5, 12):
            assert _tokens_read(edges, len(sequences), step, toy) == _read(sequences, step, toy)


def _read(sequences: list[list[int]], step: int, shape: Shape) -> float:
    """Tokens in the rows' windows, each once a layer: those of prompts known by their prefixes, own
    ones by their rows."""
    total = 0.0
    for layers, window in shape.windows:
        seen = set()
        for row, sequence in enumerate(sequences):
            end = len(sequence) + step
            for place in range(int(max(0, end - window)), end):
                shared = tuple(sequence[: place + 1])
                seen.add((shared, -1) if place < len(sequence) else ((place,), row))
        total += layers * len(seen)
    return total


def test_edges_know_the_shortest_sequence_behind_them() -> None:
    edges = _edges([[1, 2, 3, 4, 5], [1, 2, 3], [1, 2, 6, 7], [8]])
    leaves = [Edge(2, 4, 4), Edge(3, 5, 5)]
    assert sorted(edges) == [Edge(0, 1, 1), Edge(0, 2, 3), Edge(2, 3, 3), *leaves]


def test_common_prefixes() -> None:
    assert common_length([1, 2, 3], [1, 2, 4]) == 2
    assert common_length([1], [2]) == 0
    assert common_length([], [2]) == 0
    assert common_length([1, 2], [1, 2, 3]) == 2


@pytest.mark.parametrize("toy", TOYS.values(), ids=list(TOYS))
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_has_a_limit_unless_a_schema_decides(name: str, toy: Shape) -> None:
    workload = WORKLOADS[name].make(0, 500, True)
    seconds = limit_seconds(workload, toy)
    assert (seconds is None) == workload.constrained
    assert seconds is None or seconds > 0
