"""The routing simulator on a small trace, and its reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.routing import engines, report, traces
from benchmarks.routing.policies import LeastLoad, LongestPrefix, Ours, Thresholds
from benchmarks.routing.simulator import (
    CACHE_TOKENS,
    PREFILL_RATE,
    LruCache,
    Outcome,
    Policy,
    Simulation,
    pooled_hit_rate,
)
from benchmarks.routing.traces import BLOCK, Calls, SimulatedCall, at_load

WORKERS = 8


def simulate(policy: Policy, calls: Calls, cache: int) -> Outcome:
    return Simulation(policy, WORKERS, cache_tokens=cache).run(calls)


def check_waits(calls: Calls, cache: int) -> Outcome:
    """Check the median wait against the other policies. Returns the outcome of the router."""
    own = simulate(Ours(WORKERS), calls, cache)
    for other in (LeastLoad(WORKERS), Thresholds(WORKERS)):
        assert own.wait(50) <= 0.7 * simulate(other, calls, cache).wait(50)
    return own


def test_waits_at_low_load() -> None:
    calls = traces.conversations(count=1000)
    check_waits(at_load(calls, 0.53, WORKERS, PREFILL_RATE), 120_000)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.53, 0.87, 1.2])
def test_bars_on_the_synthetic_trace(load: float) -> None:
    """The largest load computes 0.93 of the time with a pooled cache, Mooncake's at 133 % 0.99."""
    calls = at_load(traces.conversations(), load, WORKERS, PREFILL_RATE)
    own = check_waits(calls, CACHE_TOKENS)
    if load > 1:
        assert own.hit_rate >= 0.95 * pooled_hit_rate(calls, WORKERS * CACHE_TOKENS)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "limit"), [(64, 100), (1000, 300)])
def test_decisions_are_fast(workers: int, limit: float) -> None:
    """Processor time, of the first fast run of three: the machine may be busy."""
    calls = at_load(traces.conversations(count=2000), 1.3, workers, PREFILL_RATE)
    assert any(report.decision_microseconds(calls, workers) <= limit for _ in range(3))
    assert any(report.hardest_microseconds(workers) <= limit for _ in range(3))


def test_a_hot_prefix_holds_nobody_up() -> None:
    calls = traces.hot_prefix(count=600)
    own, least = Simulation(Ours(8), 8).run(calls), Simulation(LeastLoad(8), 8).run(calls)
    assert own.wait(100) <= 2 * least.wait(100)
    longest = Simulation(LongestPrefix(8), 8).run(calls)
    assert longest.wait(100) > 2 * least.wait(100)


def test_an_adversary_starves_nobody() -> None:
    calls = [call for call in traces.adversary() if call.time < 25]
    waits = [
        Simulation(policy, 8).run(calls).wait(100, report.honest)
        for policy in (Ours(8), LeastLoad(8))
    ]
    assert waits[0] <= 0.5 * waits[1]


@pytest.mark.slow
def test_the_trace_has_the_shape_of_mooncakes() -> None:
    lengths = sorted(call.tokens for call in traces.conversations())
    assert sum(lengths) / len(lengths) == pytest.approx(12_035, rel=0.1)
    assert lengths[len(lengths) // 2] == pytest.approx(6_909, rel=0.1)
    assert pooled_hit_rate(traces.conversations(), 10**9) == pytest.approx(0.374, abs=0.04)


@pytest.mark.parametrize("generate", [traces.chat, traces.agents, traces.trees])
def test_prompts_are_consistent(generate: Callable[..., Calls]) -> None:
    """A block number stands at one place behind one block."""
    before: dict[int, tuple[int, ...]] = {}
    for call in generate(count=30):
        assert len(call.keys) == call.tokens // BLOCK
        for place, key in enumerate(call.keys):
            assert (
                before.setdefault(key, call.keys[max(place - 1, 0) : place])
                == (call.keys[max(place - 1, 0) : place])
            )


def test_mooncakes_format_is_read(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 2000, "input_length": 1500, "output_length": 7, "hash_ids": [4, 5, 6]},
        {"timestamp": 1000, "input_length": 1024, "output_length": 8, "hash_ids": [4, 9]},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    first, second = traces.read_mooncake(path)
    assert first == SimulatedCall(1.0, (4, 9), 1024, 8)
    assert second == SimulatedCall(2.0, (4, 5), 1500, 7)
    loaded = at_load([first, second], 0.5, 2, 1000.0)
    assert [call.time for call in loaded] == [0, pytest.approx(2.524)]
    assert traces.split_blocks([second], 2)[0].keys == (8, 9, 10, 11)
    many = traces.copies([first, second], 2)
    assert [call.keys for call in many] == [(4, 9), (14, 19), (4, 5), (14, 15)]


def test_the_cache_evicts_the_end_of_the_oldest_prompt() -> None:
    cache = LruCache(4)
    assert cache.insert((1, 2, 3)) == []
    assert cache.insert((1, 4)) == []
    assert cache.insert((1, 5)) == [3]
    assert [cache.hit(keys) for keys in ((1, 2, 3), (1, 5), (7,))] == [2, 2, 0]


@pytest.mark.slow
def test_two_engines_order_the_policies_as_the_simulation_does() -> None:
    calls, prompts = engines.questions(80)
    policies = {name: engines.POLICIES[name] for name in ("least load", "thresholds", "sgnb")}
    simulated = engines.simulate(calls, policies)
    measured = engines.measure(calls, prompts, policies)
    assert engines.same_order(simulated, measured)
    assert simulated["sgnb"].hit_rate > simulated["least load"].hit_rate + engines.DISTINCT
    # The benchmark compares the waits of the engines; other programs change these.
    assert simulated["sgnb"].wait(50) < simulated["least load"].wait(50)
