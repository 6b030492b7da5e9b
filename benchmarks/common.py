"""What the benchmarks share: workloads, timing, a table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sgnb.benchmark.conditions import machine
from sgnb.benchmark.stats import in_turn, median_ratio

__all__ = [
    "Report",
    "alternate",
    "machine",
    "median_ratio",
    "number_of_times",
    "optimal_hit_rate",
    "seconds",
    "tokens",
]


@dataclass
class Report:
    """Table of a benchmark. `bar` is the target, and `met` the result."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    bar: str = ""
    met: bool | None = None
    note: str = ""

    def markdown(self) -> str:
        head = [
            f"### {self.title}",
            "",
            "| " + " | ".join(self.columns) + " |",
            "|" + " --- |" * len(self.columns),
        ]
        rows = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in self.rows]
        verdict = (
            f"Bar: {self.bar}: {'met' if self.met else 'NOT met'}." if self.met is not None else ""
        )
        return "\n".join([*head, *rows, "", " ".join(x for x in (verdict, self.note) if x), ""])


def seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def alternate(
    functions: dict[str, Callable[[], Any]], rounds: int, warm_up: bool = True
) -> dict[str, list[float]]:
    """Return the seconds of each function, after a warm-up and in turns, so that drift of the
    machine affects all functions equally."""
    for function in functions.values() if warm_up else ():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds):
        for name in in_turn(list(functions), turn):
            times[name].append(seconds(functions[name]))
    return times


def tokens(rng: random.Random, count: int, vocab: int) -> list[int]:
    return [rng.randrange(16, vocab) for _ in range(count)]


def optimal_hit_rate(prompts: list[list[int]]) -> float:
    """1 - (edge lengths of the tree of all prompts) / (sum of prompt tokens), arXiv 2312.07104,
    section 3."""
    ordered = sorted(prompts)
    edges = 0
    before: list[int] = []
    for prompt in ordered:
        common = next(
            (i for i, (x, y) in enumerate(zip(prompt, before, strict=False)) if x != y),
            min(len(prompt), len(before)),
        )
        edges += len(prompt) - common
        before = prompt
    return 1 - edges / sum(map(len, prompts))


def number_of_times(ratio: float | None) -> str:
    """Format a ratio for a table cell; "" without a ratio."""
    return "" if ratio is None else f"{ratio:.2f}"
