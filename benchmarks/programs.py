"""What programs cost over the same requests given to `Engine.generate`, and calls of programs in a
loop or inside a program over `run_batch`.

A level of a chain has 8 tokens, as many as a short answer: with 2, a run is made of the ends of
requests. So many chains take over a minute, and are run once each way, after all else is warm.
"""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable
from typing import Any

import sgnb
from sgnb.backends import LocalExecutor

from .common import Report, alternate, median_ratio

PROGRAMS, NEW = 2000, 16
CHAINS, LEVELS, LEVEL_NEW = 5000, 3, 8
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
    once: bool = False,
) -> Report:
    """Each against the first, from an empty cache. once: in place of `ROUNDS` after a warm-up."""

    def cold(way: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            engine.flush_cache()
            way()

        return work

    rounds = 1 if once else ROUNDS
    times = alternate({name: cold(way) for name, way in ways.items()}, rounds, not once)
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
        note="One round." if once else f"Medians of {ROUNDS} rounds.",
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


def chains(engine: sgnb.Engine, executor: LocalExecutor) -> Report:
    texts = [f"Story {i} of {CHAINS}" for i in range(CHAINS)]

    def levels() -> None:
        prompts = engine.encode(texts)
        [dot] = engine.encode(["."])
        for _ in range(LEVELS):
            outputs = engine.generate(
                prompts, temperature=0, max_new_tokens=LEVEL_NEW, ignore_eos=True
            )
            for prompt, output in zip(prompts, outputs, strict=True):
                prompt += output.token_ids + dot

    rows = [(text,) for text in texts]
    ways: dict[str, Callable[[], Any]] = {
        "Engine.generate, level by level": levels,
        "run_batch": lambda: chain.run_batch(rows, backend=executor),
        "run_batch of an async def": lambda: awaited.run_batch(rows, backend=executor),
    }
    title = f"{CHAINS:,} programs at once, of {LEVELS} generations that need each other (CPU)"
    report = compare(engine, ways, title, 1.05, once=True)
    kilobytes = memory(executor, rows)
    report.bar += f"; at most {PROGRAM_KB} kB a program"
    report.met = bool(report.met) and kilobytes <= PROGRAM_KB
    report.note += f" {kilobytes:.1f} kB a program when all have ended."
    return report


def memory(executor: LocalExecutor, rows: list[tuple[str]]) -> float:
    """Kilobytes that a program's state keeps, as long as somebody holds it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    states = chain.run_batch(rows[:500], backend=executor)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(list(states)) / 1000
