"""How long the engine's own accounts take: tree, scheduler and events, by a stopwatch around their
methods."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

METHODS = ("add", "schedule", "complete", "requeue_rewritten", "free_early", "finish")
"""Of the scheduler, which alone calls the tree."""


class Stopwatch:
    """In a `with`: seconds that the engine's thread spends in the scheduler and in the log, by
    part.

    What the scheduler emits counts as events alone. The clock itself, twice a call, counts as
    theirs.
    """

    def __init__(self, engine: Any) -> None:
        self.seconds = {"tree and scheduler": 0.0, "events": 0.0}
        self._scheduler, self._log = engine._scheduler, engine.log
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Stopwatch:
        for name in METHODS:
            self._wrap(self._scheduler, name, "tree and scheduler")
        self._wrap(self._log, "emit", "events")
        emit = self._log.emit
        # Both were given the log's method itself.
        for owner in (self._scheduler, self._scheduler.cache.tree):
            self._replace(owner, "_emit", emit)
        return self

    def __exit__(self, *exc: object) -> None:
        for undo in reversed(self._undo):
            undo()

    def _wrap(self, owner: Any, name: str, part: str) -> None:
        method, seconds = getattr(owner, name), self.seconds

        def timed(*arguments: Any) -> Any:
            inner = seconds["events"] if part != "events" else 0.0
            began = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                spent = time.perf_counter() - began
                seconds[part] += spent - (seconds["events"] - inner if part != "events" else 0.0)

        self._replace(owner, name, timed)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        own, before = name in vars(owner), getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before) if own else delattr(owner, name))


class Times(NamedTuple):
    """Milliseconds."""

    median: float
    worst: float


def schedule_milliseconds(
    sequences: int = 100_000, length: int = 16, rows: int = 64, steps: int = 200
) -> Times:
    """A step of the scheduler while `sequences` of that length are cached, `rows` requests run and
    as many wait."""
    import numpy as np

    from sgnb.engine.cache.manager import CacheManager
    from sgnb.engine.cache.slot_allocator import SlotAllocator
    from sgnb.engine.request.request import Request
    from sgnb.engine.scheduler import Scheduler
    from sgnb.sampling import SamplingParams

    pool = SlotAllocator(sequences * length + rows * 1000)
    cache = CacheManager(pool)
    scheduler = Scheduler(cache, context_length=4096, max_step_tokens=8192, max_running=rows)
    names = np.random.default_rng(0).integers(0, 1 << 30, (sequences, length), dtype=np.int32)
    for row in names:
        cache.tree.insert(row, pool.allocate(length))
    waiting = iter(range(1, sequences))
    params = SamplingParams(max_new_tokens=32)
    times = []
    for _ in range(steps):
        while len(scheduler.waiting) < rows:
            number = next(waiting)
            scheduler.add(Request(number, [*names[number].tolist(), number], params, 32))
        began = time.perf_counter()
        batch = scheduler.schedule()
        scheduler.complete(batch)
        times.append((time.perf_counter() - began) * 1000)
        for request in compress(batch.requests, batch.samples):
            request.append(1)
            scheduler.requeue_rewritten(request)
            if request.remaining == 0:
                scheduler.finish(request)
    return Times(sorted(times)[len(times) // 2], max(times))
