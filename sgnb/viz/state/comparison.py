"""Comparison of a program with ablations, or of two runs of a program: times of the runs, on a
common axis from 0.

Pure reducer. The live page implements the same reducer (`page/compare.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...events import ComparisonDone, Record, RunsCompared, VariantRan
from .run_state import RunState

AS_IS = "as it is"


@dataclass(slots=True)
class Variant:
    """Measured runs of a variant, or a note with the reason for skipping."""

    name: str
    note: str = ""
    runs: list[RunState] = field(default_factory=list)

    @property
    def shown(self) -> RunState | None:
        """Return the run with the median time; the faster run of two."""
        runs = sorted(self.runs, key=lambda run: run.metrics.seconds)
        return runs[(len(runs) - 1) // 2] if runs else None

    @property
    def seconds(self) -> list[float]:
        return [run.metrics.seconds for run in self.runs]


class Comparison:
    """Latest comparison of a log. `runs` are the log's run states, updated by the caller."""

    def __init__(self, runs: Mapping[str, RunState]) -> None:
        self.id = ""
        self.variants: dict[str, Variant] = {}
        self.lines: tuple[str, ...] = ()  # findings after the end
        self.rerun: RunsCompared | None = None  # two runs of a program instead of variants
        self.left = 0  # remaining measured runs
        self.lost = 0
        self._runs = runs

    def apply(self, record: Record) -> None:
        handler = self._handlers.get(type(record.event))
        if handler is not None:
            handler(self, record.event)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per variant: median, fastest and slowest run, and the ratio to the first
        variant, which is the unmodified program or the earlier run."""
        variants = list(self.variants.values())
        base = variants[0].shown if variants else None
        return [_row(variant, base) for variant in variants]

    def _ran(self, event: VariantRan) -> None:
        if event.comparison != self.id:
            self.id, self.variants, self.lines = event.comparison, {}, ()
            self.rerun = None
        variant = self.variants.setdefault(event.variant, Variant(event.variant))
        variant.note = variant.note or event.note
        self.left = event.left
        if event.run in self._runs:
            variant.runs.append(self._runs[event.run])

    def _compared(self, event: RunsCompared) -> None:
        if event.comparison == self.id:
            self.rerun = event

    def _done(self, event: ComparisonDone) -> None:
        if event.comparison == self.id:
            self.lines = event.lines

    _handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        VariantRan: _ran,
        ComparisonDone: _done,
        RunsCompared: _compared,
    }


def _row(variant: Variant, base: RunState | None) -> dict[str, Any]:
    row: dict[str, Any] = {"variant": variant.name}
    run = variant.shown
    if run is not None:
        metrics = run.metrics
        base_seconds = base.metrics.seconds if base is not None else 0.0
        row |= {
            "seconds": metrics.seconds,
            "fastest": min(variant.seconds),
            "slowest": max(variant.seconds),
            "times": metrics.seconds / base_seconds if base_seconds else 1.0,
            "prompt_tokens": metrics.prompt_tokens,
            "cached_tokens": metrics.cached_tokens,
            "computed_tokens": metrics.computed_tokens,
            "recomputed_tokens": metrics.recomputed_tokens,
            "passes": metrics.passes,
            "sampled_tokens": metrics.sampled_tokens,
            "jumped_tokens": metrics.jumped_tokens,
            "same_text": not variant.note,
            "run": run.run,
        }

    return row | {"note": variant.note}
