"""Time on the host, per step, of the scheduler with its radix tree and of the events. Without a
model or a device.

Tokens are random, and are read one step late as in the engine. Times are of the thread's own
processor time, with Python's garbage collector.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.scheduler import Scheduler
from sgnb.events import Columns, EventLog, Extended, Sampled, StepRan
from sgnb.sampling import SamplingParams

from .common import Report, tokens

VOCAB = 128_000
CACHED = 100_000
"""Sequences in the tree, of LENGTH tokens each."""
LENGTH = 20
ROWS = 256
WAITING = 2000
STEPS = 200
BAR = 1000.0
"""Microseconds per step."""


class Driver:
    """Runs a scheduler. Whenever a request ends, `renew` gives the prompt and the new tokens of the
    next one."""

    def __init__(self, slots: int, rows: int, renew: Callable[[], tuple[list[int], int]]) -> None:
        self.log = EventLog()
        self.scheduler = Scheduler(
            CacheManager(SlotAllocator(slots), emit=self.log.emit),
            context_length=8192,
            max_step_tokens=8192,
            max_running=rows,
            emit=self.log.emit,
        )
        self.rng = np.random.default_rng(0)
        self._renew = renew
        self._in_flight: list[Request] = []
        self._params = SamplingParams()
        self._count = 0

    def add(self, prompt: list[int], new: int) -> None:
        self._count += 1
        self.scheduler.add(Request(self._count, prompt, self._params, new))

    def step(self) -> tuple[float, float]:
        """Seconds of the scheduler with its tree, and of the step's own event."""
        began = time.thread_time()
        batch = self.scheduler.schedule()
        self.scheduler.complete(batch)
        launching = time.thread_time() - began
        read = [request for request in self._in_flight if request.num_placeholders]
        self._in_flight = list(compress(batch.requests, batch.samples))
        choice = self.rng.integers(0, VOCAB, len(read)).tolist()
        for request, token in zip(read, choice, strict=True):
            request.append(token)
        ended = [request for request in read if request.remaining == 0]
        began = time.thread_time()
        for request in ended:
            self.scheduler.finish(request)
        finishing = time.thread_time() - began
        for _ in ended:
            self.add(*self._renew())
        began = time.thread_time()
        self._tell(batch, Columns(Sampled, [r.id for r in read], choice, [-1.0] * len(read)))
        return launching + finishing, time.thread_time() - began

    def _tell(self, batch: Batch, sampled: Columns[Sampled]) -> None:
        scheduler, ids = self.scheduler, [r.id for r in batch.requests]
        cache = scheduler.cache
        extended: Columns[Extended] = Columns(
            Extended, ids, batch.starts.tolist(), batch.lengths.tolist()
        )
        queued, running = len(scheduler.waiting), len(scheduler.running)
        free, cached, own = cache.slots.available, cache.tree.size, cache.in_flight
        self.log.emit(
            StepRan(scheduler.step, 0.0, extended, sampled, queued, running, free, cached, own)
        )

    def cache(self, prefix: list[int]) -> None:
        """Put CACHED sequences below `prefix` into the tree."""
        tree, pool = self.scheduler.cache.tree, self.scheduler.cache.slots
        above = (
            tree.insert(np.array(prefix, np.int32), pool.allocate(len(prefix))).node
            if prefix
            else None
        )
        slots = pool.allocate(0) if above is None else above.path_slots()
        for i in range(CACHED):
            sequence = np.array([*prefix, i, *self.rng.integers(0, VOCAB, LENGTH - 1)], np.int32)
            tree.insert(sequence, np.concatenate([slots, pool.allocate(LENGTH)]), start=above)


def decoding(rows: int) -> Driver:
    """Rows that only decode."""
    rng = random.Random(0)
    driver = Driver(rows * 1200, rows, lambda: (tokens(rng, LENGTH, VOCAB), 1000))
    for _ in range(rows):
        driver.add(tokens(rng, LENGTH, VOCAB), 1000)
    return warm(driver, 8)


def cached(prefix: int, spare: int = 500_000) -> Driver:
    """Measure rows that end after 32 tokens and are replaced, with CACHED sequences in the tree and
    `spare` free slots."""
    rng = random.Random(1)
    shared = tokens(rng, prefix, VOCAB)
    driver = Driver(
        CACHED * LENGTH + prefix + spare, ROWS, lambda: (shared + tokens(rng, LENGTH, VOCAB), 32)
    )
    driver.cache(shared)
    for i in range(ROWS):
        driver.add(shared + tokens(rng, LENGTH, VOCAB), 1 + i % 32)
    return warm(driver, 40)


def waiting(slots: int, new: int) -> Driver:
    """As many rows as the slots or ROWS allow, and WAITING requests that must wait."""
    rng = random.Random(2)
    driver = Driver(slots, ROWS, lambda: (tokens(rng, 500, VOCAB), new))
    for i in range(ROWS + WAITING):
        driver.add(tokens(rng, 500, VOCAB), 1 + i % new if new < 100 else new)
    return warm(driver, 60)


def warm(driver: Driver, steps: int) -> Driver:
    for _ in range(steps):
        driver.step()
    return driver


class Case(NamedTuple):
    name: str
    prepare: Callable[[], Driver]
    barred: bool = False


CASES = (
    *(Case(f"{rows:,} rows decode", partial(decoding, rows)) for rows in (1, 64, ROWS, 1024)),
    Case(f"{ROWS} rows, 8 end in a step; {CACHED:,} sequences cached", partial(cached, 0), True),
    Case("the same below one prefix of 1,000 tokens", partial(cached, 1000), True),
    Case("the same without a prefix, in a full pool: all evict", partial(cached, 0, 3000), True),
    Case(f"{ROWS} rows decode, {WAITING:,} requests wait", partial(waiting, 1_000_000, 1000)),
    Case(f"memory full, {WAITING:,} requests wait", partial(waiting, 60_000, 1000)),
    Case(
        f"{ROWS} rows, 8 end in a step; {WAITING:,} requests wait", partial(waiting, 1_000_000, 32)
    ),
)


def run() -> Report:
    columns = ("case", "scheduler and tree, us", "95 % below", "events of the step, us")
    report = Report("Host time per step", columns)
    slowest = 0.0
    for case in CASES:
        driver = case.prepare()
        times = 1e6 * np.array([driver.step() for _ in range(STEPS)])
        scheduler, events = times.T
        row = statistics.mean(scheduler), np.quantile(scheduler, 0.95), statistics.mean(events)
        report.rows.append((case.name, *(f"{x:,.0f}" for x in row)))
        if case.barred:
            slowest = max(slowest, statistics.mean(scheduler))
    report.bar, report.met = f"below {BAR:,.0f} us with {CACHED:,} sequences cached", slowest < BAR
    return report
