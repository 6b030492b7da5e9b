"""Replicas as actors of Ray against the same replicas in processes: throughput in turns, messages
per engine step, killed workers and interrupts. Needs the extra `scale`."""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sgnb as sgl
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.ray_hosts import RayHosts
from sgnb.backends.remote.wire import Connection
from sgnb.events import StepRan

from .common import Report, alternate, median_ratio

REPLICAS = 2
OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 32768}
ROWS, TOKENS, ROUNDS = 64, 48, 9
KILLS = int(os.environ.get("RAY_KILLS", "50"))
INTERRUPTS = 10
WAIT_SECONDS = 600.0
"""Maximum time for a killed worker to return."""


@sgl.function
def answer(s: Any, number: int) -> None:
    s += f"Question {number}: " + sgl.gen("text", max_tokens=TOKENS, temperature=0, ignore_eos=True)


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=200, temperature=0.8, ignore_eos=True)


def run() -> list[Report]:
    with FleetExecutor.load("tiny", replicas=REPLICAS, on="ray", **OPTIONS) as fleet:
        with FleetExecutor.load("tiny", replicas=REPLICAS, on="processes", **OPTIONS) as processes:
            reports = [throughput({"processes": processes, "Ray": fleet}), messages(fleet)]
        return [*reports, interrupts(fleet), kills(fleet)]


def rows(seed: int) -> list[dict[str, int]]:
    rng = random.Random(seed)
    return [{"number": rng.randrange(10**6)} for _ in range(ROWS)]


def throughput(fleets: dict[str, FleetExecutor]) -> Report:
    report = Report(
        f"{REPLICAS} replicas (CPU, bundled model, {ROWS} programs of {TOKENS} tokens), in turns",
        ("replicas", "seconds of a batch, median of rounds", "throughput"),
        bar="on Ray at least 95 % of the throughput of processes",
    )
    batches = {name: iter(range(1000)) for name in fleets}  # both fleets get the same rows

    def batch(name: str) -> None:
        answer.run_batch(rows(next(batches[name])), backend=fleets[name])

    times = alternate({name: partial(batch, name) for name in fleets}, ROUNDS)
    ratio = median_ratio(times["processes"], times["Ray"])
    for name, share in (("processes", 1.0), ("Ray", ratio)):
        report.rows.append((name, f"{statistics.median(times[name]):.2f}", f"{share:.3f}"))
    report.met = ratio >= 0.95
    report.note = f"The ratio is the median over {ROUNDS} pairs of rounds."
    return report


def messages(fleet: FleetExecutor) -> Report:
    """Count the messages of the notebook to the workers, and the calls of Ray, during a batch."""
    report = Report(
        f"Remote calls of a batch of {ROWS} programs on {REPLICAS} actors of Ray",
        ("", "messages to workers", "calls of Ray", "engine steps", "messages per step and worker"),
        bar="at most one remote call per step and worker",
    )
    began = time.perf_counter()
    with counted_calls() as counts:
        answer.run_batch(rows(2000), backend=fleet)
    steps = len(step_times(fleet, began))
    calls = counts["sent"] + counts["ray"]
    report.rows.append(("batch", counts["sent"], counts["ray"], steps, f"{calls / steps:.2f}"))
    report.met = calls <= steps
    report.note = "Results, texts and events of a step arrive in one message of the worker."
    return report


@contextmanager
def counted_calls() -> Iterator[dict[str, int]]:
    """Count messages of clients to engine hosts, and calls of actors."""
    import ray.actor

    counts = {"sent": 0, "ray": 0}
    send, remote = Connection.send, ray.actor.ActorMethod.remote

    def counting_send(self: Any, message: Any) -> None:
        counts["sent"] += 1
        send(self, message)

    def counting_remote(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts["ray"] += 1
        return remote(self, *args, **kwargs)

    Connection.send, ray.actor.ActorMethod.remote = counting_send, counting_remote
    try:
        yield counts
    finally:
        Connection.send, ray.actor.ActorMethod.remote = send, remote


def interrupts(fleet: FleetExecutor) -> Report:
    report = Report(
        f"Interrupt of a batch on {REPLICAS} actors of Ray: seconds to the end of the last step",
        ("interrupts", "median", "maximum"),
        bar="the work of all workers stops within 0.5 s",
    )
    seconds = [interrupt(fleet) for _ in range(INTERRUPTS)]
    report.rows.append((INTERRUPTS, f"{statistics.median(seconds):.3f}", f"{max(seconds):.3f}"))
    report.met = max(seconds) <= 0.5
    return report


def interrupt(fleet: FleetExecutor) -> float:
    """Interrupt a batch. Returns the seconds from the signal to the end of the last step."""
    began, sent = time.perf_counter(), [0.0]

    def send() -> None:
        while len(step_times(fleet, began)) < 20:
            time.sleep(0.01)
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send).start()
    with suppress(KeyboardInterrupt):
        tale.run_batch([{"number": n} for n in range(ROWS)], backend=fleet)
    while any(stats["running"] + stats["waiting"] for stats in fleet.stats().values()):
        time.sleep(0.01)
    time.sleep(0.2)  # the last events arrive
    return max(step_times(fleet, began)) - sent[0]


def step_times(fleet: FleetExecutor, after: float) -> list[float]:
    """Return the ends of the workers' steps since `after`, in seconds of the performance clock."""
    return [
        log.begin + record.t
        for log in (executor.log for executor in fleet._executors.values())
        for record in log.read().records
        if isinstance(record.event, StepRan) and log.begin + record.t > after
    ]


def kills(fleet: FleetExecutor) -> Report:
    report = Report(
        f"A worker of {REPLICAS} on Ray killed while programs stream, and started again",
        ("kills", "programs", "lost programs", "repeated or wrong texts", "seconds to return"),
        bar="no program is lost and no text repeated",
    )
    lost = wrong = programs = 0
    returned: list[float] = []
    for number in range(KILLS):
        states = [tale.run(10 * number + n, backend=fleet, stream=True) for n in range(4)]
        streams = [state.text_iter("text") for state in states]
        texts = [next(stream) for stream in streams]
        began = time.perf_counter()
        os.kill(engine_pid(fleet, number % REPLICAS), signal.SIGKILL)
        for index, stream in enumerate(streams):
            programs += 1
            try:
                texts[index] += "".join(stream)
                meta = states[index].get_meta_info("text")
            except Exception:
                lost += 1
                continue
            whole = meta["completion_tokens"] == 200
            wrong += not (whole and texts[index] == states[index]["text"])
        while len(fleet.stats()) < REPLICAS:
            assert time.perf_counter() - began < WAIT_SECONDS, "a killed worker did not return"
            time.sleep(0.1)
        returned.append(time.perf_counter() - began)
    report.rows.append((KILLS, programs, lost, wrong, f"{statistics.median(returned):.1f}"))
    report.met = lost == wrong == 0
    return report


def engine_pid(fleet: FleetExecutor, worker: int) -> int:
    """Return the process of a worker's actor."""
    import ray

    supply = fleet._dispatcher._supply
    assert supply is not None and isinstance(supply.source, RayHosts)
    actor = supply.source._actors[fleet._executors[worker].engine]
    return int(ray.get(actor.endpoint.remote())[2])
