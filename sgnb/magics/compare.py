"""Comparison of a program with ablations: `%%sglang --vs`, `sgnb.compare`.

All runs use one engine, in turns. Each run has a private cache namespace, filled with the prompt
prefixes from the notebook's cache. The notebook's cache stays unchanged, and no run helps another.

Warm-up runs trigger compilation. Few runs serve inspection in views; `bench.py` is for many runs
with statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..benchmark.variants import apart
from ..errors import OptionError
from ..events import ComparisonDone, RequestQueued, VariantRan
from ..lang import Run
from ..lang.executor import Executor
from ..viz import AS_IS, Comparison, Display, Feed, LogState, Trace
from ..viz.state.branch import common_length
from ..viz.static.plain_text import compare_text
from .engines import Loaded
from .runs import first_run
from .table import Printed, Table, html_lines

ROUNDS = 3
"""Measured runs per variant."""

_numbers = itertools.count(1)

Work = Callable[[Executor], Any]
"""Callback to start the program on an executor. Returns a state or a list of states."""


class CompareReport(Printed):
    """Report of a comparison.

    Attributes:
        rows: Seconds and counters per variant; see `table()`.
        lines: Display text: method, then findings.
        states: Per variant the result of the first measured run.
        trace: Views of the comparison, without an engine.
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
        self.trace = Trace(feed.lines)
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
        return self.trace._repr_mimebundle_()


