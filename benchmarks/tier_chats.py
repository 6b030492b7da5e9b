"""Conversations beyond the KV pool with the real scheduler, cache and tiers, without a model: steps
and transfers take the time of an H200 with Llama-8B, on a simulated clock.

The workload is that of `python -m benchmarks.gpu.tiers`: in each turn all sessions ask at once. The
engine's thread takes no time, so that the result shows the policy only.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import EvictionPolicy, Ints
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tiers import copies, host, load, tiers
from sgnb.engine.cache.tiers.blocks import BLOCK, Bytes
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.stored_prefixes import Stores
from sgnb.engine.cache.tiers.tiers import CacheTiers
from sgnb.engine.cache.tiers.transfers import ReadBlocks, Transfer
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.scheduler import Scheduler
from sgnb.sampling import SamplingParams

from .common import Report, tokens
from .simulated_gpu import STEP_MS, TOKENS

SESSIONS, TURNS, MESSAGE, ANSWER = 100, 8, 700, 128
POOL, EVERYTHING = 200_000, 800_000
VOCAB, UNIT_BYTES = 128_000, 131_072
LEAST_OF_LIMIT = 0.85

PREFILL_SECONDS, DECODE_SECONDS = 1e-9, 33e-9
"""Seconds per attended token: of a prefill, limited by arithmetic, and of a decoded token, limited
by the memory."""

LOAD_RATE, COPY_RATE = 30e9, 45e9
"""Bytes per second to the GPU, measured for a load of 20,000 tokens, and from the GPU."""

WRITE_RATE = 10e9
"""Bytes per second of a thread that copies memory. Assumed."""

PIN_RATE = 2.2e9
"""Bytes per second of new pinned memory: 0.49 s per GiB."""


class Clock:
    """A simulated clock with the functions of `time`. Works through events in the order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def at(self, moment: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(self.now, moment), next(self._numbers), work))

    def next_event(self) -> None:
        """Advance to the next event. Raises IndexError without an event."""
        self.now, _, work = heapq.heappop(self._events)
        work()

    def advance(self, moment: float) -> None:
        while self._events and self._events[0][0] <= moment:
            self.next_event()
        self.now = moment


class Link:
    """Copies one after another."""

    def __init__(self, clock: Clock, rate: float) -> None:
        self._clock, self._rate, self._free = clock, rate, 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the queued copies end."""
        return max(0.0, self._free - self._clock.now)

    def book(self, num_bytes: int) -> float:
        """Return the end of a copy that is queued now."""
        self._free = max(self._free, self._clock.now) + num_bytes / self._rate
        return self._free


class Threads(Executor):
    """Threads on the simulated clock. One thread of the process runs at a time: a job or the
    clock's owner."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self._idle = clock, count
        self._jobs = deque[Callable[[], object]]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._jobs.append(partial(fn, *args, **kwargs))
        self._clock.at(self._clock.now, self._next)

    def _next(self) -> None:
        if self._idle and self._jobs:
            self._idle -= 1
            Job(self._clock, self._jobs.popleft(), self._ended).resume()

    def _ended(self) -> None:
        self._idle += 1
        self._next()


