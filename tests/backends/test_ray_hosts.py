"""Replicas as actors of Ray: equal results, killed actors return, nothing stays."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.ray_hosts import RayHosts
from sgnb.errors import EngineError
from sgnb.events import WorkerJoined, WorkerLost

from .fleets import events

pytestmark = pytest.mark.slow


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=60, temperature=0.8, ignore_eos=True)


@pytest.mark.timeout(900)
def test_killed_actors_return_and_no_program_is_lost() -> None:
    ray = pytest.importorskip("ray")
    options = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}
    with pytest.raises(EngineError, match="900 replicas need 900 CPUs"):
        FleetExecutor.load("tiny", replicas=900, on="ray", **options)
    assert not ray.is_initialized(), "a failed load leaves no cluster"

    with FleetExecutor.load("tiny", replicas=2, on="ray", **options) as fleet:
        for worker in (0, 1):
            pid = engine_pid(fleet, worker)
            states = [tale.run(number, backend=fleet, stream=True) for number in range(4)]
            streams = [state.text_iter("text") for state in states]
            begun = [next(stream) for stream in streams]
            os.kill(pid, signal.SIGKILL)
            texts = [text + "".join(rest) for text, rest in zip(begun, streams, strict=True)]
            assert [state["text"] for state in states] == texts
            assert all(s.get_meta_info("text")["completion_tokens"] == 60 for s in states)
            lost = events(fleet, WorkerLost)[-1]
            assert lost.worker == worker
            assert "the connection to engine host 'Ray actor" in lost.reason

            deadline = time.monotonic() + 400
            while len(events(fleet, WorkerJoined)) < 3 + worker:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert engine_pid(fleet, worker) != pid
        assert tale.run(9, backend=fleet)["text"]
        hosts = hosts_of(fleet)
    with pytest.raises(EngineError, match="Ray actor 0 has ended"):
        hosts.start(0)
    assert not ray.is_initialized(), "a restart after the end starts no cluster"


def hosts_of(fleet: FleetExecutor) -> RayHosts:
    supply = fleet._dispatcher._supply
    assert supply is not None and isinstance(supply.source, RayHosts)
    return supply.source


def engine_pid(fleet: FleetExecutor, number: int) -> int:
    """Return the process of an actor."""
    import ray

    actor = hosts_of(fleet)._actors[fleet._executors[number].engine]
    return int(ray.get(actor.endpoint.remote())[2])
