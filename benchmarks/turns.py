"""Cost of a computing thread for an engine, by Python's switch interval.

Tokens per second of one request, alone and with a thread that adds numbers: on a CPU the bundled
model, on a GPU a Llama of 8B's shape with random weights. The table compares Python's interval with
the engine's interval, which slows down competing threads.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .common import Report

PYTHONS = 5e-3
NEW, NEW_BESIDE = 192, 8
ROUNDS = 5
THREADS, ADDITIONS = 4, 1_000_000
BAR = 1.5


def run() -> Report:
    import torch

    import sgnb
    from sgnb.engine.engine import SWITCH_INTERVAL

    source: Any = "tiny"
    if torch.cuda.is_available():
        from .gpu.model import random_model
        from .gpu.shapes import LLAMA_8B

        source = random_model(LLAMA_8B, "cuda")
    turns = PYTHONS, SWITCH_INTERVAL
    figures: dict[float, list[tuple[float, ...]]] = defaultdict(list)
    with sgnb.Engine(source) as engine:
        tokens_a_second(engine, NEW)
        for _ in range(ROUNDS):
            for turn in turns:
                with turns_of(turn):
                    figures[turn].append(
                        (tokens_a_second(engine, NEW), beside(engine), threads_seconds())
                    )
    medians = {
        turn: tuple(map(statistics.median, zip(*figures[turn], strict=True))) for turn in turns
    }
    times = medians[SWITCH_INTERVAL][1] / medians[PYTHONS][1]
    return Report(
        f"One request beside a busy thread ({'GPU' if torch.cuda.is_available() else 'CPU'})",
        (
            "turns of",
            "alone, tokens a second",
            "beside a busy thread",
            f"{THREADS} busy threads without an engine, s",
        ),
        [
            (f"{1000 * turn:g} ms", f"{alone:,.0f}", f"{beside_one:,.1f}", f"{threads:.2f}")
            for turn, (alone, beside_one, threads) in medians.items()
        ],
        bar=f"beside a busy thread at least {BAR} times as fast as with Python's own turns",
        met=times >= BAR,
        note=f"{times:.1f} times.",
    )


@contextmanager
def turns_of(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def tokens_a_second(engine: Any, new: int) -> float:
    began = time.perf_counter()
    engine.generate(list(range(16, 32)), temperature=0, max_new_tokens=new, ignore_eos=True)
    return new / (time.perf_counter() - began)


def beside(engine: Any) -> float:
    """The same while a thread of Python computes."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            add(100)

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        return tokens_a_second(engine, NEW_BESIDE)
    finally:
        stop.set()
        thread.join()


def threads_seconds() -> float:
    threads = [threading.Thread(target=add, args=(ADDITIONS,)) for _ in range(THREADS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def add(count: int) -> int:
    total = 0
    for number in range(count):
        total += number
    return total
