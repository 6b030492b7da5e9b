"""Estimated costs of a call on a worker: time to the first token, and delay of later calls.

All rates are measured. `Workers` is the state behind the estimates, as arrays over workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 20.0
"""Time constant of the mean arrival rate and of the mean busy share, in seconds."""

MAX_BUSY = 0.95
"""Limit of the busy share, for a finite price."""

DEMAND_WINDOW = 5.0
"""Time constant of the mean rate of arriving tokens, in seconds."""

USE_WINDOW = 600.0
"""Time constant of the saved tokens of a cache, in seconds."""

CALLS_TIE = 1e-6
"""Seconds of cost per unfinished call: between idle workers, the worker with fewest calls wins."""

RATE_MEMORY = 0.98
"""Weight of the earlier measurements at each further measurement, of a prefill rate and of the
uncached share."""


class Estimate(NamedTuple):
    """Cost of a call on a worker, in seconds."""

    worker: int
    cached: int  # Cached prompt tokens.
    wait: float  # Time until the prefill.
    work: float  # Prefill of the uncached tokens.
    others: float  # Expected sum of the delays of later calls.
    elsewhere: float = 0.0  # `wait` plus `work` on the least busy worker.

    @property
    def total(self) -> float:
        return self.wait + self.work + self.others


class ComparedWorkers(NamedTuple):
    """Costs of workers at a decision, the cheapest first. Columns, because a decision of a large
    fleet has no time for objects.

    Attributes:
        workers: Numbers of the workers.
        cached: Cached prompt tokens per worker.
        first: Estimated time to the first token per worker, in seconds.
        others: Expected sum of the delays of later calls per worker, in seconds.
    """

    workers: tuple[int, ...] = ()
    cached: tuple[int, ...] = ()
    first: tuple[float, ...] = ()
    others: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a call on each worker, in seconds: arrays as the fields of `Estimate`.

    Attributes:
        cached: Cached prompt tokens, int64[n].
        waits: Wait of each worker; infinite for absent workers, float64[n].
        work: Prefill of the uncached tokens, float64[n].
        price: See `Workers.price`.
        totals: Sums of `waits`, `work` and the delay of later calls, float64[n].
        ties: Small costs of unfinished calls, which decide between equal workers, float64[n].
    """

    cached: NDArray[np.int64]
    waits: NDArray[np.float64]
    work: NDArray[np.float64]
    price: float
    totals: NDArray[np.float64]
    ties: NDArray[np.float64]

    def estimate(self, worker: int, elsewhere: float = 0.0) -> Estimate:
        """Return the cost on a worker."""
        wait, work = self.waits.item(worker), self.work.item(worker)
        others = work * self.price * (wait + work)
        return Estimate(worker, self.cached.item(worker), wait, work, others, elsewhere)

    def cheapest(self, count: int) -> ComparedWorkers:
        """Return the costs of at most `count` present workers, the cheapest first, and the
        smallest number first among equals."""
        order = self.totals + self.ties
        limit = np.inf
        if count < len(order):  # A full sort of 1,000 workers takes longer than the decision.
            limit = np.partition(order, count)[count]
        near = np.flatnonzero((order <= limit) & np.isfinite(order))
        workers = near[order[near].argsort(kind="stable")[:count]]

        work = self.work[workers]
        first = self.waits[workers] + work
        columns = (workers, self.cached[workers], first, work * self.price * first)
        return ComparedWorkers(*(tuple(column.tolist()) for column in columns))