class Job(threading.Thread):
    """A job that may sleep on the simulated clock; see `sleep`."""

    def __init__(self, clock: Clock, work: Callable[[], object], ended: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._clock, self._work, self._ended = clock, work, ended
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._done = False
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._done = True
            self._paused.release()

    def resume(self) -> None:
        """Run the job until it sleeps or ends."""
        self._go.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error
        if self._done:
            self._ended()

    def wake(self, moment: float) -> None:
        self._clock.at(moment, self.resume)

    def pause(self) -> None:
        """Stop this job until `wake`."""
        self._paused.release()
        self._go.acquire()


def current_job() -> Job:
    job = threading.current_thread()
    assert isinstance(job, Job)
    return job


def sleep(moment: float) -> None:
    """Let the current job sleep until a moment of the simulated clock."""
    job = current_job()
    job.wake(moment)
    job.pause()


class SimulatedCondition:
    """A `threading.Condition` for jobs, without a lock of its own."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock, self._waiting = lock, deque[Job]()

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            self._waiting.append(current_job())
            self._lock.release()
            current_job().pause()
            self._lock.acquire()

    def notify_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().wake(0.0)


class SimulatedTransfer(Transfer):
    """Copies of no content, in the time of a GPU's bus."""

    def __init__(self, units: SlotAllocator, clock: Clock) -> None:
        super().__init__(units, BLOCK, UNIT_BYTES, 0)
        self._to_gpu, self._from_gpu = Link(clock, LOAD_RATE), Link(clock, COPY_RATE)

    def read(self, ids: Ints, places: Sequence[Bytes] = ()) -> Callable[[], ReadBlocks]:
        count = len(ids) // BLOCK
        copied = self._from_gpu.book(count * self.block_bytes)

        def wait() -> ReadBlocks:
            sleep(copied)
            return ReadBlocks(places or self.spare(count), np.ones(count, np.bool_))

        return wait

    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        return partial(sleep, self._to_gpu.book(len(ids) * self.unit_bytes))

    @property
    def delay(self) -> float:
        """Seconds until the copies from the GPU end, on the stream of the steps."""
        return self._from_gpu.seconds_left

    def begin_writes(self) -> None:
        pass

    end_writes = close = begin_writes

    def spare(self, count: int) -> Sequence[Bytes]:
        return [np.zeros((BLOCK, 1), np.uint8)] * count

    def allocate(self, size: int) -> Bytes:
        raise AssertionError("the store allocates")


class SimulatedStore(HostBlocks):
    """Host memory with a byte per token. Writes and allocations take the time of all bytes."""

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        with patch.object(host, "ARENA_BYTES", host.ARENA_BYTES // UNIT_BYTES):
            super().__init__(limit_bytes // UNIT_BYTES, 1, self._allocate_slowly)
        self._times = clock
        self._grown: Any = SimulatedCondition(self._lock)

    def _allocate_slowly(self, size: int) -> Bytes:
        sleep(self._times.now + size * UNIT_BYTES / PIN_RATE)
        return np.zeros(size, np.uint8)

    def write(self, block: Any) -> bool:
        sleep(self._times.now + BLOCK * UNIT_BYTES / WRITE_RATE)
        return super().write(block)


class Result(NamedTuple):
    """Times and counters of all turns."""

    turns: list[float]
    counts: dict[str, int]


class SimulatedEngine:
    """Scheduler, cache and tiers over a simulated GPU."""

    def __init__(self, pool: int, host_bytes: int, policy: EvictionPolicy) -> None:
        self.clock, self._commands = Clock(), deque[Callable[[], object]]()
        slots = SlotAllocator(pool)
        self._transfer = SimulatedTransfer(slots, self.clock)
        self.cache = CacheManager(slots, policy=policy)
        self._scheduler = Scheduler(
            self.cache, context_length=131_072, max_step_tokens=8192, max_running=1024
        )
        self._tiers: CacheTiers | None = None
        self._ids, self._computed = itertools.count(1), 0
        self._params = SamplingParams()
        if host_bytes:
            stores = [SimulatedStore(host_bytes, self.clock)]
            self._tiers = CacheTiers(
                self.cache,
                self._transfer,
                lambda: Stores(b"root", stores),
                executor=lambda count, name: Threads(self.clock, count),
            )
            self._tiers.run = self._commands.append
            self._scheduler.loads = self._tiers

    def answer(self, histories: list[list[int]], rng: random.Random) -> float:
        """Append an answer to each history. Returns the seconds."""
        began, requests = self.clock.now, []
        for history in histories:
            requests.append(Request(next(self._ids), history, self._params, ANSWER))
            self._scheduler.add(requests[-1])
        while self._scheduler.has_work:
            self._step(rng)
        for request, history in zip(requests, histories, strict=True):
            history[:] = request.tokens[: request.num_tokens].tolist()
        return self.clock.now - began

    def _step(self, rng: random.Random) -> None:
        while self._commands:
            self._commands.popleft()()
            self._scheduler.retry_blocked()
        batch = self._scheduler.schedule()
        if not batch.requests:
            self.clock.next_event()
            return
        seconds = self._transfer.delay + step_seconds(batch)
        ended = self._scheduler.complete(batch)
        self.clock.advance(self.clock.now + seconds)
        self._computed += batch.num_tokens
        for request, samples in zip(batch.requests, batch.samples, strict=True):
            if samples:
                request.append(rng.randrange(VOCAB))
        for request in ended:
            self._scheduler.finish(request)
        if self._tiers is not None:
            if batch.num_tokens > len(batch.requests):
                attended = float((batch.lengths * (batch.starts + batch.lengths / 2)).sum())
                self._tiers.costs.observe_step(batch.num_tokens, attended, seconds)
            self._tiers.stepped()

    @property
    def counts(self) -> dict[str, int]:
        found = {"computed": self._computed}
        return found if self._tiers is None else found | self._tiers.statistics()


def step_seconds(batch: Batch) -> float:
    """Return the time of a step on the GPU."""
    starts, lengths = batch.starts, batch.lengths
    seconds = float(np.interp(batch.num_tokens, TOKENS, STEP_MS)) / 1000
    decodes = lengths == 1
    seconds += DECODE_SECONDS * float(starts[decodes].sum())
    return seconds + PREFILL_SECONDS * float((lengths * (starts + lengths / 2))[~decodes].sum())


def chat(pool: int, host_bytes: int = 0, policy: EvictionPolicy = "lru") -> Result:
    """Return the seconds of each turn, and the counters."""
    engine, rng = SimulatedEngine(pool, host_bytes, policy), random.Random(0)
    histories: list[list[int]] = [[] for _ in range(SESSIONS)]
    turns = []
    with ExitStack() as patches:
        for module in (copies, load, tiers):
            patches.enter_context(patch.object(module, "time", engine.clock))
        for _ in range(TURNS):
            for history in histories:
                history += tokens(rng, MESSAGE, VOCAB)
            turns.append(engine.answer(histories, rng))
    return Result(turns, engine.counts)


def run() -> Report:
    report = Report(
        f"{SESSIONS} conversations of {TURNS} turns, simulated H200, Llama-8B",
        ("", "seconds", "part of the limit", "seconds by turn", "counts"),
        bar=f"at least {LEAST_OF_LIMIT} of the speed with a pool for everything",
    )
    cases: dict[str, Callable[[], Result]] = {
        "pool for everything": partial(chat, EVERYTHING),
        f"pool of {POOL:,} and 64 GiB": partial(chat, POOL, 64 << 30),
        f"pool of {POOL:,} and 64 GiB, cost": partial(chat, POOL, 64 << 30, "cost"),
        f"pool of {POOL:,} and 128 GiB": partial(chat, POOL, 128 << 30),
        f"pool of {POOL:,} alone": partial(chat, POOL),
    }
    limit = 0.0
    for name, case in cases.items():
        result = case()
        total = sum(result.turns)
        limit = limit or total
        counts = ", ".join(f"{key} {count:,}" for key, count in result.counts.items())
        turns = " ".join(f"{seconds:.1f}" for seconds in result.turns)
        report.rows.append((name, f"{total:.1f}", f"{limit / total:.2f}", turns, counts))
        if name.endswith(" 64 GiB"):
            report.met = limit / total >= LEAST_OF_LIMIT
    return report
