"""Three levels of batches inside programs, compared with the same programs as one flat batch:
processor time and threads."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.benchmark.stats import in_turn

from .common import Report, median_ratio

WIDTHS = (16, 16, 16)
ROUNDS = 3
MAX_RATIO, MAX_THREADS = 1.2, 80
SAMPLE_SECONDS = 0.005


@sgnb.function
def leaf(s: Any, number: int, reads: bool) -> None:
    s += f"Leaf {number}:" + sgnb.gen("x", max_tokens=4, temperature=0, ignore_eos=True)
    if reads:
        s["x"]


@sgnb.function
def tree(s: Any, number: int, widths: tuple[int, ...], reads: bool, executor: Any) -> None:
    s += "".join(run_tree(executor, widths, reads, number))


def run_tree(executor: Any, widths: tuple[int, ...], reads: bool, number: int = 0) -> list[str]:
    """Run a batch of `widths[0]` programs, each with batches of the other widths inside."""
    first, *inner = widths
    numbers = range(number * first, (number + 1) * first)
    if inner:
        rows = [(n, tuple(inner), reads, executor) for n in numbers]
        return [state.text() for state in tree.run_batch(rows, backend=executor)]
    leaves = [(n, reads) for n in numbers]
    return [state["x"] for state in leaf.run_batch(leaves, backend=executor)]


@contextmanager
def most_threads() -> Iterator[list[int]]:
    """Keep the largest number of threads so far in the list."""
    most, over = [0], threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            most[0] = max(most[0], threading.active_count())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield most
    finally:
        over.set()
        sampler.join()


def run() -> list[Report]:
    with sgnb.Engine("tiny") as engine:
        executor = LocalExecutor(engine)
        reports = [compare(engine, executor, WIDTHS, reads) for reads in (False, True)]
        executor.close()
    return reports


def compare(
    engine: sgnb.Engine,
    executor: LocalExecutor,
    widths: tuple[int, ...],
    reads: bool,
    rounds: int = ROUNDS,
) -> Report:
    """Processor time and threads of a flat batch and of nested batches, in turns."""
    count = math.prod(widths)
    ways = {"one flat batch": (count,), f"{len(widths)} levels of batches": widths}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    threads = dict.fromkeys(ways, 0)
    run_tree(executor, (8, 8), reads)
    for turn in range(rounds):
        for name in in_turn(list(ways), turn):
            engine.flush_cache()
            with most_threads() as most:
                began = time.process_time()
                run_tree(executor, ways[name], reads)
                seconds[name].append(time.process_time() - began)
            threads[name] = max(threads[name], *most)

    flat, nested = ways
    ratio = median_ratio(seconds[nested], seconds[flat])
    return Report(
        f"{count:,} programs that {'read' if reads else 'do not read'} their value (CPU)",
        ("way", "processor seconds (median)", f"of {flat}", "threads (most)"),
        [
            (
                name,
                f"{statistics.median(seconds[name]):.2f}",
                f"{ratio if name == nested else 1:.3f}",
                threads[name],
            )
            for name in ways
        ],
        bar=f"at most {MAX_RATIO} of {flat}, at most {MAX_THREADS} threads",
        met=ratio <= MAX_RATIO and threads[nested] <= MAX_THREADS,
        note=f"Medians of {rounds} rounds.",
    )