class Measurement:
    """A comparison on one engine.

    Args:
        loaded: Engine of the comparison.
        work: Starts the program on an executor.
        timeout: Time limit per run in seconds, or None.
        begun: Called with each run at the start.
    """

    def __init__(
        self,
        loaded: Loaded,
        work: Work,
        timeout: float | None = None,
        begun: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self.state = LogState()
        self.states: dict[str, Any] = {}
        self.name = f"comparison {next(_numbers)}"
        self._loaded, self._work, self._log = loaded, work, loaded.executor.log
        self._timeout, self._begun = timeout, begun
        self._first = ""  # first measured run of the unmodified program
        self._left = 0  # remaining measured runs
        self._held: list[Sequence[int]] = []  # initial cache content of each run
        self._cascade_steps = 0  # cascade steps of the first measured run
        self._beside: set[str] = set()  # descriptions of concurrent activity

    def run(self, variants: Sequence[str], rounds: int = ROUNDS) -> None:
        """Run the program unmodified and in each variant. Findings go to the engine's log and to
        `state`.

        Args:
            variants: Names of ablations.
            rounds: Measured runs per variant.
        """
        emitter, start = self._loaded.emitter, self._log.last
        emitter.follow(self.state, start)
        lines: tuple[str, ...] = ("stopped before the end",)
        self._left = rounds * (1 + len(variants))
        try:
            self._tell(AS_IS, "", "")
            self._held = self._in_cache(self._once(AS_IS), start)
            self._measure(AS_IS)
            self._measure_others(variants, rounds)
            runs = "one run" if rounds == 1 else f"median of {rounds} runs"
            how = f"{runs} of each, in turns, after one unmeasured; {self._cache()}"
            lines = "; ".join([how, *sorted(self._beside)]), *self.state.comparison.findings()
        finally:
            self._log.emit(ComparisonDone(self.name, lines))
            emitter.flush()
            emitter.unfollow(self.state)

    def _measure_others(self, variants: Sequence[str], rounds: int) -> None:
        """Measure everything after the first measured run."""
        refused = dict(self._cannot_differ(variants))
        ran = [variant for variant in variants if variant not in refused]
        for variant in ran:
            self._once(variant)
        self._left = rounds * (1 + len(ran)) - 1
        for variant in variants:
            if variant in refused:
                self._tell(variant, "", refused[variant])
            else:
                self._measure(variant)
        for turn in range(1, rounds):
            for variant in [AS_IS, *ran][:: -1 if turn % 2 else 1]:
                self._measure(variant)

    def _measure(self, variant: str) -> None:
        stats_before = self._loaded.engine.stats()
        run = self._once(variant)
        after = self._loaded.engine.stats()
        if not self.states:
            self._cascade_steps = after["cascade_steps"] - stats_before["cascade_steps"]
        if stats_before["running"] or stats_before["waiting"]:
            self._beside.add("other requests ran beside it")
        if stats_before["compiling"]:
            self._beside.add("kernels were being compiled meanwhile")
        if after["cached"] < stats_before["cached"]:
            self._beside.add("for want of memory the notebook's cache lost some of what it held")
        self.states.setdefault(variant, self._value)
        self._first = self._first or run.id
        self._loaded.emitter.flush()
        self._left = max(0, self._left - 1)
        self._tell(variant, run.id, self.state.comparison.difference(run.id, self._first))

    def _tell(self, variant: str, run: str, note: str) -> None:
        self._log.emit(VariantRan(self.name, variant, run, note, self._left))
        self._loaded.emitter.flush()

    def _once(self, variant: str) -> Run:
        """Run the program in a temporary cache namespace."""
        engine = self._loaded.engine
        namespace = f"{self.name}, {variant}"
        executor = self._loaded.executor.apart(apart(variant, namespace))
        runs: list[Run] = []

        def begun(run: Run) -> None:
            runs.append(run)
            self._begun(run)

        try:
            if self._held and variant != "nocache":
                executor.fill_cache(self._held)
            with first_run(begun, self._timeout):
                self._value = self._work(executor)
                for run in runs:
                    run.join()
        except BaseException as error:
            for run in runs:
                run.finish(error)
            raise
        finally:
            engine.flush_cache(namespace)
        if not runs:
            raise OptionError("the program ran nothing", "give it arguments, or rows")
        return runs[0]

    def _in_cache(self, run: Run, after: int) -> list[Sequence[int]]:
        """Return the cached prefixes of a run's prompts, without prefixes of other results. `after`
        is the last record before the run."""
        engine = self._loaded.engine
        prompts = {
            tuple(record.event.prompt)
            for record in self._log.read(after).records
            if isinstance(record.event, RequestQueued) and record.event.run == run.id
        }
        prefixes = sorted({prompt[: engine.cached_length(prompt)] for prompt in prompts})
        following = itertools.zip_longest(prefixes, prefixes[1:], fillvalue=())
        return [prefix for prefix, after in following if prefix and after[: len(prefix)] != prefix]

    def _cache(self) -> str:
        """Describe the initial cache content."""
        if not self._held:
            return "each began with an empty cache"
        pairs = zip([(), *self._held], self._held, strict=False)
        tokens = sum(len(prefix) - common_length(prefix, previous) for previous, prefix in pairs)
        return f"each began with what the notebook's cache held of the prompts, {tokens:,} tokens"

    def _cannot_differ(self, variants: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield variants without a technique used by the program, each with an explanation."""
        run = self.state.comparison.variants[AS_IS].runs[0]
        unused: dict[str, tuple[int, str]] = {
            "nocache": (run.figures.cached_tokens, "nothing of its prompts was found in the cache"),
            "nojump": (run.figures.jumped_tokens, "no token of it was forced by a grammar"),
            "nofork": (self._cascade_steps, "none of its steps read a prefix once for several"),
        }
        for variant in variants:
            used, why = unused[variant]
            if not used:
                yield variant, f"it cannot differ: {why}"


def compare(
    loaded: Loaded,
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
    if rounds < 1:
        raise OptionError(f"rounds={rounds} is not allowed", "give 1 or more")
    emitter = loaded.emitter
    shown = display.feed if display is not None else None
    feed = shown or emitter.feed()

    def begun(run: Run) -> None:
        if display is not None:
            run.meanwhile = display.tick

    measurement = Measurement(loaded, work, timeout, begun)
    try:
        if display is not None:
            display.open(compared=measurement.state.comparison)
        measurement.run(variants, rounds)
    finally:
        if display is not None:
            display.close()
        emitter.detach(feed)
    return CompareReport(measurement.state.comparison, measurement.states, feed)
