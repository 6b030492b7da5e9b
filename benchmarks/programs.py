"""What programs cost over the same requests given to `Engine.generate`, and calls of programs in a
loop or inside a program over `run_batch`.

A level of a chain has 8 tokens, as many as a short answer: with 2, a run is made of the ends of
requests. `python -m benchmarks.programs --chains N --rounds N` runs the chains alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.benchmark.stats import in_turn

from .common import Report, alternate, median_ratio

PROGRAMS, NEW = 2000, 16
CHAINS, LEVELS, LEVEL_NEW = 1000, 3, 8
CHAIN_ROUNDS = 5
CHAIN_BARS = {"run_batch": 1.03, "run_batch of an async def": 1.03, "a loop of run": 1.05}
NESTED, NESTED_NEW = 8, 64
ROUNDS = 3
PROGRAM_KB = 50


@sgnb.function
def continued(s: Any, text: str, new: int = NEW) -> None:
    s += text
    s += sgnb.gen("more", max_tokens=new, temperature=0, ignore_eos=True)


@sgnb.function
def chain(s: Any, text: str) -> None:
    s += text
    for level in range(LEVELS):
        s += sgnb.gen(f"level{level}", max_tokens=LEVEL_NEW, temperature=0, ignore_eos=True) + "."


@sgnb.function
async def awaited(s: Any, text: str) -> None:
    s += text
    for level in range(LEVELS):
        s += sgnb.gen(f"level{level}", max_tokens=LEVEL_NEW, temperature=0, ignore_eos=True)
        await s[f"level{level}"]
        s += "."


@sgnb.function
def outer(s: Any, texts: list[str], executor: Any) -> None:
    parts = [continued.run(text, NESTED_NEW, backend=executor) for text in texts]
    s += " ".join(part["more"] for part in parts)


def run() -> list[Report]:
    with sgnb.Engine("tiny") as engine:
        executor = LocalExecutor(engine)
        return [batch(engine, executor), calls(engine, executor), chains(engine, executor)]


def compare(
    engine: sgnb.Engine,
    ways: dict[str, Callable[[], Any]],
    title: str,
    bar: float,
) -> Report:
    """Each against the first, from an empty cache."""

    def cold(way: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            engine.flush_cache()
            way()

        return work

    times = alternate({name: cold(way) for name, way in ways.items()}, ROUNDS)
    [first, *others] = times
    ratios = {name: median_ratio(times[name], times[first]) for name in others}
    return Report(
        title,
        ("way", "seconds (median)", f"of {first}"),
        [
            (name, f"{statistics.median(t):.2f}", f"{ratios.get(name, 1):.3f}")
            for name, t in times.items()
        ],
        bar=f"at most {bar} of {first}",
        met=max(ratios.values()) <= bar,
        note=f"Medians of {ROUNDS} rounds.",
    )


def batch(engine: sgnb.Engine, executor: LocalExecutor) -> Report:
    texts = [f"Question {i}: what is {i % 97} plus {i % 89}?\nAnswer:" for i in range(PROGRAMS)]
    ways: dict[str, Callable[[], Any]] = {
        "Engine.generate": lambda: engine.generate(
            texts, temperature=0, max_new_tokens=NEW, ignore_eos=True
        ),
        "run_batch": lambda: continued.run_batch([(text,) for text in texts], backend=executor),
    }
    return compare(engine, ways, f"{PROGRAMS:,} programs of one generation (CPU)", 1.05)


def calls(engine: sgnb.Engine, executor: LocalExecutor) -> Report:
    texts = [f"Tip {i}: to sleep well," for i in range(NESTED)]

    def loop() -> None:
        states = [continued.run(text, NESTED_NEW, backend=executor) for text in texts]
        assert all(state["more"] for state in states)

    ways: dict[str, Callable[[], Any]] = {
        "run_batch": lambda: continued.run_batch(
            [(text, NESTED_NEW) for text in texts], backend=executor
        ),
        "a loop of run": loop,
        "calls inside a program": lambda: outer.run(texts, executor, backend=executor).sync(),
    }
    return compare(engine, ways, f"{NESTED} calls of {NESTED_NEW} tokens (CPU)", 1.15)


def chains(
    engine: sgnb.Engine, executor: LocalExecutor, count: int = CHAINS, rounds: int = CHAIN_ROUNDS
) -> Report:
    """Processor time of chains, in turns and from an empty cache, after a tenth of the chains.

    The model runs on one thread: with more threads, a thread that waits for another spins, and the
    processor time depends on the load of the machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for way in chain_ways(engine, executor, _stories(count // 10 + 1)).values():
            way()
        ways = chain_ways(engine, executor, _stories(count))
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds):
            for name in in_turn(list(ways), turn):
                engine.flush_cache()
                begun = time.process_time()
                ways[name]()
                times[name].append(time.process_time() - begun)
    finally:
        torch.set_num_threads(threads)

    first = next(iter(times))
    ratios = {name: _ratios(times[name], times[first]) for name in CHAIN_BARS}
    kilobytes = memory(executor, [(text,) for text in _stories(count)])
    bars = ", ".join(f"{name} {bar}" for name, bar in CHAIN_BARS.items())
    return Report(
        f"{count:,} programs at once, of {LEVELS} generations that need each other (CPU)",
        ("way", "seconds of processor time, each round", "median", f"of {first}", "median"),
        [
            (
                name,
                " ".join(f"{t:.2f}" for t in taken),
                f"{statistics.median(taken):.2f}",
                " ".join(f"{ratio:.3f}" for ratio in ratios.get(name, ())),
                f"{statistics.median(ratios.get(name, [1.0])):.3f}",
            )
            for name, taken in times.items()
        ],
        bar=f"at most, of {first}: {bars}; at most {PROGRAM_KB} kB a program",
        met=kilobytes <= PROGRAM_KB
        and all(statistics.median(ratios[name]) <= bar for name, bar in CHAIN_BARS.items()),
        note=f"{kilobytes:.1f} kB a program when all have ended.",
    )


def _ratios(times: list[float], first: list[float]) -> list[float]:
    return [a / b for a, b in zip(times, first, strict=True)]


def _stories(count: int) -> list[str]:
    return [f"Story {i} of {count}" for i in range(count)]


def chain_ways(
    engine: sgnb.Engine, executor: LocalExecutor, texts: list[str]
) -> dict[str, Callable[[], Any]]:
    def levels() -> None:
        prompts = engine.encode(texts)
        [dot] = engine.encode(["."])
        for _ in range(LEVELS):
            outputs = engine.generate(
                prompts, temperature=0, max_new_tokens=LEVEL_NEW, ignore_eos=True
            )
            for prompt, output in zip(prompts, outputs, strict=True):
                prompt += output.token_ids + dot

    def loop() -> None:
        for state in [chain.run(text, backend=executor) for text in texts]:
            state.sync()

    rows = [(text,) for text in texts]
    return {
        "Engine.generate, level by level": levels,
        "run_batch": lambda: chain.run_batch(rows, backend=executor),
        "run_batch of an async def": lambda: awaited.run_batch(rows, backend=executor),
        "a loop of run": loop,
    }


def memory(executor: LocalExecutor, rows: list[tuple[str]]) -> float:
    """Return the kilobytes of a program's state while referenced."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    states = chain.run_batch(rows[:500], backend=executor)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(list(states)) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--chains", type=int, default=CHAINS, help="number of programs")
    parser.add_argument("--rounds", type=int, default=CHAIN_ROUNDS)
    given = parser.parse_args()
    with sgnb.Engine("tiny") as engine:
        report = chains(engine, LocalExecutor(engine), given.chains, given.rounds)
    print(report.markdown(), flush=True)
    return int(report.met is False)


if __name__ == "__main__":
    raise SystemExit(main())
