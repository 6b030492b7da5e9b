"""Replicas as actors of Ray: equal results, killed actors return, nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.ray_hosts import RayHosts
from sgnb.errors import EngineError
from sgnb.events import WorkerJoined, WorkerLost

from .fleets import events
from .remote.conftest import wait_until

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=60, temperature=0.8, ignore_eos=True)


@pytest.mark.timeout(900)
def test_killed_actors_return_and_no_program_is_lost() -> None:
    ray = pytest.importorskip("ray")
    with pytest.raises(EngineError, match="900 replicas need 900 CPUs"):
        FleetExecutor.load("tiny", replicas=900, on="ray", **OPTIONS)
    assert not ray.is_initialized(), "a failed load leaves no cluster"

    with FleetExecutor.load("tiny", replicas=2, on="ray", **OPTIONS) as fleet:
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


PRIVATE_RAY = """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
print("gcs", ray.get_runtime_context().gcs_address, flush=True)
input()
"""


@pytest.mark.timeout(900)
def test_the_private_ray_of_another_kernel_is_not_used() -> None:
    ray = pytest.importorskip("ray")
    command = [sys.executable, "-c", PRIVATE_RAY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as kernel:
        assert kernel.stdout is not None
        other = next(line.split()[1] for line in kernel.stdout if line.startswith("gcs"))
        with FleetExecutor.load("tiny", replicas=1, on="ray", **OPTIONS) as fleet:
            assert ray.get_runtime_context().gcs_address != other
            kernel.communicate("\n")
            assert tale.run(1, backend=fleet)["text"]
    assert not ray.is_initialized()


@pytest.mark.timeout(900)
def test_ray_of_the_user_stays_without_actors_of_the_fleet() -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        with pytest.raises(
            EngineError, match=r"did not start: .*'/no/model'.*\n  hint: give a folder"
        ):
            FleetExecutor.load("/no/model", replicas=2, on="ray", **OPTIONS)
        with FleetExecutor.load("tiny", replicas=1, on="ray", **OPTIONS) as fleet:
            assert tale.run(1, backend=fleet)["text"]
            pid = engine_pid(fleet, 0)
        fleet.close()
        assert ray.is_initialized()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 60)
        with FleetExecutor.load("tiny", replicas=1, on="ray", **OPTIONS) as fleet:
            ray.shutdown()
        assert not ray.is_initialized(), "closing starts no Ray"
    finally:
        ray.shutdown()


def hosts_of(fleet: FleetExecutor) -> RayHosts:
    supply = fleet._dispatcher._supply
    assert supply is not None and isinstance(supply.source, RayHosts)
    return supply.source


def engine_pid(fleet: FleetExecutor, number: int) -> int:
    """Return the process of an actor."""
    import ray

    actor = hosts_of(fleet)._actors[fleet._executors[number].engine]
    return int(ray.get(actor.endpoint.remote())[2])
