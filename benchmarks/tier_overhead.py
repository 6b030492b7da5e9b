"""Cost of `host_cache` and `disk_cache` for work that reuses nothing and fits into the pool:
processor time per turn, and of the longest steps.

The engines take turns. Only processor time of the engine's thread counts: no other programs, and
no copies of the other engines in their idle time. The latency of a token is the time of its step;
the table compares the 99th percentile.
"""

from __future__ import annotations

import random
import tempfile
import time
from contextlib import ExitStack
from typing import Any

import numpy as np

from sgnb.engine import Engine
from sgnb.sampling import SamplingParams

from .common import Report, median_ratio, tokens

TURNS = 12
REQUESTS, PROMPT, OUTPUT = 4, 300, 48
MOST_TOTAL, MOST_STEP = 1.005, 1.01


def run() -> Report:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # waiting threads would count
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
            options: dict[str, dict[str, Any]] = {
                "neither": {"disk_cache": False},
                "host_cache": {"disk_cache": False, "host_cache": 1},
                "disk_cache": {"disk_cache": f"{folder}/kv"},
            }
            engines = {
                name: opened.enter_context(Engine("tiny", max_total_tokens=8192, **each))
                for name, each in options.items()
            }
            return table(*measure(engines))
    finally:
        torch.set_num_threads(before)


def measure(engines: dict[str, Engine]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the processor seconds of each turn and of each step."""
    rng = random.Random(0)
    totals: dict[str, list[float]] = {name: [] for name in engines}
    steps: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(TURNS + 2):
        prompts = [tokens(rng, PROMPT, 1000) for _ in range(REQUESTS)]
        names = list(engines) if turn % 2 else list(engines)[::-1]
        for name in names:
            total, times = one_turn(engines[name], prompts)
            if turn >= 2:  # after the warm-up
                totals[name].append(total)
                steps[name] += times
    return totals, steps


def one_turn(engine: Engine, prompts: list[list[int]]) -> tuple[float, list[float]]:
    """Answer the prompts on an idle engine with an empty cache."""
    engine.flush_cache()
    marks: list[float] = []
    loop: Any = engine._loop
    step = loop._step

    def timed() -> None:
        step()
        marks.append(time.thread_time())

    loop._step = timed
    try:
        params = SamplingParams(temperature=0, max_new_tokens=OUTPUT, ignore_eos=True)
        engine.generate(prompts, params)
    finally:
        del loop._step
    return marks[-1] - marks[0], np.diff(marks).tolist()


def table(totals: dict[str, list[float]], steps: dict[str, list[float]]) -> Report:
    report = Report(
        f"{REQUESTS} requests of {PROMPT} new tokens and {OUTPUT} answered tokens, bundled model",
        ("", "processor ms per turn", "over neither", "p99 step, ms", "over neither"),
        bar=f"at most {MOST_TOTAL} and {MOST_STEP}",
        note=f"Median of {TURNS} turns, and of the ratios of pairs; percentile of all steps.",
    )
    met, base = True, float(np.percentile(steps["neither"], 99))
    for name in totals:
        ratio = median_ratio(totals[name], totals["neither"])
        longest = float(np.percentile(steps[name], 99))
        met = met and ratio <= MOST_TOTAL and longest <= MOST_STEP * base
        milliseconds = 1000 * float(np.median(totals[name]))
        report.rows.append(
            (
                name,
                f"{milliseconds:.1f}",
                f"{ratio:.3f}",
                f"{1000 * longest:.2f}",
                f"{longest / base:.3f}",
            )
        )
    report.met = met
    return report
