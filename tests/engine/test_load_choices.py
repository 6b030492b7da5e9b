"""Choice between loading and computing on simulated machines: random prompts and noisy times. The
engine learns from the chosen ways only. `python -m benchmarks tier_choices` measures real ones."""

from __future__ import annotations

import math
import random
import statistics
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.cache.tiers.load_plan import LoadPlanner
from sgnb.engine.cache.tiers.stored_prompt import read_prompt
from sgnb.engine.cache.tiers.tier_costs import TierCosts

CASES, WARM_UP = 200, 30


class Machine(NamedTuple):
    """Costs of a model on a machine, in seconds and bytes."""

    step: float
    token: float
    attended: float
    token_bytes: int
    load: float  # constant of a load
    disk: float  # bytes per second

    def computing(self, begin: int, end: int) -> float:
        count = end - begin
        return self.step + self.token * count + self.attended * count * (begin + end) / 2


MACHINES = {
    "8B on an H200": Machine(8e-3, 2.6e-5, 7.2e-10, 131_072, 2e-3, 1.8e9),
    "0.6B on an H200": Machine(8e-3, 2.5e-6, 1.2e-10, 114_688, 2e-3, 1.8e9),
    "bundled model on a CPU": Machine(4e-3, 1.5e-4, 1.2e-7, 5_120, 5e-3, 1e9),
}


class Report:
    """A `LoadReport` without events."""

    num_found = 0

    def found(self, *args: Any) -> None: ...
    def refused(self, *args: Any) -> None: ...
    def not_loaded(self, *args: Any) -> None: ...


@pytest.mark.parametrize("slower", [1, 10])
@pytest.mark.parametrize("name", MACHINES)
def test_the_chosen_way_is_near_the_better_one(name: str, slower: int) -> None:
    chance, costs = random.Random(f"{name} {slower}"), TierCosts()
    machine = MACHINES[name]._replace(disk=MACHINES[name].disk / slower)
    run(machine, costs, chance, WARM_UP)
    losses = run(machine, costs, chance, CASES)
    right = sum(loss <= 1.15 for loss, _ in losses)
    assert right >= 0.95 * CASES, f"{right} of {CASES}"


@pytest.mark.parametrize(("name", "most"), list(zip(MACHINES, (0.8, 1.0, 0.8), strict=True)))
def test_both_at_once_pay_with_a_disk_as_slow_as_computing(name: str, most: float) -> None:
    """The step of the head costs more than the gain for most prompts of a small model on a GPU."""
    chance, costs, machine = random.Random(name), TierCosts(), MACHINES[name]
    count = 4000
    disk = machine.token_bytes * count / machine.computing(0, count)
    machine = machine._replace(disk=disk, load=min(machine.load, machine.step))
    run(machine, costs, chance, WARM_UP, may_compute=True)
    results = run(machine, costs, chance, CASES, may_compute=True)
    assert sum(loss <= 1.15 for loss, _ in results) >= 0.95 * CASES
    assert statistics.median(loss for loss, _ in results) <= most


def test_a_store_that_became_faster_is_used_again() -> None:
    chance, costs, machine = random.Random(0), TierCosts(), MACHINES["8B on an H200"]
    slow = machine._replace(disk=machine.disk / 4)
    run(slow, costs, chance, WARM_UP)
    assert sum(loads for _, loads in run(slow, costs, chance, 100)) < 10, "only trials"
    fast = machine._replace(disk=20 * machine.disk)
    run(fast, costs, chance, 2 * CASES)
    assert sum(loads for _, loads in run(fast, costs, chance, 50)) > 45


def run(
    machine: Machine,
    costs: TierCosts,
    chance: random.Random,
    cases: int,
    may_compute: bool = False,
) -> list[tuple[float, bool]]:
    """Return the time of the chosen way over the better one, and whether blocks were loaded, for
    each case."""
    store = SimpleNamespace(name="disk", holds=lambda key: True, seconds=lambda key: 0.0)
    stores = SimpleNamespace(blocks=[store], states=[])
    prefixes: Any = SimpleNamespace(stores=stores)
    block_bytes = BLOCK * machine.token_bytes
    planner = LoadPlanner(prefixes, costs, block_bytes, None, 10**6)
    results = []
    for _ in range(cases):
        count = int(math.exp(chance.uniform(math.log(256), math.log(20_000)))) // BLOCK * BLOCK
        tail = chance.randrange(1, 400)
        prompt = read_prompt(b"root", np.zeros(count, np.int32), [])
        report: Any = Report()
        plan = planner.plan(prompt, 0, 0, report, may_compute)

        end, head = (0, 0) if plan is None else (plan.end * BLOCK, plan.meeting * BLOCK)
        size = machine.token_bytes * (end - head)
        loading = machine.load + size / machine.disk if end else 0.0
        heading = machine.computing(0, head) if head else 0.0
        chosen = max(loading, heading) + machine.computing(end, count + tail)
        compute = machine.computing(0, count + tail)
        load = machine.load + machine.token_bytes * count / machine.disk
        better = min(compute, load + machine.computing(count, count + tail))
        results.append((chosen / better, end > 0))

        if end:
            costs.observe_load("disk", size, chance.uniform(0.9, 1.1) * loading)
        computed = count + tail - end
        attended = computed * (end + count + tail) / 2
        seconds = machine.computing(end, count + tail)
        if head:
            costs.observe_step(head, head**2 / 2, chance.uniform(0.9, 1.1) * heading)
        costs.observe_step(computed, attended, chance.uniform(0.9, 1.1) * seconds)
    return results
