"""Routing of calls to workers. Pure: no clock, no thread, no I/O; time is an argument.

An item waits in a fair queue until some worker has little work (late binding). Then the worker of
least cost is planned: the holder of a prefix wins if waiting costs less than computing the
prefix elsewhere. A planned item is sent at most `STEPS_AHEAD` engine steps before the prefill, and
moves if another worker is idle before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .block_index import BlockIndex, Key, Level
from .cost import ComparedWorkers, Costs, Estimate, Workers
from .fairness import FairQueue

STEPS_AHEAD = 2
"""Maximum engine steps of sent prefill per worker."""

PLANNED_STEPS = 16
"""Engine steps of queued prefill per worker. Further items stay in the fair queue."""

MOVED_ITEMS = 4
"""Maximum number of compared items for an idle worker."""

FOLLOWED_COST = 2.0
"""A branch follows the other branches of a fork up to this multiple of the least cost."""


@dataclass(slots=True, eq=False)
class RoutedCalls:
    """Calls with one route: a call, the branches of a fork or the choices of a select.

    Attributes:
        client: Client for fairness.
        keys: Keys of the full blocks of the prompt shared by all calls.
        tokens: Tokens of the shared prompt.
        own_tokens: Sum of the tokens of each call after the shared prompt.
        sibling: Earlier calls of the same fork.
        route: The present decision; None while the item waits in the fair queue.
        compared: The workers of least cost at the decision.
    """

    client: str
    keys: Sequence[Key]
    tokens: int
    own_tokens: int = 0
    sibling: RoutedCalls | None = None
    route: Estimate | None = None
    compared: ComparedWorkers = field(default_factory=ComparedWorkers)
    booked: Sequence[Key] = ()
    sent: bool = False
    computed: bool = False

    @property
    def all_tokens(self) -> int:
        return self.tokens + self.own_tokens

    @property
    def estimate(self) -> Estimate:
        assert self.route is not None  # decided
        return self.route

    @property
    def uncached(self) -> int:
        """Tokens to compute on the chosen worker."""
        return self.all_tokens - self.estimate.cached


@dataclass(slots=True)
class _WorkerQueue:
    """Items of a worker before their first token, and after."""

    planned: deque[RoutedCalls] = field(default_factory=deque)
    sent: dict[RoutedCalls, None] = field(default_factory=dict)
    ahead: float = 0.0  # tokens of sent items before their first token


class Router:
    """Decisions for calls on a fleet. `route` must follow all changes.

    Args:
        index: Index of the workers' caches; the caller applies the workers' events.
        block: Tokens of a block of the index.
        step_tokens: Prefill tokens of an engine step.
        price: Factor of the delay of later calls in the cost.
        compared: Maximum number of workers in `RoutedCalls.compared`.
    """

    def __init__(
        self,
        index: BlockIndex,
        *,
        block: int = 64,
        step_tokens: int = 8192,
        price: float = 1.0,
        compared: int = 0,
    ) -> None:
        self.index = index
        self.workers = Workers()
        self._block, self._step_tokens, self._price = block, step_tokens, price
        self._compared = compared
        self._queue = FairQueue[RoutedCalls](step_tokens)
        self._queues = defaultdict[int, _WorkerQueue](_WorkerQueue)
        self._waiting_tokens = 0  # of the fair queue
        self._changed: dict[int, None] = {}  # workers with new plans or less work

    @property
    def waiting(self) -> int:
        """Number of items in the fair queue, without a worker."""
        return len(self._queue)

    def join(self, worker: int, rate: float, now: float) -> None:
        """Add a worker with the first estimate of its prefill rate, in tokens per second."""
        self.workers.add(worker, rate, now)
        self._changed[worker] = None

    def drain(self, worker: int, now: float) -> None:
        """Plan no further items for a worker. Planned items return to the fair queue."""
        planned = self._queues[worker].planned
        while planned:
            item = planned.pop()
            self._unbook(item, now)
            self._push(item, first=True)
        self.workers.drain(worker)

    def resume(self, worker: int, now: float) -> None:
        """Undo `drain`."""
        self.workers.resume(worker, now)
        self._changed[worker] = None

    def backlog(self) -> float:
        """Return the uncomputed tokens of all calls."""
        waiting = self._waiting_tokens * self.workers.uncached_share
        return waiting + float(self.workers.queued[self.workers.active].sum())

    def lose(self, worker: int, now: float) -> list[RoutedCalls]:
        """Remove a worker. Planned items return to the fair queue.

        Returns:
            The sent, unfinished items. The caller submits new items with the received tokens.
        """
        self.drain(worker, now)
        queue = self._queues.pop(worker)
        for item in queue.sent:
            self.index.unbook(worker, item.booked)
        self.workers.remove(worker)
        self.index.forget(worker)
        self._changed.pop(worker, None)
        return list(queue.sent)

    def submit(self, item: RoutedCalls, now: float, first: bool = False) -> None:
        """Queue an item; `first`: at the start of the items of the client."""
        self.workers.arrived(now, item.all_tokens)
        self._push(item, first)

    def route(self, now: float) -> list[RoutedCalls]:
        """Return the items to send now, each with its decision in `estimate`."""
        while self._queue and self._takes_more(now):
            item = self._queue.pop()
            self._waiting_tokens -= item.all_tokens
            self._plan(item, now)
            self._queue.charge(item.client, item.uncached)

        changed, self._changed = self._changed, {}
        sent: list[RoutedCalls] = []
        for worker in changed:
            queue = self._queues[worker]
            if not queue.planned and not self.workers.queued[worker]:
                self._relieve_busiest(now)
            self._send(queue, sent, now)
        for worker in self._changed:  # with moved items
            self._send(self._queues[worker], sent, now)
        self._changed.clear()
        return sent

    def prefilled(self, item: RoutedCalls, now: float) -> None:
        """Record the first token of a sent item, or the end without a token."""
        if item.computed:
            return
        item.computed = True
        worker = item.estimate.worker
        self._queues[worker].ahead -= item.uncached
        self.workers.computed(worker, item.uncached, now)
        self._changed[worker] = None

    def finished(self, item: RoutedCalls, now: float) -> None:
        """Record the end of all calls of a sent item, after the events of the worker's cache."""
        self.prefilled(item, now)
        worker = item.estimate.worker
        del self._queues[worker].sent[item]
        self.index.unbook(worker, item.booked)
        self.workers.finished(worker)

    def costs(self, item: RoutedCalls, now: float) -> Costs:
        """Return the costs of an item on each worker."""
        blocks = _held_blocks(self.index.levels(item.keys), len(self.workers.ready))
        cached = np.minimum(blocks * self._block, max(item.tokens - 1, 0))
        return self.workers.costs(cached, item.all_tokens, now, self._price * self.workers.price)

    def decide(self, item: RoutedCalls, costs: Costs) -> Estimate:
        """Return the worker of least cost, without a booking. Needs a worker.

        The wait for the holder of a prefix has a limit: twice the time to the first token on the
        least busy worker. Wrong estimates therefore starve no item.
        """
        least_busy = int((costs.waits + costs.ties).argmin())
        full = item.all_tokens / self.workers.rates.item(least_busy)
        elsewhere = costs.waits.item(least_busy) + full

        order = costs.totals + costs.ties
        order[costs.waits > 2 * elsewhere] = np.inf
        best = int(order.argmin())
        followed = item.sibling.route.worker if item.sibling and item.sibling.route else best
        if costs.totals[followed] <= FOLLOWED_COST * costs.totals[best]:
            best = followed
        return costs.estimate(best, elsewhere)

    def _push(self, item: RoutedCalls, first: bool) -> None:
        self._waiting_tokens += item.all_tokens
        self._queue.push(item, first)

    def _takes_more(self, now: float) -> bool:
        """Return whether a worker has few planned tokens."""
        if not len(self.workers):
            return False
        worker = int(self.workers.ready.argmin())
        return bool(self.workers.queued[worker] < PLANNED_STEPS * self._step_tokens)

    def _plan(self, item: RoutedCalls, now: float) -> None:
        costs = self.costs(item, now)
        item.compared = costs.cheapest(self._compared)
        self._book(item, self.decide(item, costs), now)
        self.workers.planned(item.all_tokens, item.uncached)
        self._queues[item.estimate.worker].planned.append(item)

    def _book(self, item: RoutedCalls, route: Estimate, now: float) -> None:
        item.route = route
        item.booked = item.keys[-(-route.cached // self._block) :]
        self.index.book(route.worker, item.booked)
        self.workers.book(route.worker, item.uncached, now)
        self._changed[route.worker] = None

    def _unbook(self, item: RoutedCalls, now: float) -> None:
        worker = item.estimate.worker
        self.index.unbook(worker, item.booked)
        self.workers.unbook(worker, item.uncached, now)

    def _send(self, queue: _WorkerQueue, sent: list[RoutedCalls], now: float) -> None:
        """Send planned items, at most `STEPS_AHEAD` steps ahead."""
        limit = STEPS_AHEAD * self._step_tokens
        while queue.planned and queue.ahead < limit:
            item = queue.planned.popleft()
            item.sent = True
            queue.ahead += item.uncached
            queue.sent[item] = None
            self.workers.used(item.estimate.worker, item.estimate.cached, now)
            sent.append(item)

    def _relieve_busiest(self, now: float) -> None:
        """Decide again about the last planned items of the worker with the longest wait."""
        ready = self.workers.ready
        busiest = int(np.where(np.isfinite(ready), ready, -np.inf).argmax())
        planned = self._queues[busiest].planned
        for item in list(planned)[-MOVED_ITEMS:]:
            before = item.estimate
            self._unbook(item, now)
            costs = self.costs(item, now)
            route, wait = self.decide(item, costs), costs.waits.item(busiest)
            moves = route.worker != busiest and 2 * route.total < wait + before.work
            self._book(item, route if moves else before, now)
            if moves:
                item.compared = costs.cheapest(self._compared)
                planned.remove(item)
                self._queues[route.worker].planned.append(item)


def _held_blocks(levels: Sequence[Level], count: int) -> NDArray[np.int64]:
    """Return the number of leading blocks in the cache of each worker, int64[count]. A worker with
    a longer part has all shorter parts."""
    if not levels:
        return np.zeros(count, np.int64)
    size = -(-count // 8)
    bitsets = b"".join(level.workers.to_bytes(size, "little") for level in levels)
    packed = np.frombuffer(bitsets, np.uint8).reshape(len(levels), size)
    members = np.unpackbits(packed, axis=1, count=count, bitorder="little")
    # Sums of int16 are 8 times as fast as NumPy's default for bytes.
    depths = members.sum(axis=0, dtype=np.int16)
    return np.array([0, *(level.blocks for level in levels)])[depths]
