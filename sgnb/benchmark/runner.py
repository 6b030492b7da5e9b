"""Paired measurement of a workload: the unmodified program and all opponents in turns, round by
round.

Each opponent is a `Side` with a method to run the whole workload. A warm-up run per side triggers
compilation and refuses sides without an effect, sides with errors and sides with different work.
Knows no statistics.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ..errors import OptionError, printable
from ..viz import AS_IS
from .stats import in_turn
from .variants import ABLATIONS, Seen, apart, switched, was_overtaken
from .work import Noted, Work
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


@dataclass
class Ran:
    """Result of one run of the workload."""

    seconds: float
    work: Work = field(default_factory=Work)
    took: float = 0.0  # wall time in seconds, for any clock
    # differences of engine counters in this run
    counts: dict[str, int] = field(default_factory=dict)
    beside: str = ""  # description of concurrent activity


class Side(Protocol):
    """A method to run the workload."""

    repeatable: bool  # a seed reproduces the samples of the unmodified program

    @property
    def what(self) -> str:
        """Return a description such as "without the prefix cache" or "by transformers 5.23"."""

    def refuses(self, base: Ran) -> str:
        """Return the reason against running the side, or "".

        Args:
            base: Warm-up run of the unmodified program.
        """

    def run(self) -> Ran: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Sample:
    """One measured run."""

    round: int
    place: int  # position within the round
    variant: str
    seconds: float
    counts: Mapping[str, int]


@dataclass
class Measured:
    """Samples of a benchmark. Only complete rounds count."""

    workload: Workload
    rounds: int  # planned number
    # description per side; the unmodified program is first
    what: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # reason per refused side
    beside: set[str] = field(default_factory=set)
    tokens: int = 0  # tokens generated per run
    rows: int = 0
    seeds: tuple[int, ...] = ()  # seeds of sampled calls
    clock: Clock = "wall"

    @property
    def done(self) -> int:
        """Return the number of complete rounds."""
        sides = len(self.what) - len(self.refused)
        return len(self.samples) // sides if sides else 0

    def refuse(self, variant: str, why: str) -> None:
        """Exclude a variant and discard the samples.

        Args:
            variant: Name of the side.
            why: Reason for the report.
        """
        self.refused[variant] = why
        self.samples = [sample for sample in self.samples if sample.variant != variant]

    def seconds(self, variant: str) -> list[float]:
        """Return the seconds of a `variant` by round."""
        samples = [s for s in self.samples if s.variant == variant and s.round < self.done]
        return [sample.seconds for sample in samples]

    def count(self, variant: str, name: str) -> int | None:
        """Return the counter `name` of the last measured run of `variant`, or None."""
        counts = [s.counts.get(name) for s in self.samples if s.variant == variant]
        return counts[-1] if counts else None


class Ours:
    """The program on the engine: unmodified, or as an ablation from `ABLATIONS`."""

    repeatable = True

    def __init__(
        self,
        executor: LocalExecutor,
        workload: Workload,
        clock: Clock,
        what: str = AS_IS,
        variant: str = "",
    ) -> None:
        self.what, self._variant = what, variant
        self._workload, self._clock = workload, clock
        self._executor, self._engine = executor, executor.engine

    def refuses(self, base: Ran) -> str:
        if self._variant not in ABLATIONS:
            return ""
        usage = Seen(self._engine, base.counts, base.work, base.counts["overtaken"] > 0)
        unused = ABLATIONS[self._variant].unused(usage)
        return f"it cannot differ: {unused}" if unused else ""

    def run(self) -> Ran:
        engine, log = self._engine, self._engine.log
        namespace = f"benchmark {next(_numbers)}"
        executor = self._executor.apart(apart(self._variant, namespace))
        noted = Noted(executor, as_text=self._variant == "text")
        with switched(engine, self._variant):
            stats, last = engine.stats(), log.last
            try:
                ran = timed(self._workload, noted, self._clock)
                after = engine.stats()
            finally:
                engine.flush_cache(namespace)
        counts = {name: after[name] - stats[name] for name in COUNTS}
        counts["overtaken"] = was_overtaken(engine, last)
        if stats["running"] or stats["waiting"]:
            ran.beside = "other requests ran beside it"
        elif stats["compiling"]:
            ran.beside = "kernels were being compiled meanwhile"
        ran.counts = counts
        return ran

    def close(self) -> None:
        pass


def timed(workload: Workload, noted: Noted, clock: Clock) -> Ran:
    """Run all rows, wait for the last and record the text of each row.

    Args:
        workload: Program and rows.
        noted: Recording executor.
        clock: Wall or processor time.
    """
    began, used = time.perf_counter(), time.process_time()
    states = workload.program.run_batch(workload.rows, backend=noted, **workload.defaults)
    took, used = time.perf_counter() - began, time.process_time() - used
    for state in states:
        state.raise_error()
    noted.work.rows = [state.text() for state in states]
    return Ran(took if clock == "wall" else used, noted.work, took)


def measure(
    workload: Workload,
    sides: Mapping[str, Side],
    rounds: int,
    measured: Measured,
    tell: Tell = lambda line: None,
) -> None:
    """Run each side once as a warm-up and then `rounds` times in turns. An interrupt keeps the
    complete rounds.

    Args:
        workload: Program and rows.
        sides: Sides by name; the unmodified program is first.
        rounds: Number of measured rounds.
        measured: Receives samples and refusals.
        tell: Shows a line of progress.
    """
    base, expected = _warm_up(workload, sides, measured, tell)
    for turn in range(rounds):
        ran = [name for name in sides if name not in measured.refused]
        if len(ran) == 1:
            return
        for place, name in enumerate(in_turn(ran, turn)):
            remaining = sum(expected[each] for each in ran) * (rounds - turn - place / len(ran))
            tell(f"round {turn + 1} of {rounds}: {name}; about {remaining:.0f} s left")
            result, why = _try(workload, sides[name], base)
            if result is None:
                measured.refuse(name, f"in round {turn + 1} {why}")
                continue
            expected[name] = result.took
            measured.beside |= {result.beside} - {""}
            measured.samples.append(Sample(turn, place, name, result.seconds, result.counts))


_CURE = (
    "give the program the same rows, seeds and temperatures in every run; in half precision logits "
    'are rounded otherwise beside other requests: load with dtype="float32", on a GPU with '
    'deterministic=True, or compare with same="tokens"'
)


def _warm_up(
    workload: Workload, sides: Mapping[str, Side], measured: Measured, tell: Tell
) -> tuple[Ran, dict[str, float]]:
    """Run each side once, and refuse sides with different work. Raise if a repeated run of the
    unmodified program also differs. Return the baseline run and the seconds per side."""
    (first, as_is), *others = sides.items()
    tell(f"warming up: {first}")
    base = as_is.run()
    check_repeatable(base.work, workload.name)
    measured.what[first] = as_is.what
    measured.tokens, measured.rows = base.work.tokens, len(base.work.rows)
    seeds = {call.params.seed for call in base.work.generations if call.params.temperature}
    measured.seeds = tuple(sorted(seed for seed in seeds if seed is not None))
    expected, doubted = {first: base.took}, False
    for name, side in others:
        tell(f"warming up: {name}")
        why, ran = side.refuses(base), None
        if not why:
            ran, why = _try(workload, side, base)
            doubted = doubted or ran is None
        measured.what[name] = side.what
        if ran is None:
            measured.refuse(name, why)
        else:
            expected[name] = ran.took
    if doubted:
        tell(f"warming up: {first}")
        _try(workload, as_is, base)
    return base, expected


def _try(workload: Workload, side: Side, base: Ran) -> tuple[Ran | None, str]:
    """Run a side once. Return None and the reason for a failure or different work; raise both for
    the unmodified program."""
    try:
        ran = side.run()
    except Exception as error:
        if side.what == AS_IS:
            raise
        return None, printable(f"it failed: {type(error).__name__}: {error}".partition("\n")[0])
    differs = ran.work.difference(base.work, workload.same, side.repeatable)
    if differs and side.what == AS_IS:
        raise OptionError(f"{workload.name} is other work each time it runs: {differs}", _CURE)
    return (None, f"it was not the same work: {differs}") if differs else (ran, "")


def check_repeatable(work: Work, name: str) -> None:
    """Check that a run can be repeated.

    Args:
        work: Calls of the run.
        name: Name of the workload for messages.

    Raises:
        OptionError: The run made no calls, or sampled without a seed.
    """
    if not work.calls:
        raise OptionError(f"{name} ran nothing", "give it rows")
    for call in work.generations:
        if call.params.temperature and call.params.seed is None:
            message = f"{call.name or 'gen'} of {name} is sampled, and without a seed"
            hint = "runs would do different work: give seed=..., or temperature=0"
            raise OptionError(f"{message} (temperature={call.params.temperature:g})", hint)
