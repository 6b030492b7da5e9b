"""Replicas as actors of Ray: equal results, killed actors return, nothing stays."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.fleet.executor import FleetExecutor
from sgnb.backends.fleet.ray_hosts import RayHosts
from sgnb.errors import EngineError
from sgnb.events import WorkerJoined, WorkerLost

pytestmark = pytest.mark.slow


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=60, temperature=0.8, ignore_eos=True)


def events(fleet: FleetExecutor, kind: type) -> list[Any]:
    return [record.event for record in fleet.log.read().records if isinstance(record.event, kind)]


@pytest.mark.timeout(900)
def test_killed_actors_return_and_no_program_is_lost() -> None:
    ray = pytest.importorskip("ray")
    options = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}
    with pytest.raises(EngineError, match="900 replicas need 900 CPUs"):
        FleetExecutor.load("tiny", replicas=900, on="ray", **options)
    assert not ray.is_initialized(), "a failed load leaves no cluster"

    with FleetExecutor.load("tiny", replicas=2, on="ray", **options) as fleet:
        pids = [engine_pid(fleet, number) for number in (0, 1)]
        states = [tale.run(number, backend=fleet, stream=True) for number in range(4)]
        for state in states:
            next(state.text_iter("text"))
        os.kill(pids[0], signal.SIGKILL)
        texts = ["".join(state.text_iter("text")) for state in states]
        assert [state["text"] for state in states] == texts
        assert all(state.get_meta_info("text")["completion_tokens"] == 60 for state in states)
        assert [event.worker for event in events(fleet, WorkerLost)] == [0]

        deadline = time.monotonic() + 400
        while len(events(fleet, WorkerJoined)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert engine_pid(fleet, 0) != pids[0]
        assert tale.run(9, backend=fleet)["text"]
        hosts = hosts_of(fleet)
    with pytest.raises(EngineError, match="Ray actor 0 has ended"):
        hosts.attach(0)
    assert not ray.is_initialized(), "a restart after the end starts no cluster"


def hosts_of(fleet: FleetExecutor) -> RayHosts:
    hosts: RayHosts = fleet._dispatcher._restarted.__self__  # type: ignore[union-attr]
    return hosts


def engine_pid(fleet: FleetExecutor, number: int) -> int:
    """Return the process of an actor."""
    import ray

    return int(ray.get(hosts_of(fleet)._actors[number].endpoint.remote())[2])
