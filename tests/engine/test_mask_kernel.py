"""The mask kernels agree with the masks and automata of the CPU: in triton's interpreter, and on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from ..large_vocabulary import pieces

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which there is for Linux only")
def test_the_kernels_in_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.mask_kernel_check"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["3", "rounds", "agree"]


@pytest.mark.gpu
def test_the_kernels_on_a_gpu() -> None:
    """With a vocabulary of 131,072 tokens; prints what one masking and one step of 64 rows take."""
    from sgnb.grammar.vocabulary import Vocabulary

    from . import mask_kernel_check as kernels

    vocabulary, compiled = Vocabulary(pieces()), kernels.compile_all()
    for seed, dtype in enumerate([torch.float32, torch.bfloat16]):
        grammars = kernels.check(vocabulary, compiled, rows=64, dtype=dtype, device="cuda", seed=seed)
    for seed in range(4):
        kernels.check(kernels.small_vocabulary(seed), compiled, rows=12, dtype=dtype, device="cuda", seed=seed)
    kernels.check_full("cuda")

    logits = torch.randn(64, vocabulary.size, device="cuda", dtype=torch.bfloat16)
    states = torch.randint(1, grammars.used, (64,), device="cuda", dtype=torch.int32)
    tokens = torch.randint(0, vocabulary.size, (64,), device="cuda")
    wide = torch.full_like(states, int(grammars.used - 1))
    for name, call in {
        "mask": lambda: grammars.mask_(logits, states),
        "mask, every row alike": lambda: grammars.mask_(logits, wide),
        "advance": lambda: grammars.advance_(states.clone(), tokens),
    }.items():
        print(f"{name}: {_microseconds(call):.1f} us for 64 rows")


def _microseconds(call: object) -> float:
    """The fastest of 20 runs inside a CUDA graph, which also shows that nothing in it waits for the host."""
    assert callable(call)
    graph = torch.cuda.CUDAGraph()
    call()
    with torch.cuda.graph(graph):
        call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(20):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return min(times)
