"""Queue of waiting requests and their order. Knows no slots.

Longest cached prefix first (Zheng et al., arXiv 2312.07104, theorem 3.1: optimal for a batch known
in advance), aged against starvation.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Literal, get_args

from ..cache.manager import CacheManager
from ..cache.radix import Prefix
from .fair_share import FairShare
from .request import Request, RequestFault

SchedulePolicy = Literal["lpm", "fcfs"]
SCHEDULE_POLICIES: tuple[SchedulePolicy, ...] = get_args(SchedulePolicy)


class WaitingQueue(OrderedDict[int, Request]):
    """Waiting requests by id, the oldest first.

    Args:
        cache: Source of the cached prefixes.
        policy: "lpm" (longest prefix match, aged) or "fcfs".
        ageing: Tokens of cached prefix that equal one step of waiting.
        window: Number of requests, the oldest, that are ranked.
    """

    def __init__(
        self, cache: CacheManager, policy: SchedulePolicy, *, ageing: float, window: int
    ) -> None:
        super().__init__()
        self.policy: SchedulePolicy = policy
        self.fair_share: FairShare | None = None  # of an engine with several clients
        self._cache = cache
        self._ageing, self._window = ageing, window

    def put_first(self, request: Request) -> None:
        """Add a request at the head of the queue."""
        self[request.id] = request
        self.move_to_end(request.id, last=False)

    def ranked(self) -> Iterable[tuple[Request, Prefix]]:
        """Return the oldest requests with their cached prefixes: longest aged prefix first, then by
        age; with several clients, in a fair order of the clients. Retracted requests whose last
        token is not read yet are missing."""
        rows: Iterable[tuple[Request, Prefix]]
        if self.policy != "lpm" or not self._cache.prefix_cache:
            rows = ((r, self._look_up(r)) for r in self._oldest() if not r.num_placeholders)
        else:
            rows = self._by_rank()
        return rows if self.fair_share is None else self.fair_share.order(rows)

    def admit(self, id: int) -> None:
        """Remove a request that has started."""
        request = self.pop(id)
        if self.fair_share is not None:
            self.fair_share.admit(request)

    def _by_rank(self) -> list[tuple[Request, Prefix]]:
        """See `ranked`. The smallest key is first."""
        look_up, ageing = self._cache.look_up, self._ageing
        rows = []

        for request in self._oldest():
            if request.num_tokens_with_placeholders > request.num_tokens:
                continue
            try:
                prefix = look_up(request)
            except Exception as error:
                raise RequestFault(request, error) from error

            length = prefix.length and min(prefix.length, request.reusable)
            rows.append((request.arrival * ageing - length, (request, prefix)))
        rows.sort(key=itemgetter(0))
        return [row for _, row in rows]

    @property
    def reads_late(self) -> bool:
        """True if an old request is not ranked because its last token is not read yet."""
        return any(request.num_placeholders for request in self._oldest())

    def _oldest(self) -> Iterable[Request]:
        if self.fair_share is None or len(self) <= self._window:
            return islice(self.values(), self._window)
        return self._oldest_of_each_client()

    def _oldest_of_each_client(self) -> Iterator[Request]:
        counts = Counter[int]()
        for request in self.values():
            counts[request.cache_scope.client] += 1
            if counts[request.cache_scope.client] <= self._window:
                yield request

    def _look_up(self, request: Request) -> Prefix:
        try:
            return self._cache.look_up(request)
        except Exception as error:
            raise RequestFault(request, error) from error
