"""Cost of `host_cache` and `disk_cache` for work that reuses nothing, in processor time of the
engine's thread, which does not count other programs.

All engines answer the same prompts in turn, in one process. The verdict compares each turn, and the
99th percentile of its steps, with the turn of an engine without tiers. A second engine without
tiers shows the error of this comparison. The latency of a token is the time of its step. Some
engines are faster than others, because of the places of their arrays in memory: all engines are
loaded again several times. An engine waits while the others answer: it must not copy its cache in
this time, so that the evictions of the second workload have blocks to copy.

On a busy machine, the confidence intervals are wider than the bar, and the verdict is open. The
table therefore has a second, exact measure: the time inside the functions of the tiers, as a part
of a turn and of the longest steps. This part omits costs outside the functions, such as a busy
memory bus. The functions take some time without tiers, too.
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
from sgnb.engine.cache.tiers import copies
from sgnb.sampling import SamplingParams

from .common import Report, tokens

TURNS, LOADS, WARM_UP = 64, 4, 2
REQUESTS, PROMPT, OUTPUT = 4, 300, 48
MOST_TOTAL, MOST_STEP = 1.005, 1.01
POOLS = {"fits into the pool": 8192, "evicts earlier turns": 2048}
BASE = "neither"
TIERS = "host_cache", "disk_cache"


class Turn(NamedTuple):
    """Processor seconds of a turn."""

    total: float
    tiers: float  # inside the functions of the tiers
    longest: float  # 99th percentile of the steps
    longest_without: float  # the same without the time inside the functions of the tiers


class Stopwatch:
    """Processor time inside some functions of a thread, without the time of the measurement."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._cost = 0.0, 0, 0.0
        self.empty = lambda: None
        self.watch(self, "empty")
        for _ in range(1000):
            self.empty()
        self._cost, self.seconds = self.seconds / 1000, 0.0

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
                    self.seconds += time.thread_time() - began - self._cost

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

    threads, idle_seconds = torch.get_num_threads(), copies.IDLE_SECONDS
    torch.set_num_threads(1)  # waiting threads would count
    copies.IDLE_SECONDS = 3600.0
    try:
        return [measure(workload) for workload in POOLS]
    finally:
        torch.set_num_threads(threads)
        copies.IDLE_SECONDS = idle_seconds


def measure(workload: str) -> Report:
    times: dict[str, list[Turn]] = {}
    size = POOLS[workload]
    for load in range(LOADS):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
            options: dict[str, dict[str, Any]] = {
                BASE: {"disk_cache": False},
                "neither, again": {"disk_cache": False},
                "host_cache": {"disk_cache": False, "host_cache": 1},
                "disk_cache": {"disk_cache": f"{folder}/kv"},
            }
            engines = {
                name: Measured(
                    opened.enter_context(Engine("tiny", max_total_tokens=size, **options[name]))
                )
                for name in in_turn(list(options), load)
            }
            measured = turns(engines, load, flush=size == max(POOLS.values()))
        for name in options:
            times.setdefault(name, []).extend(measured[name])
    return table(workload, times)


def turns(engines: dict[str, Measured], seed: int, flush: bool) -> dict[str, list[Turn]]:
    """Return the turns of each engine. flush: empty the caches after each turn."""
    rng, names = random.Random(seed), list(engines)
    times: dict[str, list[Turn]] = {name: [] for name in names}
    for turn in range(WARM_UP + TURNS // LOADS):
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
            "", "turn, ms", "over neither", "inside the tiers", "p99 step, ms", "over neither",
            "inside the tiers",
        ),
        bar=f"at most {MOST_TOTAL} of a turn and {MOST_STEP} of the p99 step of {BASE}",
        note=f"Medians of {TURNS} turns of {LOADS} loads; ratios with their confidence intervals.",
    )  # fmt: skip
    base_totals, base_steps = columns(times[BASE])
    verdicts: list[bool | None] = []
    for name, measured in times.items():
        totals, steps = columns(measured)
        total_ratios = paired_ratios(totals, base_totals)
        step_ratios = paired_ratios(steps, base_steps)
        if name in TIERS:
            verdicts += [verdict(total_ratios, MOST_TOTAL), verdict(step_ratios, MOST_STEP)]
        total_share, step_share = shares(measured)
        report.rows.append(
            (
                name,
                f"{1000 * np.median(totals):.1f}",
                ratio_cell(total_ratios),
                f"{total_share:.2%}",
                f"{1000 * np.median(steps):.2f}",
                ratio_cell(step_ratios),
                f"{step_share:.2%}",
            )
        )
    report.met = False if False in verdicts else None if None in verdicts else True
    if report.met is None:
        report.note = f"Bar: {report.bar}: not decided, see the intervals. {report.note}"
    return report


def columns(turns: list[Turn]) -> tuple[list[float], list[float]]:
    """Return the time of each turn, and of its longest steps."""
    return [turn.total for turn in turns], [turn.longest for turn in turns]


def verdict(ratios: list[float], limit: float) -> bool | None:
    """Return whether the median ratio is at most `limit`; None if the confidence interval contains
    both answers."""
    interval = median_interval(ratios)
    return True if interval.high <= limit else False if interval.low > limit else None


def ratio_cell(ratios: list[float]) -> str:
    interval = median_interval(ratios)
    return f"{np.median(ratios):.3f} ({interval.low:.3f} to {interval.high:.3f})"


def shares(turns: list[Turn]) -> tuple[float, float]:
    """Return the median parts inside the tiers: of a turn, and of the longest steps."""
    total = np.median([turn.tiers / turn.total for turn in turns])
    longest = np.median([turn.longest / turn.longest_without - 1 for turn in turns])
    return float(total), float(longest)
