"""The simulated GPU does one step after the other, and tells apart when it had none."""

from __future__ import annotations

import time

import pytest

from benchmarks.loop import Bench, Player
from benchmarks.simulated_gpu import STEP_MS, SimulatedGpu
from sgnb.sampling import SamplingParams


def test_steps_wait_for_each_other() -> None:
    gpu = SimulatedGpu()
    began = time.perf_counter()
    waits = [gpu.launch(1, graph=True) for _ in range(3)]
    waits[-1]()
    assert time.perf_counter() - began >= 3 * STEP_MS[0] / 1000
    assert gpu.times.busy == pytest.approx(3 * STEP_MS[0] / 1000)


def test_gaps_and_work_are_the_whole_time() -> None:
    gpu = SimulatedGpu()
    for tokens in (1, 64, 1):
        gpu.launch(tokens, graph=True)()
    total, busy, gaps = gpu.times
    assert len(gaps) == 3 and min(gaps) > 0
    assert sum(gaps) + busy == pytest.approx(total)


def test_an_engine_runs_on_it() -> None:
    gpu = SimulatedGpu()
    bench = Bench(player=Player(None, gpu))
    try:
        bench.play([[5] * 20, [6] * 30], SamplingParams(max_new_tokens=3, ignore_eos=True))
    finally:
        bench.close()
    assert len(gpu.times.gaps) == 3
