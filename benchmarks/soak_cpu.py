"""`python -m benchmarks.soak_cpu --minutes 10`: random programs with views open; the memory stays
flat.

The calls of the soak on a GPU, and programs of the language, run one after another on a small model
while the tree and each program's text are followed as a page does. After the warm-up the process
must not grow by a megabyte in 10,000 requests.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.events.event_log import LOG_MEMORY
from sgnb.lang import Run, watch
from sgnb.viz import Emitter, RunState
from sgnb.viz.live import feed as feeds

from .common import Report
from .gpu.memory_cycle import memory
from .gpu.soak_programs import Programs

GROWTH_MB = 1.0
"""The bar, in 10,000 requests."""

LOG_BYTES = 1 << 20
"""The log, and what is told of all that the engine does, are bounded to so much, so that they are
at their bound when the warm-up ends."""

SEGMENTS = 10
"""The memory after the warm-up is weighed so often."""


WORDS = ("once", "upon", "a time", "there was", "little", "fox", "the old owl", "Größe", "🦊")


@sgnb.function
def story(s: Any, begin: str, branches: int, new: int) -> None:
    s += begin + sgnb.gen("first", max_tokens=new, ignore_eos=True)
    forks = s.fork(branches)
    for i, fork in enumerate(forks):
        fork += f" {i}: " + sgnb.gen("more", max_tokens=new, temperature=1, ignore_eos=True)
    s += forks[0]["more"] + sgnb.select("mood", choices=["glad", "sad", "so so"])


class Weight(NamedTuple):
    seconds: float  # since the beginning
    requests: int
    mb: float  # of the process


class Soak:
    """seed: of the programs."""

    def __init__(self, engine: sgnb.Engine, seed: int = 0) -> None:
        self.programs = 0
        self._engine, self._rng = engine, random.Random(seed)
        engine.log._spare += LOG_BYTES - LOG_MEMORY
        feeds.KEPT_CHARACTERS = LOG_BYTES
        self._executor, self._emitter = LocalExecutor(engine), Emitter(engine.log)
        self._emitter.feed()  # of all that the engine does, for ever
        self._calls = Programs(engine, longest_prompt=120, longest_output=12)

    def run(self, seconds: float, warm_up: float) -> list[Weight]:
        """The weights after the warm-up, the first at its end."""
        began = time.perf_counter()
        weights: list[Weight] = []
        while (now := time.perf_counter() - began) < seconds or len(weights) < 2:
            due = warm_up + (seconds - warm_up) * len(weights) / SEGMENTS
            if now >= due:
                weights.append(Weight(now, self._engine.stats()["requests"], self._weigh()))
            self._program()
            self.programs += 1
        weights.append(Weight(now, self._engine.stats()["requests"], self._weigh()))
        self._emitter.close()
        self._executor.close()
        return weights

    def _program(self) -> None:
        rng = self._rng
        if rng.random() < 0.5:
            self._calls.run(rng)
            return
        state: RunState | None = None
        feed, after = self._emitter.feed(), self._engine.log.last

        def show(run: Run) -> None:
            nonlocal state
            state = RunState(run.id, self._emitter.trees)
            self._emitter.follow(state, after)

        unwatch = watch(show)
        try:
            begin = " ".join(rng.choices(WORDS, k=rng.randint(1, 20)))
            story.run(begin, rng.randint(1, 4), rng.randint(1, 12), backend=self._executor).text()
        finally:
            unwatch()
        assert state is not None
        self._emitter.flush()
        self._emitter.detach(feed)
        self._emitter.unfollow(state)
        assert "RunFinished" in feed.lines[-1] and not state.lost and state.status == "done"

    def _weigh(self) -> float:
        """What is free goes back to the system first."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return memory().host


def growth(weights: list[Weight]) -> float:
    """MB in 10,000 requests: the slope of the straight line that fits best."""
    slope, _ = np.polyfit([w.requests for w in weights], [w.mb for w in weights], 1)
    return float(slope) * 10_000


def soak(seconds: float, warm_up: float, seed: int = 0) -> Report:
    """On a toy model with the bundled model's tokenizer, whose pool is small enough to evict."""
    import torch
    from transformers import AutoTokenizer

    from sgnb import models

    from .gpu.model import random_model
    from .gpu.shapes import TOY

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    model = random_model(replace(TOY, vocab=len(tokenizer)), "cpu", "float32", scale=0.3)
    try:
        with sgnb.Engine(model, tokenizer=tokenizer, device="cpu", max_total_tokens=4000) as engine:
            run = Soak(engine, seed)
            weights = run.run(seconds, warm_up)
    finally:
        torch.set_num_threads(threads)
    report = Report("Random programs with views open (CPU)", ("seconds", "requests", "MB"))
    report.rows = [(f"{w.seconds:.0f}", w.requests, f"{w.mb:.1f}") for w in weights]
    grown = growth(weights)
    report.bar = f"under {GROWTH_MB:g} MB in 10,000 requests"
    report.met = grown < GROWTH_MB
    report.note = f"{run.programs:,} programs; {grown:+.2f} MB in 10,000 requests."
    return report


def run() -> Report:
    """Two minutes of it."""
    return soak(120, 40)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_cpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report = soak(arguments.minutes * 60, min(60, arguments.minutes * 20), arguments.seed)
    print(report.markdown(), flush=True)
    return int(not report.met)


if __name__ == "__main__":
    raise SystemExit(main())
