"""Queue of waiting requests and their order. Knows no slots.

Longest cached prefix first (Zheng et al., arXiv 2312.07104, theorem 3.1: optimal for a batch known
in advance), aged against starvation.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, ValuesView
from typing import Literal, get_args

from ..cache.manager import CacheManager
from ..cache.radix import Prefix
from .fair_share import FairShare
from .request import Request, RequestFault

SchedulePolicy = Literal["lpm", "fcfs"]
SCHEDULE_POLICIES: tuple[SchedulePolicy, ...] = get_args(SchedulePolicy)

WINDOW = 2048
"""Maximum number of ranked requests per client, the oldest, with recurrent layers. Such prefixes
end at checkpoints, which are not watched, so each step looks up all prefixes."""

Rank = tuple[float, int, Request]
"""Age minus cached prefix, position in the queue, request. The smallest rank starts first."""


class WaitingQueue:
    """Waiting requests and their ranks.

    A step looks up the prefixes of new requests and of requests whose prefix changed. Otherwise a
    batch of thousands of requests would cost milliseconds per step.

    Args:
        cache: Source of the cached prefixes.
        policy: "lpm" (longest prefix match, aged) or "fcfs".
        ageing: Tokens of cached prefix that equal one step of waiting.
    """

    def __init__(self, cache: CacheManager, policy: SchedulePolicy, *, ageing: float) -> None:
        self.policy: SchedulePolicy = policy
        self.fair_share: FairShare | None = None  # of an engine with several clients
        self._cache, self._ageing = cache, ageing
        self._requests: OrderedDict[int, Request] = OrderedDict()  # by id, the oldest first
        self._first = self._last = 0  # positions of the ends
        self._positions: dict[int, int] = {}
        self._ranks: dict[int, Rank] = {}
        self._queues: dict[int, list[Rank]] = {}  # ranks by client, sorted
        self._unranked: dict[int, Request] = {}
        self._ranked_by: SchedulePolicy = policy

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, id: int) -> bool:
        return id in self._requests

    def values(self) -> ValuesView[Request]:
        """Return the requests, the oldest first."""
        return self._requests.values()

    def append(self, request: Request) -> None:
        """Add a request at the end of the queue."""
        self._last += 1
        self._add(request, self._last)

    def put_first(self, request: Request) -> None:
        """Add a request at the head of the queue."""
        self._first -= 1
        self._add(request, self._first)
        self._requests.move_to_end(request.id, last=False)

    def remove(self, id: int) -> bool:
        """Remove a request. Returns whether the request was waiting."""
        if self._requests.pop(id, None) is None:
            return False
        del self._positions[id]
        self._unranked.pop(id, None)
        self._unrank(id)
        self._cache.tree.watch.forget(id)
        return True

    def admit(self, request: Request) -> None:
        """Remove a request that has started."""
        self.remove(request.id)
        if self.fair_share is not None:
            self.fair_share.admit(request)

    def ranked(self) -> Iterator[tuple[Request, Prefix]]:
        """Return the requests with their cached prefixes: longest aged prefix first, then by age;
        with several clients, in a fair order of the clients. Retracted requests whose last token is
        not read yet are missing. The queue must not change meanwhile."""
        self._rank()
        if self.fair_share is None:
            return self._look_up_each(heapq.merge(*self._queues.values()))
        queues = {client: self._look_up_each(ranks) for client, ranks in self._queues.items()}
        return self.fair_share.order(queues)

    @property
    def reads_late(self) -> bool:
        """True if a request is not ranked because its last token is not read yet."""
        return any(request.num_placeholders for request in self._unranked.values())

    def _add(self, request: Request, position: int) -> None:
        self._requests[request.id] = self._unranked[request.id] = request
        self._positions[request.id] = position

    def _rank(self) -> None:
        """Rank new requests, and requests with another prefix than at the last call."""
        for id in self._cache.tree.watch.take_changed():
            self._unrank(id)
            self._unranked[id] = self._requests[id]
        if self._cache.checkpoints is not None or self.policy != self._ranked_by:
            self._ranks, self._queues, self._ranked_by = {}, {}, self.policy
            ranks_all = self._cache.checkpoints is None
            self._unranked = dict(self._requests if ranks_all else self._oldest())

        for id, request in list(self._unranked.items()):
            if request.num_placeholders:
                continue
            rank = self._ranks[id] = self._aged(request), self._positions[id], request
            insort(self._queues.setdefault(request.cache_scope.client, []), rank)
            del self._unranked[id]

    def _oldest(self) -> Iterator[tuple[int, Request]]:
        """Yield the `WINDOW` oldest requests of each client."""
        counts = Counter[int]()
        for id, request in self._requests.items():
            counts[request.cache_scope.client] += 1
            if counts[request.cache_scope.client] <= WINDOW:
                yield id, request

    def _unrank(self, id: int) -> None:
        rank = self._ranks.pop(id, None)
        if rank is not None:
            client = rank[-1].cache_scope.client
            queue = self._queues[client]
            del queue[bisect_left(queue, rank)]
            if not queue:
                del self._queues[client]

    def _aged(self, request: Request) -> float:
        """Return the first part of a request's rank, and watch the request's prefix."""
        if self.policy != "lpm" or not self._cache.prefix_cache:
            return 0.0
        length = min(self._look_up(request).length, request.reusable)
        hint = request.prefix_hint
        if hint is not None and self._cache.checkpoints is None:
            self._cache.tree.watch.watch(request.id, hint.node.id, hint.key)
        return request.arrival * self._ageing - length

    def _look_up_each(self, ranks: Iterable[Rank]) -> Iterator[tuple[Request, Prefix]]:
        return ((request, self._look_up(request)) for _, _, request in ranks)

    def _look_up(self, request: Request) -> Prefix:
        try:
            return self._cache.look_up(request)
        except Exception as error:
            raise RequestFault(request, error) from error
