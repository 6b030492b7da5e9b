"""Comparison of a program with ablations: `%%sglang --vs`, `sgnb.compare`.

A short benchmark (`sgnb.benchmark`) with a view: few runs, all with records. Each run has a private
cache namespace, filled with the prompt prefixes from the notebook's cache. The notebook's cache
stays unchanged, and no run helps another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..benchmark import Measurements, Workload
from ..benchmark.findings import Finding, findings
from ..benchmark.measurement import EngineSide, RunResult, measure
from ..benchmark.variants import ABLATIONS
from ..errors import OptionError
from ..events import ComparisonDone, RequestQueued, VariantRan
from ..lang import ProgramState, Run
from ..lang.executor import Executor
from ..sampling import integer, read_option
from ..sequences import common_length
from ..viz import AS_IS, Comparison, Display, Feed, LogState, Recording
from ..viz.static.plain_text import compare_text
from .loaded_engine import LoadedEngine
from .runs import run_to_end
from .table import Displayable, Table, html_lines

ROUNDS = 3
"""Measured runs per variant."""

_numbers = itertools.count(1)

Work = Callable[[Executor], Any]
"""Callback to start the program on an executor. Returns a state or a list of states."""


class CompareReport(Displayable):
    """Report of a comparison.

    Attributes:
        rows: Seconds and counters per variant; see `table()`.
        lines: Display text: method, then findings.
        states: Per variant the result of the first measured run.
        recording: Views of the comparison, without an engine.
    """

    def __init__(self, comparison: Comparison, states: dict[str, Any], feed: Feed) -> None:
        """Collect the results of a comparison.

        Args:
            comparison: Reduced state of the comparison.
            states: Result of the program per variant.
            feed: Records of all runs.
        """
        self.rows, self.lines = comparison.rows(), list(comparison.lines)
        self.states, self.feed = states, feed
        self.recording = Recording(feed.lines)
        self._text = compare_text(comparison)

    @property
    def state(self) -> Any:
        """Return the result of the unmodified program."""
        return self.states[AS_IS]

    def table(self) -> Table:
        """Return a table with a row per variant."""
        return Table(self.rows)

    def __repr__(self) -> str:
        return self._text

    def _html(self) -> str:
        return self.table()._html() + html_lines("p", self.lines)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return self.recording._repr_mimebundle_()


class ComparedSide:
    """A side of the benchmark; the measured runs appear in the view; see `runner.Side`."""

    repeatable = True

    def __init__(self, comparison: ComparisonRun, variant: str) -> None:
        self._comparison, self._variant = comparison, variant
        self._value: Any = None
        self._run: Run
        self._is_warm = False
        self._side = EngineSide(
            comparison.loaded.executor,
            self._start,
            clock="wall",
            title=AS_IS if variant == AS_IS else f"without {ABLATIONS[variant].technique}",
            variant=variant,
            prefixes=comparison.prefixes,
        )
        self.title = self._side.title

    def refuses(self, base: RunResult) -> str:
        reason = self._side.refuses(base)
        if reason:
            self._comparison.refuse(self._variant, reason)
        return reason

    def run(self) -> RunResult:
        comparison = self._comparison
        if not self._is_warm:
            comparison.emit(self._variant)
        position = comparison.log.last
        result = self._side.run()
        comparison.loaded.emitter.flush()

        # Use the figures of the view: other requests on the engine are not counted.
        metrics = comparison.state.runs[self._run.id].metrics
        result.seconds = metrics.seconds
        result.counts |= {
            "cached_tokens": metrics.cached_tokens,
            "computed_tokens": metrics.computed_tokens,
            "jumped_tokens": metrics.jumped_tokens,
            "steps": metrics.passes,
        }
        if self._is_warm:
            comparison.add(self._variant, self._run, self._value, result)
        elif self._variant == AS_IS:
            comparison.begin(self._run, result, position)
        self._is_warm = True
        return result

    def close(self) -> None:
        pass

    def _start(self, executor: Executor) -> list[ProgramState]:
        runs: list[Run] = []

        def begin(run: Run) -> None:
            runs.append(run)
            self._comparison.on_start(run)

        work, timeout = self._comparison.work, self._comparison.timeout
        self._value = run_to_end(lambda: work(executor), begin, timeout)
        if not runs:
            raise OptionError("the program ran nothing", "give arguments or rows")
        self._run = runs[0]
        return self._value if isinstance(self._value, list) else [self._value]


class ComparisonRun:
    """A comparison on one engine.

    Args:
        loaded: Engine of the comparison.
        work: Starts the program on an executor.
        timeout: Time limit per run in seconds, or None.
        on_start: Called with each run at the start.
    """

    def __init__(
        self,
        loaded: LoadedEngine,
        work: Work,
        timeout: float | None = None,
        on_start: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self.loaded, self.work, self.timeout, self.on_start = loaded, work, timeout, on_start
        self.log = loaded.executor.log
        self.state = LogState()
        self.states: dict[str, Any] = {}
        self.name = f"comparison {next(_numbers)}"
        self.prefixes: list[Sequence[int]] = []  # initial cache content of each run
        self._base = RunResult(0.0)  # warm-up run of the unmodified program
        self._notes: dict[str, str] = {}  # by variant: first difference of the text
        self._rounds = 0
        self._num_left = 0  # remaining measured runs

    def run(self, variants: Sequence[str], rounds: int = ROUNDS) -> None:
        """Run the program unmodified and in each variant. Findings go to the engine's log and to
        `state`.

        Args:
            variants: Names of ablations.
            rounds: Measured runs per variant.
        """
        emitter = self.loaded.emitter
        emitter.follow(self.state, self.log.last)
        lines: tuple[str, ...] = ("stopped before the end",)
        measured = Measurements(Workload(self.name, None), rounds)
        self._rounds, self._num_left = rounds, rounds * (1 + len(variants))
        try:
            sides = {variant: ComparedSide(self, variant) for variant in (AS_IS, *variants)}
            measure(sides, measured, strict=False)
            lines = self._lines(measured)
        finally:
            self.log.emit(ComparisonDone(self.name, lines))
            emitter.flush()
            emitter.unfollow(self.state)

    def begin(self, run: Run, base: RunResult, position: int) -> None:
        """Take the warm-up run of the unmodified program as reference, and read the initial cache
        content from the records after `position`."""
        self._base = base
        self.prefixes += self._cached_prefixes(run, position)
        base.counts["cached_tokens"] += self._num_cached()  # found by the runs to come

    def refuse(self, variant: str, reason: str) -> None:
        """Show the reason against running a variant."""
        self._num_left -= self._rounds
        self.emit(variant, note=reason)

    def add(self, variant: str, run: Run, value: Any, result: RunResult) -> None:
        """Show a measured run."""
        self.states.setdefault(variant, value)
        self._num_left -= 1
        difference = result.work.difference(self._base.work)
        if difference:
            self._notes.setdefault(variant, difference)
        self.emit(variant, run.id, difference)

    def emit(self, variant: str, run: str = "", note: str = "") -> None:
        """Show a variant, with a measured run or a note."""
        self.log.emit(VariantRan(self.name, variant, run, note, self._num_left))
        self.loaded.emitter.flush()

    def _cached_prefixes(self, run: Run, after: int) -> list[Sequence[int]]:
        """Return the cached prefixes of a run's prompts, without prefixes of other results. `after`
        is the last record before the run."""
        engine = self.loaded.engine
        prompts = {
            tuple(record.event.prompt)
            for record in self.log.read(after).records
            if isinstance(record.event, RequestQueued) and record.event.run == run.id
        }
        prefixes = sorted({prompt[: engine.cached_length(prompt)] for prompt in prompts})
        following = itertools.zip_longest(prefixes, prefixes[1:], fillvalue=())
        return [prefix for prefix, after in following if prefix and after[: len(prefix)] != prefix]

    def _num_cached(self) -> int:
        """Return the number of tokens in the initial cache content."""
        pairs = zip([(), *self.prefixes], self.prefixes, strict=False)
        return sum(len(prefix) - common_length(prefix, previous) for previous, prefix in pairs)

    def _lines(self, measured: Measurements) -> tuple[str, ...]:
        """Return the display text: method, then a finding per variant."""
        runs = f"median of {self._rounds} runs" if self._rounds > 1 else "one run"
        cache = "each began with an empty cache"
        if self.prefixes:
            cache = "each began with the prefixes of its prompts from the notebook's cache"
            cache += f", {self._num_cached():,} tokens"
        method = f"{runs} of each, in turns, after one unmeasured; {cache}"
        head = "; ".join([method, *sorted(measured.disturbances)])
        return head, *map(self._line, findings(measured)[1:])

    def _line(self, finding: Finding) -> str:
        if finding.note:
            return f"{finding.variant}: not run, {finding.note}"
        note = self._notes.get(finding.variant)
        return f"{finding.sentence()}; {f'the text differs: {note}' if note else 'the same text'}"


def compare(
    loaded: LoadedEngine,
    work: Work,
    variants: Sequence[str],
    rounds: int = ROUNDS,
    timeout: float | None = None,
    display: Display | None = None,
) -> CompareReport:
    """Run a comparison and keep the records for views.

    Args:
        loaded: Engine of the comparison.
        work: Starts the program on an executor.
        variants: Names of ablations.
        rounds: Measured runs per variant.
        timeout: Time limit per run in seconds, or None.
        display: Live view during the comparison, on the main thread, or None.
    """
    rounds = read_option("rounds", rounds, "an integer of 1 or more", integer(1))
    emitter = loaded.emitter
    shown = display.feed if display is not None else None
    feed = shown or emitter.feed()

    def begin(run: Run) -> None:
        if display is not None:
            run.meanwhile = display.tick

    measurement = ComparisonRun(loaded, work, timeout, begin)
    try:
        if display is not None:
            display.open(compared=measurement.state.comparison)
        measurement.run(variants, rounds)
    finally:
        if display is not None:
            display.close()
        emitter.detach(feed)
    return CompareReport(measurement.state.comparison, measurement.states, feed)
