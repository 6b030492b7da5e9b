"""Policies of the simulation: the router of `sgnb.backends.fleet`, and others to compare."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from sgnb.backends.fleet.block_index import BlockIndex
from sgnb.backends.fleet.router import RoutedCalls, Router

from .simulator import PREFILL_RATE, Job
from .traces import BLOCK


class LeastLoad:
    """The worker with the fewest unfinished calls."""

    index: BlockIndex | None = None

    def __init__(self, workers: int) -> None:
        self.calls = np.zeros(workers, np.int64)

    def choose(self, job: Job) -> int:
        return int(self.calls.argmin())

    def arrived(self, job: Job, now: float) -> Sequence[Job]:
        job.worker = self.choose(job)
        self.calls[job.worker] += 1
        if self.index is not None:
            self.index.book(job.worker, job.call.keys)
        return [job]

    def prefilled(self, job: Job, now: float) -> Sequence[Job]:
        return ()

    def finished(self, job: Job, now: float) -> Sequence[Job]:
        self.calls[job.worker] -= 1
        if self.index is not None:
            self.index.unbook(job.worker, job.call.keys)
        return ()


class LongestPrefix(LeastLoad):
    """The worker with the longest cached or booked prefix, with the fewest calls among equals."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.index = BlockIndex()

    def longest(self, job: Job) -> tuple[int, int]:
        """Return the number of cached blocks and the worker."""
        assert self.index is not None
        levels = self.index.levels(job.call.keys)
        if not levels:
            return 0, int(self.calls.argmin())
        blocks, holders = levels[-1]
        workers = [w for w in range(len(self.calls)) if holders >> w & 1]
        return blocks, min(workers, key=self.calls.item)

    def choose(self, job: Job) -> int:
        return self.longest(job)[1]


class Thresholds(LongestPrefix):
    """SGLang's gateway: the longest prefix above 0.3 of the prompt, unless the numbers of calls
    differ by more than 64 and by more than 1.5 times; otherwise the fewest calls."""

    def choose(self, job: Job) -> int:
        most, fewest = int(self.calls.max()), int(self.calls.min())
        if not (most - fewest > 64 and most > 1.5 * fewest):
            blocks, worker = self.longest(job)
            if blocks > 0.3 * max(len(job.call.keys), 1):
                return worker
        return int(self.calls.argmin())


class Ours:
    """The router of `sgnb.backends.fleet`.

    Args:
        workers: Number of workers.
        price: See `Router`.
        block: Tokens of a block of the calls.
        compared: See `Router`.

    Attributes:
        seconds: Processor time of all decisions, from the arrival to the jobs to send.
        decisions: Number of arrivals.
    """

    index: BlockIndex | None

    def __init__(
        self, workers: int, price: float = 1.0, block: int = BLOCK, compared: int = 0
    ) -> None:
        self.index = BlockIndex()
        self.router = Router(self.index, block=block, price=price, compared=compared)
        for worker in range(workers):
            self.router.join(worker, PREFILL_RATE, 0.0)
        self._jobs: dict[RoutedCalls, Job] = {}
        self.seconds, self.decisions = 0.0, 0

    def arrived(self, job: Job, now: float) -> Sequence[Job]:
        call = job.call
        job.item = RoutedCalls(call.client, call.keys, call.tokens)
        self._jobs[job.item] = job
        self.decisions += 1
        began = time.thread_time()
        self.router.submit(job.item, now)
        sent = self.router.route(now)
        self.seconds += time.thread_time() - began
        return self._sent(sent)

    def prefilled(self, job: Job, now: float) -> Sequence[Job]:
        self.router.prefilled(job.item, now)
        began = time.thread_time()
        sent = self.router.route(now)
        self.seconds += time.thread_time() - began
        return self._sent(sent)

    def finished(self, job: Job, now: float) -> Sequence[Job]:
        self.router.finished(job.item, now)
        return self.routed(now)

    def routed(self, now: float) -> Sequence[Job]:
        """Return the jobs to send after a change of the workers."""
        return self._sent(self.router.route(now))

    def _sent(self, items: Sequence[RoutedCalls]) -> list[Job]:
        jobs = [self._jobs.pop(item) for item in items]
        for job in jobs:
            job.worker = job.item.estimate.worker
        return jobs
