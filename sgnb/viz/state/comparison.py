"""Comparison of a program with ablations, or of two runs of a program: times of the runs, on a
common axis from 0.

Pure reducer. The live page implements the same reducer (`page/compare.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...events import (
    ComparisonDone,
    Jumped,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RunsCompared,
    StepRan,
    VariantRan,
)
from .run_state import RunState

AS_IS = "as it is"


@dataclass(slots=True)
class Bar:
    """Phases of a request, in seconds of the log's clock; None for future phases."""

    branch: str
    name: str
    queued: float
    admitted: float | None = None
    first: float | None = None  # time of the first sampled token
    finished: float | None = None
    jumps: list[float] = field(default_factory=list)


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
        self._engine = 0  # engine of the current record
        self._bars: dict[tuple[int, int], Bar] = {}  # bars by engine and request
        self._of_run: dict[str, list[Bar]] = {}

    def apply(self, record: Record) -> None:
        handler, self._engine = self._handlers.get(type(record.event)), record.engine
        if handler is not None:
            handler(self, record.event, record.t)

    def timeline(self, run: str) -> dict[str, list[Bar]]:
        """Return the requests of a run by branch. Forks follow the parent."""
        lanes: dict[str, list[Bar]] = {}
        for bar in self._of_run.get(run, []):
            lanes.setdefault(bar.branch, []).append(bar)
        return dict(sorted(lanes.items(), key=lambda lane: in_order(lane[0])))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per variant: median, fastest and slowest run, and the ratio to the first
        variant, which is the unmodified program or the earlier run."""
        variants = list(self.variants.values())
        base = variants[0].shown if variants else None
        return [_row(variant, base) for variant in variants]

    def _ran(self, event: VariantRan, t: float) -> None:
        if event.comparison != self.id:
            self.id, self.variants, self.lines = event.comparison, {}, ()
            self.rerun = None
        variant = self.variants.setdefault(event.variant, Variant(event.variant))
        variant.note = variant.note or event.note
        self.left = event.left
        if event.run in self._runs:
            variant.runs.append(self._runs[event.run])

    def _compared(self, event: RunsCompared, t: float) -> None:
        if event.comparison == self.id:
            self.rerun = event

    def _done(self, event: ComparisonDone, t: float) -> None:
        if event.comparison == self.id:
            self.lines = event.lines

    def _queued(self, event: RequestQueued, t: float) -> None:
        if event.run:
            bar = Bar(event.branch, event.name, t)
            self._bars[self._engine, event.request] = bar
            self._of_run.setdefault(event.run, []).append(bar)

    def _admitted(self, event: RequestAdmitted, t: float) -> None:
        bar = self._bars.get((self._engine, event.request))
        if bar is not None and bar.admitted is None:
            bar.admitted = t

    def _stepped(self, event: StepRan, t: float) -> None:
        for row in event.sampled if self._bars else ():
            bar = self._bars.get((self._engine, row.request))
            if bar is not None and bar.first is None:
                bar.first = t

    def _jumped(self, event: Jumped, t: float) -> None:
        bar = self._bars.get((self._engine, event.request))
        if bar is not None:
            bar.jumps.append(t)

    def _finished(self, event: RequestFinished, t: float) -> None:
        bar = self._bars.pop((self._engine, event.request), None)
        if bar is not None:
            bar.finished = t

    _handlers: ClassVar[dict[type, Callable[[Any, Any, float], None]]] = {
        VariantRan: _ran,
        ComparisonDone: _done,
        RunsCompared: _compared,
        RequestQueued: _queued,
        RequestAdmitted: _admitted,
        StepRan: _stepped,
        Jumped: _jumped,
        RequestFinished: _finished,
    }


def in_order(branch: str) -> list[str]:
    """Return a sort key for branch names: numeric order."""
    return [part.rjust(6, "0") for part in branch.split(".")]


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
