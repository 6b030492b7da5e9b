"""The GPU benchmark of quantized weights at toy sizes on a CPU: every line runs to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.gpu import quantized
from benchmarks.gpu.quantized import DENSE, LINES, LINES_70B, Line, served
from benchmarks.gpu.quantized_model import KINDS, random_packed
from benchmarks.gpu.results import Results
from benchmarks.gpu.shapes import TOY


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [16, 48, 128])
def test_random_weights_have_their_width(kind: str, columns: int) -> None:
    torch.manual_seed(0)
    matrix = random_packed(kind, 64, columns, "cpu", 0.02).reference(torch.float32)
    assert matrix.shape == (64, columns) and 0.01 < matrix.std() < 0.04


@pytest.mark.slow
def test_the_lines_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    lines = DENSE, Line("int4"), Line("fp8", "fp8")
    assert {*lines} < {*LINES} and {line.kind for line in LINES_70B} == {"int4", "fp8"}
    bars = {("int4", "batch 64"): 1.5}
    shape, names = replace(TOY, layers=1), ("decode 1", "batch 64")
    peers = Results(model=shape.name)
    peers.add("int4, vllm", "0.26", "decode 1", {"figure": 1e9})
    report = served(shape, lines, names, {}, bars, toy=True, repetitions=1, peers=peers)
    assert report.rows.pop() == ("int4, vllm 0.26", "1,000,000,000", "-", "-")
    assert "int4, decode 1: 1,200,000,000" in report.bar
    assert [row[0] for row in report.rows] == ["bfloat16", "int4", "fp8, KV fp8"]
    assert not any("-" in row for row in report.rows) and report.met is None
    assert report.bar.startswith("at least int4, batch 64: ")
    for (name, workload), _ in (quantized.BARS | quantized.RELATIVE_BARS).items():
        assert name in [line.name for line in LINES] and workload in quantized.WORKLOADS
