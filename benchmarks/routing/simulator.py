"""Discrete-event simulation of a fleet: serial prefill, batched decode, an LRU cache per worker."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sgnb.backends.fleet.block_index import BlockIndex

from .traces import BLOCK, Calls, SimulatedCall

PREFILL_RATE = 38_400.0
"""Tokens per second of an 8B model on an H200."""

CACHE_TOKENS = 900_000
DECODE_SECONDS = 0.008
"""Seconds per output token and call."""


@dataclass(slots=True, eq=False)
class Job:
    """A call in the simulation; times in seconds."""

    call: SimulatedCall
    worker: int = -1
    cached: int = 0
    first: float = 0.0  # time of the first token
    item: Any = None  # of the policy

    @property
    def wait(self) -> float:
        """Time to the first token."""
        return self.first - self.call.time


class Policy(Protocol):
    """Decisions of a router. Each method returns the jobs to send now, with their workers."""

    index: BlockIndex | None  # receives the blocks of the workers' caches

    def arrived(self, job: Job, now: float) -> Sequence[Job]: ...

    def prefilled(self, job: Job, now: float) -> Sequence[Job]: ...

    def finished(self, job: Job, now: float) -> Sequence[Job]: ...


class LruCache:
    """Blocks of prompts; the block at the end of the longest unused prompt is evicted first."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._keys: OrderedDict[int, None] = OrderedDict()

    def hit(self, keys: Sequence[int]) -> int:
        """Return the number of leading blocks in the cache."""
        return next((i for i, key in enumerate(keys) if key not in self._keys), len(keys))

    def insert(self, keys: Sequence[int]) -> list[int]:
        """Use or insert blocks. Returns the evicted blocks."""
        for key in reversed(keys):
            self._keys[key] = None
            self._keys.move_to_end(key)
        surplus = range(max(len(self._keys) - self._blocks, 0))
        return [self._keys.popitem(last=False)[0] for _ in surplus]


@dataclass(slots=True)
class Worker:
    cache: LruCache
    waiting: deque[Job] = field(default_factory=deque)
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a simulation; waits are times to the first token, in seconds."""

    jobs: Sequence[Job]

    @property
    def hit_rate(self) -> float:
        tokens = sum(job.call.tokens for job in self.jobs)
        return sum(job.cached for job in self.jobs) / tokens

    def wait(
        self, percentile: float, clients: Callable[[str], bool] = lambda client: True
    ) -> float:
        """Return a percentile of the waits of some clients."""
        waits = [job.wait for job in self.jobs if clients(job.call.client)]
        return float(np.percentile(waits, percentile))


def cached_tokens(blocks: int, call: SimulatedCall, block: int) -> int:
    """Return the usable tokens of cached blocks: at least one token is computed."""
    return min(blocks * block, call.tokens - 1)


def pooled_hit_rate(calls: Calls, cache_tokens: int) -> float:
    """Return the hit rate of one LRU cache with the memory of all workers."""
    cache, cached = LruCache(cache_tokens // BLOCK), 0
    for call in calls:
        cached += cached_tokens(cache.hit(call.keys), call, BLOCK)
        cache.insert(call.keys)
    return cached / sum(call.tokens for call in calls)


class Simulation:
    """A run of calls through a policy.

    Args:
        policy: The router.
        workers: Number of workers.
        block: Tokens of a block of the calls.
        cache_tokens: Cache of each worker.
    """

    def __init__(
        self,
        policy: Policy,
        workers: int,
        block: int = BLOCK,
        cache_tokens: int = CACHE_TOKENS,
    ) -> None:
        self._policy, self._block = policy, block
        blocks = cache_tokens // block
        self._workers = [Worker(LruCache(blocks)) for _ in range(workers)]
        self._events: list[tuple[float, int, Callable[[Job, float], None], Job]] = []
        self._numbers = itertools.count()

    def run(self, calls: Calls) -> Outcome:
        jobs = [Job(call) for call in calls]
        for job in jobs:
            self._at(job.call.time, self._arrive, job)
        while self._events:
            now, _, handle, job = heapq.heappop(self._events)
            handle(job, now)
        assert all(job.first for job in jobs), "a call never ran"
        return Outcome(jobs)

    def _at(self, time: float, handle: Callable[[Job, float], None], job: Job) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), handle, job))

    def _arrive(self, job: Job, now: float) -> None:
        self._send(self._policy.arrived(job, now), now)

    def _send(self, jobs: Iterable[Job], now: float) -> None:
        for job in jobs:
            worker = self._workers[job.worker]
            worker.waiting.append(job)
            if not worker.busy:
                self._start(worker, now)

    def _start(self, worker: Worker, now: float) -> None:
        if not worker.waiting:
            worker.busy = False
            return
        worker.busy = True
        job = worker.waiting.popleft()
        job.cached = cached_tokens(worker.cache.hit(job.call.keys), job.call, self._block)
        computed = job.call.tokens - job.cached
        self._at(now + computed / PREFILL_RATE, self._prefilled, job)

    def _prefilled(self, job: Job, now: float) -> None:
        worker, index = self._workers[job.worker], self._policy.index
        job.first = now
        evicted = worker.cache.insert(job.call.keys)
        if index is not None:
            index.add(job.worker, job.call.keys[job.cached // self._block :])
            index.remove(job.worker, evicted)
        self._at(now + job.call.output * DECODE_SECONDS, self._finish, job)
        self._start(worker, now)
        self._send(self._policy.prefilled(job, now), now)

    def _finish(self, job: Job, now: float) -> None:
        self._send(self._policy.finished(job, now), now)
