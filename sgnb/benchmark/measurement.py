"""Paired measurement of a workload: the unmodified program and all opponents in turns, round by
round.

Each opponent is a `Side` with a method to run the whole workload. A warm-up run per side triggers
compilation and refuses sides without an effect, sides with errors and sides with different work.
Knows no statistics.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ..errors import OptionError, printable
from ..lang import ProgramState
from ..lang.executor import Executor
from ..viz import AS_IS
from .stats import in_turn
from .variants import ABLATIONS, TechniqueUsage, overrides_for, switched, was_overtaken
from .work import RecordingExecutor, Work
from .workload import Workload

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

ROUNDS = 16
"""Measured runs per side: enough to detect a difference of 10 % if paired ratios vary by about 5 %.
"""

COUNTS = (
    "prompt_tokens", "cached_tokens", "computed_tokens", "jumped_tokens", "steps", "cascade_steps",
)  # fmt: skip

_numbers = itertools.count(1)

Clock = Literal["wall", "cpu"]
"""Wall time, or processor time of this process. Processor time has less noise on a shared machine.
"""

Tell = Callable[[str], None]
"""Callback for a line of progress, called between runs and never during a run."""

Start = Callable[[Executor], Sequence[ProgramState]]
"""Callback to run the program on an executor. Returns the states of all rows."""


@dataclass
class RunResult:
    """Result of one run of the workload."""

    seconds: float
    work: Work = field(default_factory=Work)
    wall_seconds: float = 0.0  # for any clock
    # differences of engine counters in this run
    counts: dict[str, int] = field(default_factory=dict)
    disturbances: set[str] = field(default_factory=set)  # descriptions of concurrent activity


class Side(Protocol):
    """A method to run the workload."""

    repeatable: bool  # a seed reproduces the samples of the unmodified program

    @property
    def title(self) -> str:
        """Return a description such as "without the prefix cache" or "by transformers 5.23"."""

    def refuses(self, base: RunResult) -> str:
        """Return the reason against running the side, or "".

        Args:
            base: Warm-up run of the unmodified program.
        """

    def run(self) -> RunResult: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class TimedRun:
    """One measured run."""

    round: int
    place: int  # position within the round
    variant: str
    seconds: float
    counts: Mapping[str, int]


@dataclass
class Measurements:
    """Samples of a benchmark. Only complete rounds count."""

    workload: Workload
    rounds: int  # planned number
    # description per side; the unmodified program is first
    titles: dict[str, str] = field(default_factory=dict)
    samples: list[TimedRun] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # reason per refused side
    disturbances: set[str] = field(default_factory=set)
    tokens: int = 0  # tokens generated per run
    rows: int = 0
    seeds: tuple[int, ...] = ()  # seeds of sampled calls
    clock: Clock = "wall"

    @property
    def done(self) -> int:
        """Return the number of complete rounds."""
        sides = len(self.titles) - len(self.refused)
        return len(self.samples) // sides if sides else 0

    def refuse(self, variant: str, reason: str) -> None:
        """Exclude a variant and discard the samples.

        Args:
            variant: Name of the side.
            reason: Reason for the report.
        """
        self.refused[variant] = reason
        self.samples = [sample for sample in self.samples if sample.variant != variant]

    def seconds(self, variant: str) -> list[float]:
        """Return the seconds of a `variant` by round."""
        samples = [s for s in self.samples if s.variant == variant and s.round < self.done]
        return [sample.seconds for sample in samples]

    def count(self, variant: str, name: str) -> int | None:
        """Return the counter `name` of the last measured run of `variant`, or None."""
        counts = [s.counts.get(name) for s in self.samples if s.variant == variant]
        return counts[-1] if counts else None


class EngineSide:
    """The program on the engine: unmodified, or as an ablation from `ABLATIONS`.

    Args:
        executor: Executor of the engine.
        start: Runs the program.
        clock: Wall or processor time.
        title: Description of the side.
        variant: Name of the ablation, or "".
        prefixes: Initial content of the private cache, as token ids. The caller may change the list
            between runs.
    """

    repeatable = True

    def __init__(
        self,
        executor: LocalExecutor,
        start: Start,
        clock: Clock,
        title: str = AS_IS,
        variant: str = "",
        prefixes: Sequence[Sequence[int]] = (),
    ) -> None:
        self.title, self._variant = title, variant
        self._start, self._clock, self._prefixes = start, clock, prefixes
        self._executor, self._engine = executor, executor.engine

    def refuses(self, base: RunResult) -> str:
        if self._variant not in ABLATIONS:
            return ""
        usage = TechniqueUsage(self._engine, base.counts, base.work, base.counts["overtaken"] > 0)
        unused = ABLATIONS[self._variant].unused(usage)
        return f"cannot differ: {unused}" if unused else ""

    def run(self) -> RunResult:
        engine, log = self._engine, self._engine.log
        namespace = f"benchmark {next(_numbers)}"
        executor = self._executor.with_overrides(overrides_for(self._variant, namespace))
        recorder = RecordingExecutor(executor, as_text=self._variant == "text")
        with switched(engine, self._variant):
            stats, last = engine.stats(), log.last
            try:
                if self._prefixes and self._variant != "nocache":
                    executor.fill_cache(self._prefixes)
                result = timed(self._start, recorder, self._clock)
                after = engine.stats()
            finally:
                engine.flush_cache(namespace)

        result.counts = {name: after[name] - stats[name] for name in COUNTS}
        result.counts["overtaken"] = was_overtaken(engine, last)
        if stats["running"] or stats["waiting"]:
            result.disturbances.add("other requests ran at the same time")
        if stats["compiling"]:
            result.disturbances.add("kernels were compiled at the same time")
        if after["cached"] < stats["cached"]:
            result.disturbances.add("the notebook's cache lost tokens because memory was full")
        return result

    def close(self) -> None:
        pass


def timed(start: Start, recorder: RecordingExecutor, clock: Clock) -> RunResult:
    """Run the program, and record the text of each row.

    Args:
        start: Runs the program.
        recorder: Executor for the run.
        clock: Wall or processor time.
    """
    wall, processor = time.perf_counter(), time.process_time()
    states = start(recorder)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    recorder.work.rows = [state.text() for state in states]
    return RunResult(wall if clock == "wall" else processor, recorder.work, wall)


def measure(
    sides: Mapping[str, Side],
    measured: Measurements,
    tell: Tell = lambda line: None,
    strict: bool = True,
) -> None:
    """Run each side once as a warm-up and then in `measured.rounds` turns. An interrupt keeps the
    complete rounds.

    Args:
        sides: Sides by name; the unmodified program is first.
        measured: Receives samples and refusals.
        tell: Shows a line of progress.
        strict: Require a repeatable program, exclude sides that fail or do different work, and end
            when all opponents are excluded. Otherwise an error ends the measurement.
    """
    base, expected = _warm_up(sides, measured, tell, strict)
    for turn in range(measured.rounds):
        names = [name for name in sides if name not in measured.refused]
        if strict and len(names) == 1:
            return
        for place, name in enumerate(in_turn(names, turn)):
            turns = measured.rounds - turn - place / len(names)
            remaining = sum(expected[each] for each in names) * turns
            tell(f"round {turn + 1} of {measured.rounds}: {name}; about {remaining:.0f} s left")
            result, reason = _try(sides[name], measured.workload, base, strict)
            if result is None:
                measured.refuse(name, f"in round {turn + 1}, {reason}")
                continue
            expected[name] = result.wall_seconds
            measured.disturbances |= result.disturbances
            measured.samples.append(TimedRun(turn, place, name, result.seconds, result.counts))


_CURE = (
    "give the program the same rows, seeds and temperatures in every run; in half precision the "
    'rounding of logits depends on the batch: load with dtype="float32", on a GPU with '
    'deterministic=True, or compare with same="tokens"'
)


def _warm_up(
    sides: Mapping[str, Side], measured: Measurements, tell: Tell, strict: bool
) -> tuple[RunResult, dict[str, float]]:
    """Run each side once, and refuse sides with different work. Raise if a repeated run of the
    unmodified program also differs. Return the baseline run and the seconds per side."""
    (first, as_is), *others = sides.items()
    tell(f"warming up: {first}")
    base = as_is.run()
    if strict:
        check_repeatable(base.work, measured.workload.name)
    measured.titles[first] = as_is.title
    measured.tokens, measured.rows = base.work.tokens, len(base.work.rows)
    seeds = {call.params.seed for call in base.work.generations if call.params.temperature}
    measured.seeds = tuple(sorted(seed for seed in seeds if seed is not None))

    expected, is_suspect = {first: base.wall_seconds}, False
    for name, side in others:
        tell(f"warming up: {name}")
        reason, result = side.refuses(base), None
        if not reason:
            result, reason = _try(side, measured.workload, base, strict)
            is_suspect = is_suspect or result is None
        measured.titles[name] = side.title
        if result is None:
            measured.refuse(name, reason)
        else:
            expected[name] = result.wall_seconds

    if is_suspect:
        tell(f"warming up: {first}")
        _try(as_is, measured.workload, base, strict)
    return base, expected


def _try(
    side: Side, workload: Workload, base: RunResult, strict: bool
) -> tuple[RunResult | None, str]:
    """Run a side once. Return None and the reason for a failure or different work; raise both for
    the unmodified program."""
    try:
        result = side.run()
    except Exception as error:
        if side.title == AS_IS or not strict:
            raise
        return None, printable(f"failed: {type(error).__name__}: {error}".partition("\n")[0])
    if not strict:
        return result, ""
    difference = result.work.difference(base.work, workload.same, side.repeatable)
    if difference and side.title == AS_IS:
        raise OptionError(f"{workload.name} does different work in each run: {difference}", _CURE)
    return (None, f"different work: {difference}") if difference else (result, "")


def check_repeatable(work: Work, name: str) -> None:
    """Check that a run can be repeated.

    Args:
        work: Calls of the run.
        name: Name of the workload for messages.

    Raises:
        OptionError: The run made no calls, or sampled without a seed.
    """
    if not work.calls:
        raise OptionError(f"{name} ran nothing", "give at least one row")
    for call in work.generations:
        if call.params.temperature and call.params.seed is None:
            message = f"{call.name or 'gen'} of {name} is sampled without a seed"
            hint = "runs would do different work: give seed=..., or temperature=0"
            raise OptionError(f"{message} (temperature={call.params.temperature:g})", hint)
