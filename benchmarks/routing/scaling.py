"""A number of workers between bounds, in the simulation of the fleet, against a fixed number: waits
and used workers. The calls arrive in waves, with pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sgnb.backends.fleet.scaling import Scaler, ScalingChange

from ..common import Report
from .policies import Ours
from .simulator import CACHE_TOKENS, PREFILL_RATE, Job, LruCache, Outcome, Simulation, Worker
from .traces import BLOCK, Calls, SimulatedCall, at_load, conversations

LEAST, MOST = 1, 8
START_SECONDS = 20.0
"""Load time of a worker."""

TICK = 0.5
"""Interval of decisions, as in the fleet."""

WAVES, PAUSE = 4, 600.0
"""Number of waves, and seconds between two waves."""

LOADS = (0.3, 0.6, 0.9)
MEDIAN_FACTOR, MEDIAN_SECONDS, SHARE = 3.0, 1.0, 0.55
"""Bars: median against fixed workers at 60 % load, median at 90 %, mean share of the maximum."""


def run() -> Report:
    report = Report(
        f"{LEAST} to {MOST} workers, {WAVES} waves of conversations with pauses of {PAUSE:g} s:"
        " median and 99th percentile of the seconds to the first token; mean workers; starts",
        (
            "load of a wave",
            f"{MOST} workers",
            f"{LEAST} to {MOST} workers",
            "mean workers",
            "starts",
        ),
    )
    met = True
    for load in LOADS:
        calls = waves(at_load(conversations(count=2000), load, MOST, PREFILL_RATE))
        fixed = Simulation(Ours(MOST), MOST).run(calls)
        scaled = ScaledSimulation(LEAST, MOST)
        outcome = scaled.run(calls)
        starts = sum(change.action == "start" for _, change in scaled.changes)
        cells = (f"{o.wait(50):.2f}; {o.wait(99):.2f}" for o in (fixed, outcome))
        report.rows.append((f"{load:.0%}", *cells, f"{scaled.mean_workers:.2f}", starts))
        limits = {0.6: MEDIAN_FACTOR * fixed.wait(50), 0.9: MEDIAN_SECONDS}
        met = met and outcome.wait(50) <= limits.get(load, START_SECONDS)
        met = met and scaled.mean_workers <= SHARE * MOST and starts <= WAVES * MOST
    report.bar = (
        f"a median of at most {MEDIAN_FACTOR:g} times the median of {MOST} workers at 60 % and of"
        f" {MEDIAN_SECONDS:g} s at 90 %, at most {SHARE * MOST:g} workers on average, and at most"
        " one start per worker and wave"
    )
    report.met = met
    report.note = (
        f"A worker loads in {START_SECONDS:g} s, with an empty cache: the first calls of a wave"
        " wait for the load."
    )
    return report


def waves(calls: Calls) -> Calls:
    """Return the calls several times, one after the other."""
    span = calls[-1].time + PAUSE
    return [replace(call, time=call.time + n * span) for n in range(WAVES) for call in calls]


class ScaledSimulation(Simulation):
    """A simulation whose workers start and end; see `sgnb.backends.fleet.scaling`.

    Args:
        least: Minimum number of workers, present from the beginning.
        most: Maximum number of workers.
        starts: Returns whether a start succeeds, by the time of the decision.
        cache_tokens: Cache of each worker.

    Attributes:
        changes: Times and changes.
        mean_workers: Mean number of loaded and loading workers.
    """

    def __init__(
        self,
        least: int,
        most: int,
        starts: Callable[[float], bool] = lambda time: True,
        cache_tokens: int = CACHE_TOKENS,
    ) -> None:
        self._ours = Ours(least)
        super().__init__(self._ours, most, cache_tokens=cache_tokens)
        self.scaler = Scaler(least, most, START_SECONDS)
        self.changes: list[tuple[float, ScalingChange]] = []
        self._starts, self._blocks = starts, cache_tokens // BLOCK
        self._open = [0] * most  # unfinished calls, by worker
        self._seconds = self._ended = 0.0

    @property
    def mean_workers(self) -> float:
        return self._seconds / self._ended

    def run(self, calls: Calls) -> Outcome:
        self._at(0.0, self._tick, _NOBODY)
        outcome = super().run(calls)
        assert not any(self._open), "a call never ended"
        return outcome

    def _tick(self, _: Job, now: float) -> None:
        workers, scaler = self._ours.router.workers, self.scaler
        for change in scaler.decide(self._ours.router, now):
            self.changes.append((now, change))
            if change.action == "start":
                joins = self._starts(now)
                job = replace(_NOBODY, worker=change.worker)
                self._at(now + START_SECONDS, self._join if joins else self._fail, job)
            elif change.action == "stop":
                worker = self._workers[change.worker]
                assert not (worker.busy or worker.waiting or self._open[change.worker]), "cut"
                self._workers[change.worker] = Worker(LruCache(self._blocks))
        self._send(self._ours.routed(now), now)

        count = len(workers.active) + len(workers.draining) + len(scaler.starting)
        assert len(workers.active) + len(scaler.starting) >= scaler.least
        assert count <= scaler.most
        self._seconds, self._ended = self._seconds + count * TICK, now + TICK
        if self._events or count > scaler.least:
            self._at(now + TICK, self._tick, _NOBODY)

    def _join(self, job: Job, now: float) -> None:
        self._ours.router.join(job.worker, PREFILL_RATE, now)
        self.scaler.started(job.worker, START_SECONDS)
        self._send(self._ours.routed(now), now)

    def _fail(self, job: Job, now: float) -> None:
        self.scaler.failed(job.worker, now)

    def _send(self, jobs: Iterable[Job], now: float) -> None:
        jobs = list(jobs)
        for job in jobs:
            self._open[job.worker] += 1
        super()._send(jobs, now)

    def _finish(self, job: Job, now: float) -> None:
        self._open[job.worker] -= 1
        super()._finish(job, now)


_NOBODY = Job(SimulatedCall(0.0, (), 0, 0))
"""Stands for a tick, or for a start of `worker`, in the queue of events."""