class Workers:
    """Prefill rates, queued work and load of all workers.

    Attributes:
        ready: Estimated time at which each worker ends its queued prefills; infinite for absent
            workers.
        rates: Measured prefill rate of each worker, in tokens per second.
        queued: Uncomputed tokens of booked calls per worker.
        calls: Number of unfinished calls of each worker.
    """

    def __init__(self) -> None:
        self.ready = np.zeros(0)
        self.rates = np.zeros(0)
        self.queued = np.zeros(0)
        self.calls = np.zeros(0)
        self._tokens = np.zeros(0)  # decayed sums of measured prefills
        self._seconds = np.zeros(0)
        self._since = np.zeros(0)  # time of the last prefill, or of the first work after a pause
        self._updated = 0.0
        self._arrivals = 0.0  # decayed count
        self._arrived_tokens = 0.0  # decayed sum
        self._planned = self._uncached = 1.0  # decayed sums of all and of uncached tokens
        self._busy = 0.0  # decayed mean of the share of busy workers
        self._present = 0
        self._draining: set[int] = set()
        self._saved = np.zeros(0)  # decayed sums of cached prompt tokens, at the time `_saved_at`
        self._saved_at = np.zeros(0)

    def __len__(self) -> int:
        """Number of present workers."""
        return self._present

    def add(self, worker: int, rate: float, now: float) -> None:
        """Add a worker. rate: first estimate of the prefill rate."""
        missing = worker + 1 - len(self.ready)
        if missing > 0:
            names = "queued", "calls", "_tokens", "_seconds", "_since", "_saved", "_saved_at"
            for name in names:
                setattr(self, name, np.append(getattr(self, name), np.zeros(missing)))
            self.ready = np.append(self.ready, np.full(missing, inf))
            self.rates = np.append(self.rates, np.ones(missing))
        self.ready[worker], self.rates[worker] = now, rate
        self._tokens[worker], self._seconds[worker] = rate, 1.0
        self.queued[worker] = self.calls[worker] = self._saved[worker] = 0
        self._present += 1

    def remove(self, worker: int) -> None:
        """Remove a worker. Its number can be added again."""
        self.drain(worker)
        self._draining.discard(worker)
        self.queued[worker] = self.calls[worker] = 0

    def drain(self, worker: int) -> None:
        """Exclude a worker from decisions. The worker finishes its calls."""
        if worker not in self._draining:
            self._draining.add(worker)
            self.ready[worker] = inf
            self._present -= 1

    def resume(self, worker: int, now: float) -> None:
        """Undo `drain`."""
        self._draining.discard(worker)
        self.ready[worker] = now + self.queued[worker] / self.rates[worker]
        self._present += 1

    @property
    def active(self) -> list[int]:
        """Workers that take calls."""
        return [int(worker) for worker in np.flatnonzero(np.isfinite(self.ready))]

    @property
    def draining(self) -> list[int]:
        """Workers that finish their calls."""
        return sorted(self._draining)

    def used(self, worker: int, cached: int, now: float) -> None:
        """Count cached prompt tokens of a sent call."""
        decay = exp((self._saved_at.item(worker) - now) / USE_WINDOW)
        self._saved[worker] = self._saved[worker] * decay + cached
        self._saved_at[worker] = now

    def saved_tokens(self, now: float) -> NDArray[np.float64]:
        """Return the prompt tokens that each worker's cache saved lately, decayed, float64[n]."""
        decayed: NDArray[np.float64] = self._saved * np.exp((self._saved_at - now) / USE_WINDOW)
        return decayed

    def waits(self, now: float) -> NDArray[np.float64]:
        """Return the estimated wait on each worker, in seconds, float64[n]."""
        return np.maximum(self.ready - now, 0.0)

    def book(self, worker: int, tokens: float, now: float) -> None:
        """Add tokens to the queued work of the worker."""
        if not self.queued[worker]:
            self._since[worker] = now
        self.queued[worker] += tokens
        self.ready[worker] = max(self.ready[worker], now) + tokens / self.rates[worker]
        self.calls[worker] += 1

    def unbook(self, worker: int, tokens: float, now: float) -> None:
        """Undo `book` for a moved call."""
        self.calls[worker] -= 1
        self._take(worker, tokens, now)

    def computed(self, worker: int, tokens: float, now: float) -> None:
        """Record a completed prefill, and measure the rate of the worker."""
        self._tokens[worker] = self._tokens[worker] * RATE_MEMORY + tokens
        seconds = now - self._since[worker]
        self._seconds[worker] = self._seconds[worker] * RATE_MEMORY + seconds
        self.rates[worker] = self._tokens[worker] / self._seconds[worker]
        self._since[worker] = now
        self._take(worker, tokens, now)

    def finished(self, worker: int) -> None:
        """Record the end of a call."""
        self.calls[worker] -= 1

    def planned(self, tokens: int, uncached: int) -> None:
        """Measure the uncached share of the tokens of a call."""
        self._planned = self._planned * RATE_MEMORY + tokens
        self._uncached = self._uncached * RATE_MEMORY + uncached

    @property
    def uncached_share(self) -> float:
        """Share of computed tokens in the tokens of calls."""
        return self._uncached / self._planned

    def demand(self, now: float) -> float:
        """Return the rate of arriving uncached tokens, in tokens per second."""
        decay = exp((self._updated - now) / DEMAND_WINDOW)
        return self._arrived_tokens * decay / DEMAND_WINDOW * self.uncached_share

    def arrived(self, now: float, tokens: int) -> None:
        """Count an arrival for the arrival rate, the demand and the busy share."""
        decay = exp((self._updated - now) / DEMAND_WINDOW)
        self._arrived_tokens = self._arrived_tokens * decay + tokens
        decay = exp((self._updated - now) / WINDOW)
        self._updated = now
        busy = int(np.count_nonzero(self.queued)) / max(self._present, 1)
        self._busy = self._busy * decay + busy * (1 - decay)
        self._arrivals = self._arrivals * decay + 1

    @property
    def price(self) -> float:
        """Delayed calls per second of work: arrivals before the end of the busy period, times the
        probability of busy workers elsewhere."""
        rate = self._arrivals / WINDOW / max(self._present, 1)
        busy = min(self._busy, MAX_BUSY)
        return rate * busy / (1 - busy)

    def costs(self, cached: NDArray[np.int64], tokens: int, now: float, price: float) -> Costs:
        """Return the costs of a call on each worker.

        Args:
            cached: Cached tokens of the call on each worker, int64[n].
            tokens: All tokens of the call.
            now: Present time.
            price: See `price`.
        """
        waits = self.waits(now)
        work = (tokens - cached) / self.rates
        totals = (waits + work) * (1.0 + price * work)
        return Costs(cached, waits, work, price, totals, CALLS_TIE * self.calls)

    def _take(self, worker: int, tokens: float, now: float) -> None:
        """Remove tokens from the queued work, and correct the estimated end."""
        self.queued[worker] = max(self.queued[worker] - tokens, 0.0)
        if worker not in self._draining:
            self.ready[worker] = now + self.queued[worker] / self.rates[worker]
