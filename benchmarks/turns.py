"""What a thread that computes beside an engine costs it, by how long Python's threads compute in turn.

Tokens a second of one request, alone and beside a thread that adds numbers: on a CPU the bundled model, on a GPU a
Llama of 8B's shape with random weights. Turns are those of Python and those that an engine asks for.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .common import Report

PYTHONS = 5e-3
NEW, NEW_BESIDE = 192, 8
ROUNDS = 5
BAR = 1.5


def run() -> Report:
    import torch

    import sgnb
    from sgnb.engine.engine import TURN_SECONDS

    source: Any = "tiny"
    if torch.cuda.is_available():
        from .gpu.limits import LLAMA_8B
        from .gpu.model import random_llama

        source = random_llama(LLAMA_8B, "cuda")
    before = sys.getswitchinterval()
    figures: dict[tuple[float, bool], list[float]] = {}
    with sgnb.Engine(source) as engine:
        tokens_a_second(engine, NEW)
        try:
            for _ in range(ROUNDS):
                for turn in (PYTHONS, TURN_SECONDS):
                    sys.setswitchinterval(turn)
                    figures.setdefault((turn, False), []).append(tokens_a_second(engine, NEW))
                    with busy_thread():
                        figures.setdefault((turn, True), []).append(tokens_a_second(engine, NEW_BESIDE))
        finally:
            sys.setswitchinterval(before)
    median = {key: statistics.median(values) for key, values in figures.items()}
    times = median[TURN_SECONDS, True] / median[PYTHONS, True]
    report = Report(
        f"One request beside a busy thread ({'GPU' if torch.cuda.is_available() else 'CPU'})",
        ("turns of", "alone, tokens a second", "beside a busy thread"),
        [
            (f"{1000 * turn:g} ms", *(f"{median[turn, busy]:,.0f}" for busy in (False, True)))
            for turn in (PYTHONS, TURN_SECONDS)
        ],
        bar=f"beside a busy thread at least {BAR} times as fast as with Python's own turns",
        met=times >= BAR,
        note=f"{times:.1f} times.",
    )
    return report


def tokens_a_second(engine: Any, new: int) -> float:
    began = time.perf_counter()
    engine.generate(list(range(16, 32)), temperature=0, max_new_tokens=new, ignore_eos=True)
    return new / (time.perf_counter() - began)


@contextmanager
def busy_thread() -> Iterator[None]:
    """Inside, a thread of Python computes all the while."""
    stop = threading.Event()

    def add() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=add, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
