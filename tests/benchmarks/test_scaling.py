"""The number of workers in virtual time: bounds, ends of all calls, no flapping."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.routing import scaling
from benchmarks.routing.scaling import START_SECONDS, ScaledSimulation
from benchmarks.routing.simulator import PREFILL_RATE
from benchmarks.routing.traces import Calls, SimulatedCall
from sgnb.backends.fleet.scaling import IDLE_SECONDS

TOKENS = 38_400
"""Tokens of a call: one second of a worker."""


def steady(rate: float, seconds: float, seed: int = 0, begin: float = 0.0) -> Calls:
    """Return calls without common prefixes, `rate` per second."""
    rng, now, calls = random.Random(seed), begin, Calls()
    while (now := now + rng.expovariate(rate)) < begin + seconds:
        calls.append(SimulatedCall(now, (), TOKENS, rng.randrange(1, 60)))
    return calls


def actions(simulation: ScaledSimulation) -> Counter[str]:
    return Counter(change.action for _, change in simulation.changes)


def test_a_steady_load_gets_workers_once() -> None:
    assert TOKENS == PREFILL_RATE
    simulation = ScaledSimulation(1, 6)
    simulation.run(steady(2.5, 900))
    during = Counter(c.action for time, c in simulation.changes if 300 < time < 890)
    assert during["start"] + during["drain"] <= 2, "flapping"
    loaded = actions(simulation)
    assert 2 <= loaded["start"] <= 5
    assert loaded["start"] == loaded["stop"], "idle workers end after the last call"
    _, first = simulation.changes[0]
    assert first.action == "start"
    assert "an expected wait of" in first.reason


def test_a_light_load_starts_nothing() -> None:
    simulation = ScaledSimulation(2, 6)
    simulation.run(steady(0.8, 400))
    assert simulation.changes == []


def test_bursts_at_a_regular_distance_do_not_flap() -> None:
    """The pause is a little longer than the first idle time, which doubles at each return."""
    period, bursts = IDLE_SECONDS + 70, 12
    calls = [call for n in range(bursts) for call in steady(30, 2, n, n * period)]
    simulation = ScaledSimulation(1, 2)
    simulation.run(calls)
    assert 2 <= actions(simulation)["start"] <= 4


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(0, 3),
    st.lists(st.tuples(st.floats(0.2, 6), st.integers(5, 90)), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_bounds_hold_and_all_calls_end(
    least: int, more: int, phases: list[tuple[float, int]], failing: int
) -> None:
    """The simulation asserts the bounds at each decision, and that no stopped worker has calls."""
    calls, begin = Calls(), 0.0
    for number, (rate, seconds) in enumerate(phases):
        calls += steady(rate, seconds, number, begin)
        begin += 2 * seconds
    if not calls:
        return
    outcomes = iter([False] * failing)
    simulation = ScaledSimulation(least, least + more, lambda time: next(outcomes, True))
    simulation.run(calls)
    counts = actions(simulation)
    assert counts["start"] - failing <= counts["stop"] <= counts["drain"]
    if not more:
        assert not simulation.changes


def test_failed_starts_pause_longer_each_time() -> None:
    simulation = ScaledSimulation(1, 2, lambda time: False)
    simulation.run(steady(3, 200))
    times = [time for time, change in simulation.changes if change.action == "start"]
    assert 3 <= len(times) < 12
    gaps = [later - earlier - START_SECONDS for earlier, later in itertools.pairwise(times)]
    assert gaps[0] < 3
    assert gaps[-1] > 6 * gaps[0]


@pytest.mark.slow
def test_the_bar_of_the_waves() -> None:
    assert scaling.run().met


def test_waves_repeat_the_calls() -> None:
    calls = scaling.waves(steady(1, 30))
    assert len(calls) % scaling.WAVES == 0
    assert calls[-1].time > scaling.PAUSE * (scaling.WAVES - 1)
