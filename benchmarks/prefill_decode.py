"""Prefill and decode in two engines against two ordinary engines: the same mixed load in turns.
Long prompts with short answers, and short prompts with long answers, arrive at random times. Each
engine has a process with one thread of torch."""

from __future__ import annotations

import os
import queue
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.benchmark.stats import in_turn
from sgnb.lang.executor import Call, Delta
from sgnb.sampling import SamplingParams

from .common import Report

LONG, SHORT = 12, 12
"""Calls of a round: with long prompts, and with short prompts."""

LONG_WORDS, LONG_OUTPUT = 300, 8
SHORT_WORDS, SHORT_OUTPUT = 8, 64

ROUNDS = 3

LOAD = 0.6
"""Time of two ordinary engines for all calls at once, per time of the arrivals."""

OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 60_000}

FLEETS: dict[str, dict[str, int]] = {
    "two ordinary engines": {"replicas": 2},
    "prefill and decode": {"replicas": 1, "prefill": 1},
}


@dataclass
class TimedCall:
    """A call with the times of the texts, in seconds from the arrival."""

    number: int
    is_long: bool
    call: Call
    arrival: float = 0.0
    times: list[float] = field(default_factory=list)
    text: str = ""


def run() -> Report:
    report = Report(
        f"{LONG} prompts of {LONG_WORDS} words and {SHORT} answers of {SHORT_OUTPUT} tokens per "
        f"round, {ROUNDS} rounds, bundled model: milliseconds, median and 99th percentile",
        ("engines", "first token, long prompts", "first token, short prompts", "between texts"),
    )
    calls: dict[str, list[TimedCall]] = {name: [] for name in FLEETS}
    with ExitStack() as opened:
        fleets = {
            name: opened.enter_context(FleetExecutor.load("tiny", **numbers, **OPTIONS))
            for name, numbers in FLEETS.items()
        }
        for name, fleet in fleets.items():  # kernels and caches of the processes
            drive(fleet, new_calls(0, name), 0.0)
        base = next(iter(fleets.values()))
        base.flush_cache()
        together = drive(base, new_calls(1, "all at once"), 0.0)

        for turn in range(ROUNDS):
            for name in in_turn(list(fleets), turn):
                fleets[name].flush_cache()
                timed = new_calls(2 + turn, name)
                drive(fleets[name], timed, together / LOAD)
                calls[name] += timed
        moved = fleets["prefill and decode"].server_info()["workers"][0]["cached_tokens"]

    for name, timed in calls.items():
        long, short = ([c.times[0] for c in timed if c.is_long is kind] for kind in (True, False))
        gaps = [gap for call in timed if not call.is_long for gap in np.diff(call.times)]
        report.rows.append((name, cell(long), cell(short), cell(gaps)))
    pairs = zip(*calls.values(), strict=True)
    equal = sum(one.text == other.text for one, other in pairs)
    report.note = (
        f"All calls at once take {together:.1f} s on two ordinary engines; calls arrive within "
        f"{together / LOAD:.1f} s. {equal} of {len(timed)} answers are equal. The engine that "
        f"decodes found {moved:,} prompt tokens in its cache. Not measured: GPUs."
    )
    return report


def new_calls(seed: int, run: str) -> list[TimedCall]:
    """Return the calls of a round in random order; the prompts share no prefix."""
    rng = random.Random(seed)
    calls = []
    for number in range(LONG + SHORT):
        is_long = number < LONG
        words = LONG_WORDS if is_long else SHORT_WORDS
        prompt = " ".join(f"{rng.choice('abcdefgh')}{rng.randrange(1000)}" for _ in range(words))
        params = SamplingParams(
            max_new_tokens=LONG_OUTPUT if is_long else SHORT_OUTPUT, temperature=0, ignore_eos=True
        )
        place = f"{run} {seed} {number}"
        calls.append(TimedCall(number, is_long, Call(prompt, params, place, "0", "x", stream=True)))
    rng.shuffle(calls)
    return calls


def drive(fleet: FleetExecutor, calls: list[TimedCall], seconds: float) -> float:
    """Send the calls at random times within `seconds`, and wait. Returns the seconds until the
    last answer."""
    rng, ended = random.Random(len(calls)), queue.SimpleQueue[Exception | None]()
    began = time.perf_counter()

    def send(timed: TimedCall) -> None:
        def receive(message: Any) -> None:
            if isinstance(message, Delta):
                timed.times.append(time.perf_counter() - timed.arrival)
                timed.text += message.text
            else:
                ended.put(message.error)

        timed.arrival = time.perf_counter()
        fleet.generate(timed.call, receive)

    for at, timed in zip(sorted(rng.uniform(0, seconds) for _ in calls), calls, strict=True):
        time.sleep(max(0.0, began + at - time.perf_counter()))
        send(timed)
    for _ in calls:
        error = ended.get(timeout=600)
        if error is not None:
            raise error
    return time.perf_counter() - began


def cell(seconds: list[float]) -> str:
    """Format the median and the 99th percentile."""
    median, high = np.percentile(seconds, (50, 99))
    return f"{1000 * median:.0f}; {1000 * high:.0f}"
