"""Measures a workload: the program as it is and its opponents in turns, round by round.

Each opponent is a `Side`: it runs the whole work once and says what it did. Before anything is
measured each ran once: what is compiled is compiled then, and what cannot differ, cannot do the
work, or does another, is said and not measured.
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
"""Measured runs of each side: enough to find 10 % where paired ratios differ by some 5 %."""

COUNTS = (
    "prompt_tokens", "cached_tokens", "computed_tokens", "jumped_tokens", "steps", "cascade_steps",
)  # fmt: skip

_numbers = itertools.count(1)

Clock = Literal["wall", "cpu"]
"""The clock on the wall, or the processor time of this process: on a machine that others use too,
that has less noise."""

Tell = Callable[[str], None]
"""Shows a line of progress; it is called between runs, never during one."""


@dataclass
class Ran:
    """One run of all the work."""

    seconds: float
    work: Work = field(default_factory=Work)
    took: float = 0.0  # seconds on the wall, whatever the clock is
    counts: dict[str, int] = field(default_factory=dict)  # of the engine, in this run
    beside: str = ""  # what else went on


class Side(Protocol):
    """One way to do the work."""

    repeatable: bool  # a seed gives the draws that the program as it is makes

    @property
    def what(self) -> str:
        """For people: "without the prefix cache", "by transformers 5.23"."""

    def refuses(self, base: Ran) -> str:
        """Why it is not run, by what the program as it is did; "" if it can be."""

    def run(self) -> Ran: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Sample:
    """One measured run."""

    round: int
    place: int  # in its round
    variant: str
    seconds: float
    counts: Mapping[str, int]


@dataclass
class Measured:
    """What was measured: complete rounds alone count."""

    workload: Workload
    rounds: int  # that were to be
    what: dict[str, str] = field(default_factory=dict)  # of each side, the program as it is first
    samples: list[Sample] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # why a side is not compared
    beside: set[str] = field(default_factory=set)
    tokens: int = 0  # made in one run
    rows: int = 0
    seeds: tuple[int, ...] = ()  # of sampled calls
    clock: Clock = "wall"

    @property
    def done(self) -> int:
        """Complete rounds."""
        sides = len(self.what) - len(self.refused)
        return len(self.samples) // sides if sides else 0

    def refuse(self, variant: str, why: str) -> None:
        """It is not compared, and what was measured of it does not count."""
        self.refused[variant] = why
        self.samples = [sample for sample in self.samples if sample.variant != variant]

    def seconds(self, variant: str) -> list[float]:
        """By round."""
        found = [s for s in self.samples if s.variant == variant and s.round < self.done]
        return [sample.seconds for sample in found]

    def count(self, variant: str, name: str) -> int | None:
        """Of the last measured run."""
        found = [s.counts.get(name) for s in self.samples if s.variant == variant]
        return found[-1] if found else None


class Ours:
    """A program on the engine: as it is, or as one of `ABLATIONS`."""

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
        seen = Seen(self._engine, base.counts, base.work, base.counts["overtaken"] > 0)
        unused = ABLATIONS[self._variant].unused(seen)
        return f"it cannot differ: {unused}" if unused else ""

    def run(self) -> Ran:
        engine, log = self._engine, self._engine.log
        namespace = f"benchmark {next(_numbers)}"
        executor = self._executor.apart(apart(self._variant, namespace))
        noted = Noted(executor, as_text=self._variant == "text")
        with switched(engine, self._variant):
            before, last = engine.stats(), log.last
            try:
                ran = timed(self._workload, noted, self._clock)
                after = engine.stats()
            finally:
                engine.flush_cache(namespace)
        counts = {name: after[name] - before[name] for name in COUNTS}
        counts["overtaken"] = was_overtaken(engine, last)
        if before["running"] or before["waiting"]:
            ran.beside = "other requests ran beside it"
        elif before["compiling"]:
            ran.beside = "kernels were being compiled meanwhile"
        ran.counts = counts
        return ran

    def close(self) -> None:
        pass


def timed(workload: Workload, noted: Noted, clock: Clock) -> Ran:
    """Run all rows, and wait for the last. The text of each row is put into the work."""
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
    """Run each side once unmeasured and then `rounds` times in turns, into `measured`. The first of
    `sides` is the program as it is. An interrupt leaves the complete rounds."""
    base, expected = _warm_up(workload, sides, measured, tell)
    for turn in range(rounds):
        ran = [name for name in sides if name not in measured.refused]
        if len(ran) == 1:
            return
        for place, name in enumerate(in_turn(ran, turn)):
            left = sum(expected[each] for each in ran) * (rounds - turn - place / len(ran))
            tell(f"round {turn + 1} of {rounds}: {name}; about {left:.0f} s left")
            one, why = _try(workload, sides[name], base)
            if one is None:
                measured.refuse(name, f"in round {turn + 1} {why}")
                continue
            expected[name] = one.took
            measured.beside |= {one.beside} - {""}
            measured.samples.append(Sample(turn, place, name, one.seconds, one.counts))


_CURE = (
    "give the program the same rows, seeds and temperatures in every run; in half precision logits "
    'are rounded otherwise beside other requests: load with dtype="float32", on a GPU with '
    'deterministic=True, or compare with same="tokens"'
)


def _warm_up(
    workload: Workload, sides: Mapping[str, Side], measured: Measured, tell: Tell
) -> tuple[Ran, dict[str, float]]:
    """One unmeasured run of each; what is not the same work is refused, unless the program as it
    is does other work too when it runs again. Its first run, and the seconds of all."""
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
    """One run; None, and why, where it fails or is not the work of `base`. Of the program as it is
    both are raised."""
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
    """OptionError for samples without a seed."""
    if not work.calls:
        raise OptionError(f"{name} ran nothing", "give it rows")
    for call in work.generations:
        if call.params.temperature and call.params.seed is None:
            what = f"{call.name or 'gen'} of {name} is sampled, and without a seed"
            hint = "runs would do different work: give seed=..., or temperature=0"
            raise OptionError(f"{what} (temperature={call.params.temperature:g})", hint)
