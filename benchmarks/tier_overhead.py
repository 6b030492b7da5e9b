"""Cost of `host_cache` and `disk_cache` for work that reuses nothing, in processor time of the
engine's thread, which does not count other programs.

The cost is the time inside the functions of the tiers, as a part of a turn and of the longest
steps, less the same part of an engine without tiers: a difference of the times of two engines is
less exact than the cost is small. The table shows the
difference, too: all engines answer the same prompts in turn, in one process, and each turn is
compared with the turn of an engine without tiers. A second engine without tiers shows the error of
this comparison. The latency of a token is the time of its step.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from sgnb.benchmark.stats import in_turn, median_interval, paired_ratios
from sgnb.engine import Engine
from sgnb.sampling import SamplingParams

from .common import Report, tokens

TURNS, WARM_UP = 16, 2
REQUESTS, PROMPT, OUTPUT = 4, 300, 48
MOST_TOTAL, MOST_STEP = 0.005, 0.01
POOLS = {"fits into the pool": 8192, "evicts earlier turns": 2048}
BASE = "neither"


class Turn(NamedTuple):
    """Processor seconds of a turn."""

    total: float
    tiers: float  # inside the functions of the tiers
    longest: float  # 99th percentile of the steps
    longest_without: float  # the same without the time inside the functions of the tiers


class Stopwatch:
    """Processor time inside some functions of a thread."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    def watch(self, owner: Any, name: str) -> None:
        """Measure a method of an object from now on."""
        function: Callable[..., Any] = getattr(owner, name)

        def measured(*args: Any, **kwargs: Any) -> Any:
            began, self._depth = time.thread_time(), self._depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.thread_time() - began

        setattr(owner, name, measured)


class Measured:
    """An engine with a stopwatch in each function that the engine's thread calls for tiers."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.watch = engine, Stopwatch()
        work: Any = engine._loop.tiers
        for name in ("stepped", "note_change", "_run"):
            self.watch.watch(work, name)
        if work.tiers is not None:
            for name in ("ready", "started", "meet", "forget", "cancel"):
                self.watch.watch(work.tiers, name)
            self.watch.watch(engine._cache, "on_eviction")

    def turn(self, prompts: list[list[int]]) -> Turn:
        marks: list[tuple[float, float]] = []
        loop: Any = self.engine._loop
        step = loop._step

        def timed() -> None:
            marks.append((time.thread_time(), self.watch.seconds))
            step()
            marks.append((time.thread_time(), self.watch.seconds))

        loop._step = timed
        try:
            params = SamplingParams(temperature=0, max_new_tokens=OUTPUT, ignore_eos=True)
            self.engine.generate(prompts, params)
            loop.call(lambda: None)  # the last step has ended
        finally:
            del loop._step
        total, tiers = np.array(marks[-1]) - marks[0]
        steps, inside = np.diff(marks, axis=0)[::2].T
        longest = (float(np.percentile(column, 99)) for column in (steps, steps - inside))
        return Turn(total, tiers, *longest)


def run() -> list[Report]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # waiting threads would count
    try:
        return [measure(workload) for workload in POOLS]
    finally:
        torch.set_num_threads(before)


def measure(workload: str) -> Report:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        options: dict[str, dict[str, Any]] = {
            BASE: {"disk_cache": False},
            "neither, again": {"disk_cache": False},
            "host_cache": {"disk_cache": False, "host_cache": 1},
            "disk_cache": {"disk_cache": f"{folder}/kv"},
        }
        size = POOLS[workload]
        engines = {
            name: Measured(opened.enter_context(Engine("tiny", max_total_tokens=size, **each)))
            for name, each in options.items()
        }
        return table(workload, turns(engines, flush=size == max(POOLS.values())))


def turns(engines: dict[str, Measured], flush: bool) -> dict[str, list[Turn]]:
    """Return the turns of each engine. flush: empty the caches after each turn."""
    rng, names = random.Random(0), list(engines)
    times: dict[str, list[Turn]] = {name: [] for name in names}
    for turn in range(WARM_UP + TURNS):
        prompts = [tokens(rng, PROMPT, 1000) for _ in range(REQUESTS)]
        for name in in_turn(names, turn):
            measured = engines[name].turn(prompts)
            if flush:
                engines[name].engine.flush_cache()
            times[name] += [measured] if turn >= WARM_UP else []
    return times


def table(workload: str, times: dict[str, list[Turn]]) -> Report:
    report = Report(
        f"{REQUESTS} requests of {PROMPT} new tokens and {OUTPUT} answered tokens, bundled model:"
        f" the work {workload}",
        (
            "", "turn, ms", "inside the tiers", "p99 step, ms", "inside the tiers",
            "turn over neither",
        ),
        bar=f"at most {MOST_TOTAL:.1%} and {MOST_STEP:.0%} inside the tiers, above {BASE}",
        note=f"Medians of {TURNS} turns; the last column with its confidence interval.",
    )  # fmt: skip
    base, report.met = [turn.total for turn in times[BASE]], True
    base_shares = shares(times[BASE])
    for name, measured in times.items():
        ratios = paired_ratios([turn.total for turn in measured], base)
        interval = median_interval(ratios)
        total, longest = shares(measured)
        above = total - base_shares[0], longest - base_shares[1]
        report.met = report.met and above[0] <= MOST_TOTAL and above[1] <= MOST_STEP
        report.rows.append(
            (
                name,
                f"{1000 * np.median([turn.total for turn in measured]):.1f}",
                f"{total:.2%}",
                f"{1000 * np.median([turn.longest for turn in measured]):.2f}",
                f"{longest:.2%}",
                f"{np.median(ratios):.3f} ({interval.low:.3f} to {interval.high:.3f})",
            )
        )
    return report


def shares(turns: list[Turn]) -> tuple[float, float]:
    """Return the median parts inside the tiers: of a turn, and of the longest steps."""
    total = np.median([turn.tiers / turn.total for turn in turns])
    longest = np.median([turn.longest / turn.longest_without - 1 for turn in turns])
    return float(total), float(longest)
