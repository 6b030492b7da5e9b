"""Number of workers of a fleet. Pure: no clock, no thread, no I/O; time is an argument.

Workers start if calls wait and the load needs more workers. If n workers were without calls for
some time, n workers end. A draining worker takes no more calls, and ends after the last call. A
lost worker is replaced, unless the worker ends again and again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Set
from functools import partial
from math import inf
from typing import Literal, NamedTuple

from .router import Router

WAIT_SECONDS = 1.0
"""Least wait for the queued prefill that starts a worker."""

PATIENCE = 0.1
"""Time of too long waits before a start, as a share of the time of a start."""

CATCH_UP_SECONDS = 5.0
"""Least time for started workers to compute the prefill queued at the end of the start. A longer
start allows the same time again."""

IDLE_SECONDS = 120.0
"""Time with n workers without calls before n workers end."""

MAX_IDLE_SECONDS = 960.0
"""Maximum of the same time. The time doubles if a worker starts soon after another has ended."""

MAX_PAUSE_SECONDS = 300.0
"""Maximum time between a failed start and the next start. The time doubles from 1 s."""

FAILURES = 3
"""Successive failures after which calls do not wait for the first worker any more."""

MAX_ENDS = 5
"""Ends of a worker within `ENDS_SECONDS` before the worker is given up."""

ENDS_SECONDS = 600.0


class ScalingChange(NamedTuple):
    """A change of a worker: "start", "drain" (no more calls), "resume" or "stop"."""

    action: Literal["start", "drain", "resume", "stop"]
    worker: int
    reason: str


class Scaler:
    """Decisions about the number of workers.

    Args:
        least: Minimum number of workers.
        most: Maximum number of workers, with starting and draining workers.
        start_seconds: First estimate of the time to start a worker.
        prefill: Number of prefill engines, which compute prompts for the workers.

    Attributes:
        starting: Workers that are starting; the caller reports `started` or `failed`.
        starting_prefills: Prefill engines that are starting.
        failures: Failures since the last success.
        given_up: Workers after `MAX_ENDS` ends, without a further start.
    """

    def __init__(self, least: int, most: int, start_seconds: float = 0.0, prefill: int = 0) -> None:
        self.least, self.most, self.prefill = least, most, prefill
        self.starting: set[int] = set()
        self.starting_prefills: set[int] = set()
        self.failures = 0
        self.given_up: set[int] = set()
        self._prefills: Set[int] = frozenset()
        self._ends = defaultdict[int, deque[float]](partial(deque, maxlen=MAX_ENDS))
        self._start_seconds = start_seconds
        self._unproven: set[int] = set()  # started workers before their first token
        self._paused_until = -inf  # no start before, after failures
        self._late_since = inf  # beginning of too long waits
        # Beginnings of the times with at least one, two and more workers without calls.
        self._idle_since: list[float] = []
        self._idle_seconds, self._drained_at = IDLE_SECONDS, -inf

    def decide(
        self,
        router: Router,
        now: float,
        pinned: Set[int] = frozenset(),
        prefills: Set[int] = frozenset(),
    ) -> list[ScalingChange]:
        """Return the changes of this moment, for the caller to carry out.

        The router knows the changes already, and `starting` has the workers to start. Call at
        least once per second while the fleet has calls or more than `least` workers.

        Args:
            router: Router with the workers; `route` must follow.
            now: Time in seconds.
            pinned: Workers with pinned tokens, which do not end.
            prefills: Running prefill engines.
        """
        changes = self._end_drained(router, now, pinned)
        self._prefills = prefills
        active = router.workers.active
        wanted, wait = self._wanted(router, now, active)
        is_late = wanted > len(active) + len(self.starting)
        self._late_since = min(self._late_since, now) if is_late else inf

        idle = sum(router.workers.calls[w] == 0 for w in active) if not self.starting else 0
        self._idle_since = self._idle_since[:idle]
        self._idle_since += [now] * (idle - len(self._idle_since))
        unused = sum(now - since >= self._idle_seconds for since in self._idle_since)

        missing = self.least - len(active) - len(self.starting)
        if missing > 0:
            changes += self._grow(router, now, missing, f"fewer than {self.least} workers")
        elif now - self._late_since >= PATIENCE * self._start_seconds:
            count = wanted - len(active) - len(self.starting)
            grown = self._grow(router, now, count, f"an expected wait of {wait:.1f} s")
            if grown and now - self._drained_at < self._idle_seconds:
                self._idle_seconds = min(2 * self._idle_seconds, MAX_IDLE_SECONDS)
            changes += grown
        elif unused and len(active) > self.least:
            changes += self._shrink(router, now, pinned, min(unused, len(active) - self.least))
        return changes + self._replace_prefills(router, now)

    def _wanted(self, router: Router, now: float, active: list[int]) -> tuple[int, float]:
        """Return the needed number of workers, and the wait for the queued prefill.

        A worker computes nothing before the end of the start. Afterwards, the workers should keep
        up with the arriving calls, and compute the queued prefill in the time of a start.
        """
        if not active:
            return 0, 0.0
        rate = float(router.workers.rates[active].mean())
        backlog, demand = router.backlog() / rate, router.workers.demand(now) / rate
        wait = backlog / len(active)
        if wait <= WAIT_SECONDS:
            return 0, wait
        start = self._start_seconds
        queued = max(backlog + (demand - len(active)) * start, 0.0)
        wanted = int(demand + queued / max(start, CATCH_UP_SECONDS))
        return min(wanted, self.most), wait

    @property
    def tries_again(self) -> bool:
        """True if calls should wait for a worker, although none is present."""
        may_start = self.failures < FAILURES and len(self.given_up) < self.most + self.prefill
        return bool(self.starting) or may_start

    def started(self, worker: int, seconds: float) -> None:
        """Record the end of a start, which took `seconds`."""
        self.starting.discard(worker)
        self._unproven.add(worker)
        self._start_seconds = seconds

    def started_prefill(self, number: int) -> None:
        """Record the end of the start of a prefill engine."""
        self.starting_prefills.discard(number)
        self.failures = 0

    def succeeded(self, worker: int) -> None:
        """Record the first token of a worker."""
        if worker in self._unproven:
            self._unproven.discard(worker)
            self.failures = 0

    def lost(self, worker: int, now: float) -> None:
        """Record the end of a joined worker or a prefill engine. The next decision replaces the
        engine."""
        ends = self._ends[worker]
        ends.append(now)
        if len(ends) == MAX_ENDS and now - ends[0] <= ENDS_SECONDS:
            self.given_up.add(worker)

    def failed(self, worker: int, now: float) -> None:
        """Record a failed start, or the end of a worker before its first token."""
        self.starting.discard(worker)
        self.starting_prefills.discard(worker)
        self._unproven.discard(worker)
        self.failures += 1
        self._paused_until = now + min(2.0 ** (self.failures - 1), MAX_PAUSE_SECONDS)

    def _end_drained(self, router: Router, now: float, pinned: Set[int]) -> list[ScalingChange]:
        """End draining workers without calls."""
        changes: list[ScalingChange] = []
        for worker in router.workers.draining:
            if worker in pinned:
                router.resume(worker, now)
                changes.append(ScalingChange("resume", worker, "tokens are pinned"))
            elif router.workers.calls[worker] == 0:
                router.lose(worker, now)
                changes.append(ScalingChange("stop", worker, "not needed"))
        return changes

    def _grow(self, router: Router, now: float, count: int, reason: str) -> list[ScalingChange]:
        """Resume draining workers, or start workers, up to the maximum."""
        changes: list[ScalingChange] = []
        for _ in range(count):
            active, draining = router.workers.active, router.workers.draining
            if draining:
                router.resume(draining[0], now)
                changes.append(ScalingChange("resume", draining[0], reason))
            elif now >= self._paused_until and len(active) + len(self.starting) < self.most:
                worker = self._free_number(router)
                if worker is None:
                    break
                self.starting.add(worker)
                changes.append(ScalingChange("start", worker, reason))
        return changes

    def _replace_prefills(self, router: Router, now: float) -> list[ScalingChange]:
        """Start a prefill engine for each missing prefill engine."""
        changes: list[ScalingChange] = []
        missing = self.prefill - len(self._prefills) - len(self.starting_prefills)
        for _ in range(missing if now >= self._paused_until else 0):
            number = self._free_number(router)
            if number is None:
                break
            self.starting_prefills.add(number)
            reason = f"fewer than {self.prefill} prefill engines"
            changes.append(ScalingChange("start", number, reason))
        return changes

    def _free_number(self, router: Router) -> int | None:
        """Return the least number without an engine; None if the other numbers are given up."""
        workers = {*router.workers.active, *router.workers.draining, *self.starting}
        used = {*workers, *self._prefills, *self.starting_prefills, *self.given_up}
        return next((n for n in range(self.most + self.prefill) if n not in used), None)

    def _shrink(
        self, router: Router, now: float, pinned: Set[int], count: int
    ) -> list[ScalingChange]:
        """Drain at most `count` workers with the least useful caches."""
        saved, cached = router.workers.saved_tokens(now), router.index.cached
        workers = [worker for worker in router.workers.active if worker not in pinned]
        workers.sort(key=lambda w: (saved.item(w), len(cached(w)), -w))
        seconds = f"{self._idle_seconds:g} s"
        reason = f"{count} of {len(router.workers.active)} workers had no calls for {seconds}"
        changes: list[ScalingChange] = []
        for worker in workers[:count]:
            router.drain(worker, now)
            changes.append(ScalingChange("drain", worker, reason))
        if changes:
            self._idle_since, self._drained_at = self._idle_since[len(changes) :], now
        return changes
