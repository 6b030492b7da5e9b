"""The limits of the GPU benchmarks: counted by hand, against brute force, and near those of the table."""

from __future__ import annotations

import random

import pytest

from benchmarks.gpu.limits import (
    H200_BYTES,
    H200_OPERATIONS,
    LLAMA_8B,
    TOY,
    _common,
    _tree,
    limit_seconds,
)
from benchmarks.gpu.more_workloads import WORKLOADS
from benchmarks.gpu.table import limit_figure
from benchmarks.gpu.workloads import Call, Workload


def test_the_shape_is_that_of_llama_8b() -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig

    model = AutoModelForCausalLM.from_config(LlamaConfig(**TOY.config()))
    count = sum(p.numel() for name, p in model.named_parameters() if "norm" not in name and "embed" not in name)
    assert TOY.step_bytes == 2 * count
    assert LLAMA_8B.step_bytes == pytest.approx(15.03e9, rel=1e-3)
    assert LLAMA_8B.token_bytes == 131072


@pytest.mark.parametrize(
    ("name", "figure", "within"),
    [
        ("decode 1", 286, 0.01), ("batch 256", 14500, 0.01), ("prefill", 49000, 0.01), ("few-shot", 403, 0.03),
        ("tree of thought", 39000, 0.04),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_table(name: str, figure: float, within: float) -> None:
    assert limit_figure(name) == pytest.approx(figure, rel=within)


def test_one_decode_by_hand() -> None:
    """A prompt of 3 and 4 tokens out: one pass and three steps, all bound by the weights they read."""
    workload = Workload([Call([20, 21, 22], 4)], "tok/s")
    reads = [LLAMA_8B.step_bytes] + [LLAMA_8B.step_bytes + seen * LLAMA_8B.token_bytes for seen in (4, 5, 6)]
    assert limit_seconds(workload) == pytest.approx(sum(reads) / H200_BYTES)


def test_shared_prefixes_count_once() -> None:
    shared = list(range(100, 3100))
    apart = Workload([Call([i, *shared], 1) for i in range(8)], "req/s")
    same = Workload([Call([*shared, i], 1) for i in range(8)], "req/s")
    assert limit_seconds(apart) == pytest.approx(8 * limit_seconds(Workload(apart.calls[:1], "req/s")), rel=0.01)
    work = LLAMA_8B.operations(3008, 3000 * 3001 / 2 + 8 * 3001, 8)
    assert limit_seconds(same) == pytest.approx(work / H200_OPERATIONS)


def test_a_continuation_computes_only_what_is_new() -> None:
    """The last output token of the first call has not been through the model."""
    first, second = Call(list(range(20, 4020)), 2), Call(list(range(30, 1030)), 1, context=0)
    both = limit_seconds(Workload([first, second], "req/s"))
    alone = limit_seconds(Workload([first], "req/s"))
    new = 1 + 1000
    work = LLAMA_8B.operations(new, sum(range(4002, 4002 + new)), 1)
    assert both - alone == pytest.approx(max(work / H200_OPERATIONS, LLAMA_8B.step_bytes / H200_BYTES))


def test_the_tree_against_brute_force() -> None:
    rng = random.Random(0)
    for _ in range(50):
        sequences = [[rng.randrange(2) for _ in range(rng.randint(1, 7))] for _ in range(rng.randint(1, 9))]
        prefixes = {tuple(sequence[: i + 1]) for sequence in sequences for i in range(len(sequence))}
        assert _tree(sequences) == (len(prefixes), sum(map(len, prefixes)))


def test_common_prefixes() -> None:
    assert _common([1, 2, 3], [1, 2, 4]) == 2
    assert _common([1], [2]) == 0
    assert _common([], [2]) == 0
    assert _common([1, 2], [1, 2, 3]) == 2


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_has_a_limit_unless_a_schema_decides(name: str) -> None:
    workload = WORKLOADS[name].make(0, 500, True)
    seconds = limit_seconds(workload, TOY)
    assert (seconds is None) == workload.constrained
    assert seconds is None or seconds > 0
