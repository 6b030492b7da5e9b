"""What paired times say: the interval's level and power under simulated noise, turns, sentences."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from sgnb.benchmark import ROUNDS, Measurements, Workload
from sgnb.benchmark.findings import Finding, duration, findings, summary, table
from sgnb.benchmark.measurement import RunResult, measure
from sgnb.benchmark.stats import (
    LEVEL,
    in_turn,
    median_interval,
    median_ratio,
    paired_ratios,
    rounds_needed,
)
from sgnb.benchmark.work import CallResult, Work
from sgnb.errors import OptionError
from sgnb.lang.executor import Call
from sgnb.sampling import SamplingParams
from sgnb.viz import AS_IS

GREEDY = SamplingParams(temperature=0)


def noise(rng: random.Random) -> Callable[[], float]:
    """Factors of a machine that drifts, and now and then does something else: the tail is that of a
    Pareto distribution without a variance."""
    drift = 0.0

    def factor() -> float:
        nonlocal drift
        drift = 0.98 * drift + rng.gauss(0, 0.01)
        spike = 0.05 * rng.paretovariate(1.2) if rng.random() < 0.08 else 0.0
        return math.exp(drift + rng.gauss(0, 0.02)) * (1 + spike)

    return factor


class Simulated:
    """A side that takes so long, on a fake clock."""

    repeatable = True

    def __init__(self, what: str, seconds: Callable[[], float], text: str = "yes") -> None:
        self.title, self._seconds = what, seconds
        self.text: Callable[[], str] = lambda: text

    def refuses(self, base: RunResult) -> str:
        return ""

    def run(self) -> RunResult:
        call, text = Call("Is it?", GREEDY, "run1", "0", "answer"), self.text()
        work = Work([call], {"0": [CallResult("answer", (text,), 1, True)]}, [f"Is it?{text}"])
        seconds = self._seconds()
        return RunResult(seconds, work, seconds)

    def close(self) -> None:
        pass


def simulate(rng: random.Random, rounds: int = ROUNDS, **factors: float) -> list[Finding]:
    """The findings of a benchmark whose sides take so many times as long as the first."""
    noisy = noise(rng)
    sides = {AS_IS: Simulated(AS_IS, noisy)}
    for name, factor in factors.items():
        sides[name] = Simulated(name, lambda factor=factor: factor * noisy())
    measured = Measurements(Workload("simulated", None), rounds)
    measure(sides, measured)
    return findings(measured)


@pytest.mark.parametrize("seed", range(5))
def test_itself_is_no_different_and_ten_percent_are_found(seed: int) -> None:
    """In 19 of 20 benchmarks and more, five times."""
    rng = random.Random(seed)
    found = [simulate(rng, itself=1.0, slowed=1.1)[1:] for _ in range(20)]
    itself, slowed = zip(*found, strict=True)
    assert sum(one.interval.low <= 1 <= one.interval.high for one in itself) >= 19
    assert sum(one.verdict == "slower" for one in slowed) >= 19
    assert all(one.verdict != "faster" for one in slowed)


def test_the_interval_holds_its_level_where_a_bootstraps_would_not() -> None:
    """Few values of a lopsided distribution, whose median is 1: the share of intervals with it."""
    rng = random.Random(1)
    drawn = [[rng.expovariate(math.log(2)) for _ in range(9)] for _ in range(2000)]
    intervals = [median_interval(values) for values in drawn]
    held = sum(one.low <= 1 <= one.high for one in intervals) / len(intervals)
    assert intervals[0].level == 1 - 2 / 2**9
    assert held == pytest.approx(intervals[0].level, abs=0.004)


@pytest.mark.parametrize(
    "count, place, level",
    [(1, 0, 0.0), (5, 0, 1 - 2 / 2**5), (8, 0, 1 - 2 / 2**8), (12, 1, 1 - 2 * 13 / 2**12)],
)
def test_the_interval_is_the_narrowest_of_its_level(count: int, place: int, level: float) -> None:
    values = list(range(count))
    assert median_interval(values[::-1]) == (place, count - 1 - place, level)


def test_too_few_rounds_are_said() -> None:
    assert rounds_needed() == 8 and rounds_needed(0.5) == 2
    (_, slowed) = simulate(random.Random(0), rounds=7, slowed=2.0)
    assert slowed.verdict == "too few rounds" and slowed.interval.level < LEVEL
    assert slowed.sentence().endswith("in too few rounds to be sure")
    assert simulate(random.Random(0), rounds=8, slowed=2.0)[1].verdict == "slower"


def test_each_comes_first_as_often_as_the_other() -> None:
    names = ["a", "b", "c"]
    turns = [in_turn(names, turn) for turn in range(12)]
    assert all(sorted(turn) == names for turn in turns)
    for one, other in itertools.permutations(names, 2):
        assert sum(turn.index(one) < turn.index(other) for turn in turns) == 6
    for name in names:
        assert sum(turn[0] == name for turn in turns) == 4


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7])
def test_each_follows_each_other_as_often(size: int) -> None:
    """What a run leaves behind, a warm cache of the processor, goes to all alike."""
    names = [str(i) for i in range(size)]
    rounds = size * (1 + size % 2)
    turns = [in_turn(names, turn) for turn in range(rounds)]
    followed = Counter(pair for turn in turns for pair in itertools.pairwise(turn))
    assert set(followed.values()) == {rounds // size} and len(followed) == size * (size - 1)
    for one, other in itertools.permutations(names, 2):
        assert sum(turn.index(one) < turn.index(other) for turn in turns) == rounds / 2


def test_a_drift_of_the_machine_cancels_out() -> None:
    """It takes twice as long at the end as in the beginning."""
    now = itertools.count(20)
    sides = {name: Simulated(name, lambda: next(now) / 20) for name in (AS_IS, "itself")}
    measured = Measurements(Workload("drifting", None), 12)
    measure(sides, measured)
    one = findings(measured)[1]
    assert one.verdict == "no difference" and abs(one.ratio - 1) < 0.03
    assert one.seconds[-1] > 1.5 * one.seconds[0]


def test_a_duration_has_no_exponent() -> None:
    assert [duration(s) for s in (0.0123, 0.9994, 0.9996, 12.3)] == [
        "12.3 ms", "999 ms", "1.00 s", "12.30 s",
    ]  # fmt: skip


def test_ratios_are_paired() -> None:
    assert paired_ratios([2, 6, 40], [1, 2, 10]) == [2, 3, 4]
    assert median_ratio([2, 6, 40], [1, 2, 10]) == 3


def test_other_work_is_refused_where_it_differs() -> None:
    sides = {AS_IS: Simulated(AS_IS, lambda: 1.0), "other": Simulated("other", lambda: 1.0, "yet")}
    measured = Measurements(Workload("simulated", None), 3)
    measure(sides, measured)
    why = "different work: branch 0, answer, character 2: 't' instead of 's'"
    assert measured.refused == {"other": why} and measured.samples == []
    assert findings(measured)[1].sentence() == f"other: not compared, {why}"
    assert table(findings(measured))[1]["verdict"] == "not compared"


def test_other_work_each_time_is_an_error_where_all_differ() -> None:
    sides = {name: Simulated(name, lambda: 1.0) for name in (AS_IS, "itself")}
    texts = map(str, itertools.count())
    for side in sides.values():
        side.text = lambda: next(texts)
    measured = Measurements(Workload("simulated", None), 3)
    with pytest.raises(OptionError, match="simulated does different work in each run"):
        measure(sides, measured)


def test_what_becomes_other_work_later_is_taken_out() -> None:
    sides = {name: Simulated(name, lambda: 1.0) for name in (AS_IS, "steady", "fickle")}
    texts = iter(["yes", "yes", "no"])
    sides["fickle"].text = lambda: next(texts)
    measured = Measurements(Workload("simulated", None), 4)
    measure(sides, measured)
    assert list(measured.refused) == ["fickle"]
    assert measured.refused["fickle"].startswith("in round 2, different work")
    assert measured.done == 4 and len(measured.seconds("steady")) == 4


def test_an_interrupt_leaves_complete_rounds() -> None:
    times = iter([1.0] * 6 + [2.0] * 5)

    def seconds() -> float:
        if (found := next(times, None)) is None:
            raise KeyboardInterrupt
        return found

    sides = {name: Simulated(name, seconds) for name in (AS_IS, "a", "b")}
    measured = Measurements(Workload("simulated", None), 9)
    with pytest.raises(KeyboardInterrupt):
        measure(sides, measured)
    assert measured.done == 2
    assert [len(measured.seconds(name)) for name in sides] == [2, 2, 2]
    assert "2 rounds of 9, then it was stopped" in summary(measured, findings(measured))[0]


def test_progress_says_the_time_that_is_left() -> None:
    told: list[str] = []
    sides = {name: Simulated(name, lambda: 30.0) for name in (AS_IS, "a")}
    measured = Measurements(Workload("simulated", None), 2)
    measure(sides, measured, told.append)
    assert told == [
        "warming up: as it is",
        "warming up: a",
        "round 1 of 2: as it is; about 120 s left",
        "round 1 of 2: a; about 90 s left",
        "round 2 of 2: a; about 60 s left",
        "round 2 of 2: as it is; about 30 s left",
    ]


@pytest.mark.parametrize(
    "factor, verdict, said",
    [(2.0, "slower", "seen here"), (0.5, "faster", "the opposite was seen here"),
     (1.0, "no difference", "not seen here")],
)  # fmt: skip
def test_what_is_claimed_is_checked(factor: float, verdict: str, said: str) -> None:
    sides = {
        AS_IS: Simulated(AS_IS, lambda: 1.0),
        "nocache": Simulated("without it", lambda: factor),
    }
    workload = Workload("simulated", None, claims={"nocache": "it pays"})
    measured = Measurements(workload, 8)
    measure(sides, measured)
    found = findings(measured)
    assert found[1].verdict == verdict
    assert summary(measured, found)[-1] == f"Claim: it pays: {said}"
