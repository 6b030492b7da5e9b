"""Counts of `grammar_wild`, and `python -m benchmarks.grammar_counts FILE...`: sum of the tables of
several saved files.

Parts of a suite are added per tool. All times are kept, so percentiles cover the whole suite.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .common import Report

REASONS = 12  # lines of refusals that are printed

COLUMNS = (
    "tool",
    "compiled, %",
    "all instances right, %",
    "invalid accepted",
    "failed after compiling",
    "mask and token, μs: mean",
    "99 %",
    "99.9 %",
    "compile, ms: median",
    "95 %",
    "max",
    "memory, MB",
)

TIMES = ("compiling", "refusing", "masks", "kept")
"""What of `Counts` is saved as float32."""


@dataclass
class Counts:
    """What one tool did. Times are seconds."""

    name: str
    schemas: int = 0
    right: int = 0  # every instance is judged rightly
    unsatisfiable: int = 0  # refused because nothing is valid, which is right
    compiling: list[float] = field(default_factory=list)
    refusing: list[float] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)  # bytes a grammar, batch by batch
    refusals: list[tuple[str, str]] = field(default_factory=list)  # case and message
    let_through: list[str] = field(default_factory=list)  # cases with accepted invalid instances
    turned_away: list[str] = field(default_factory=list)  # with rejected valid ones
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def refused(self) -> Counter[str]:
        return Counter(_reason(message) for _, message in self.refusals)

    def add(self, other: Counts) -> None:
        """The same tool's, of other schemas."""
        for name in ("schemas", "right", "unsatisfiable", *LISTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def row(self) -> tuple[str, ...]:
        def spread(values: list[float], unit: float, *parts: float) -> list[str]:
            found = np.percentile(values, parts) / unit if values else [0.0] * len(parts)
            return [f"{value:,.1f}" for value in found]

        compiled = len(self.compiling) + self.unsatisfiable
        schemas = max(self.schemas, 1)
        return (
            self.name,
            f"{100 * compiled / schemas:.1f}",
            f"{100 * self.right / schemas:.1f}",
            str(len(self.let_through)),
            str(len({name for name, _ in self.failed})),
            f"{np.mean(self.masks or [0]) * 1e6:,.0f}",
            *spread(self.masks, 1e-6, 99, 99.9),
            *spread(self.compiling + self.refusing, 1e-3, 50, 95, 100),
            f"{np.median(self.kept or [0]) / 1e6:.2f}",
        )

    def notes(self) -> str:
        parts = [f"{count}× {reason}" for reason, count in self.refused.most_common(REASONS)]
        lines = [f"{self.name} refuses: {'; '.join(parts) or 'nothing'}."]
        for what, names in (
            ("accepts invalid instances of", self.let_through),
            ("fails after compiling", [name for name, _ in self.failed]),
        ):
            if names:
                lines.append(f"It {what} {', '.join(dict.fromkeys(names))}.")
        return " ".join(lines)


LISTS = (*TIMES, "refusals", "let_through", "turned_away", "failed")


@dataclass
class Suite:
    """A suite, or a part of it. size: cases of the whole suite. ours: so many of the tools, the
    first, are held to the bar."""

    name: str
    size: int
    cases: str
    ours: int
    tools: list[Counts]

    def report(self) -> Report:
        schemas = max(tool.schemas for tool in self.tools)
        report = Report(
            f"{self.name}, {schemas:,} of {self.size:,} {self.cases}",
            COLUMNS,
            [tool.row() for tool in self.tools],
            bar="nothing invalid, no failure",
            met=not any(tool.let_through or tool.failed for tool in self.tools[: self.ours]),
        )
        report.note = "\n\n".join(tool.notes() for tool in self.tools)
        return report

    def add(self, other: Suite) -> None:
        """Add another part of the same suite. Raises ValueError for other tools."""
        if [tool.name for tool in self.tools] != [tool.name for tool in other.tools]:
            raise ValueError(f"parts of {self.name} were measured with different tools")
        for tool, its in zip(self.tools, other.tools, strict=True):
            tool.add(its)


def save(path: Path, suites: Sequence[Suite]) -> None:
    """Write an .npz file atomically."""
    arrays, heads = {}, []
    for number, suite in enumerate(suites):
        tools = []
        for place, tool in enumerate(suite.tools):
            for name in TIMES:
                arrays[f"{number} {place} {name}"] = np.array(getattr(tool, name), np.float32)
            names = ("name", "schemas", "right", "unsatisfiable", *LISTS)
            tools.append({name: getattr(tool, name) for name in names if name not in TIMES})
        heads.append({**vars(suite), "tools": tools})
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, head=np.array(json.dumps(heads)), **arrays)
    part.replace(path)


def load(path: Path) -> list[Suite]:
    suites = []
    with np.load(path, allow_pickle=False) as saved:
        for number, head in enumerate(json.loads(str(saved["head"]))):
            tools = []
            for place, tool in enumerate(head["tools"]):
                times: dict[str, Any] = {
                    name: saved[f"{number} {place} {name}"].tolist() for name in TIMES
                }
                pairs = {name: [(a, b) for a, b in tool[name]] for name in ("refusals", "failed")}
                tools.append(Counts(**{**tool, **pairs, **times}))
            suites.append(Suite(**{**head, "tools": tools}))
    return suites


def added(paths: Iterable[Path]) -> list[Suite]:
    """The suites of all files, each once."""
    found: dict[str, Suite] = {}
    for path in paths:
        for suite in load(path):
            if suite.name in found:
                found[suite.name].add(suite)
            else:
                found[suite.name] = suite
    return list(found.values())


def _reason(message: str) -> str:
    """A refusal without what is its schema's own."""
    message = message.partition("\n")[0]
    keyword, found, problem = message.partition(": ")
    if found and " at #" in keyword:
        message = f"{keyword.partition(' at #')[0]}: {problem}"
    return re.sub(r"[\"'`].*[\"'`]|\d[\d,.]*", "…", message)[:90]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.grammar_counts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    reports = [suite.report() for suite in added(parser.parse_args().files)]
    for report in reports:
        print(report.markdown(), flush=True)
    return int(any(report.met is False for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
