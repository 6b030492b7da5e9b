"""The requests that wait to start, and in which order. Knows no slots.

Ordered by the longest cached prefix (Zheng et al., arXiv 2312.07104, theorem 3.1: optimal for a
batch known in advance), aged so that none starves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Literal, get_args

from ..cache.radix import Prefix, RadixTree, common_length
from .request import Request

SchedulePolicy = Literal["lpm", "fcfs"]
SCHEDULE_POLICIES: tuple[SchedulePolicy, ...] = get_args(SchedulePolicy)

COMPARED = 16
"""Requests whose prompts are compared with that of one that starts."""


class WaitingQueue(OrderedDict[int, Request]):
    """By id, the oldest first.

    policy: "lpm" (longest prefix match, aged) or "fcfs". ageing: tokens of a cached prefix that a
    step of waiting outweighs. window: how many of the oldest are ranked. prefix_cache: whether
    requests find anything in the tree. by_checkpoint: a cached prefix reaches to a checkpoint only.
    """

    def __init__(
        self,
        tree: RadixTree,
        policy: SchedulePolicy,
        *,
        ageing: float,
        window: int,
        prefix_cache: bool,
        by_checkpoint: bool,
    ) -> None:
        super().__init__()
        self.policy: SchedulePolicy = policy
        self._tree = tree
        self._ageing, self._window = ageing, window
        self._prefix_cache, self._by_checkpoint = prefix_cache, by_checkpoint

    def put_first(self, request: Request) -> None:
        self[request.id] = request
        self.move_to_end(request.id, last=False)

    def rank(self, request: Request) -> float:
        """The smallest is that of the first, in the order of `ranked`."""
        if self.policy == "lpm" and self._prefix_cache:
            length = min(self._look_up(request).length, request.reusable)
            return request.arrival * self._ageing - length
        return request.arrival

    def ranked(self) -> Iterable[tuple[Request, Prefix]]:
        """The oldest with what the cache has of them; longest aged prefix first, then by age.

        Without those whose last token is not read yet: they were retracted.
        """
        found = ((r, self._look_up(r)) for r in self._oldest() if not r.num_placeholders)
        if self.policy == "lpm" and self._prefix_cache:
            # `rank`, without a call for each.
            return sorted(
                found, key=lambda f: f[0].arrival * self._ageing - min(f[1].length, f[0].reusable)
            )
        return found

    @property
    def reads_late(self) -> bool:
        """Whether some of the oldest are not ranked yet, as their last token is still to be
        read."""
        return any(request.num_placeholders for request in self._oldest())

    def begin_alike(self, request: Request) -> list[int]:
        """Of other requests, a few of the oldest in its namespace, the tokens that each has in
        common with this one, and may take from the cache."""
        namespace, tokens = request.sharing.namespace, request.tokens
        return [
            min(common_length(tokens, other.tokens), other.reusable)
            for other in islice(self.values(), COMPARED)
            if other is not request and other.sharing.namespace == namespace
        ]

    def _oldest(self) -> Iterable[Request]:
        """Those that are ranked."""
        return islice(self.values(), self._window)

    def _look_up(self, request: Request) -> Prefix:
        prefix, namespace = request.prefix_hint, request.sharing.namespace
        if namespace is None:
            return Prefix(self._tree.root, 0)
        if prefix is None or not prefix.holds:
            prefix = request.prefix_hint = self._tree.peek(request.tokens, namespace, prefix)
        if self._by_checkpoint:
            node = prefix.node.checkpoint(request.reusable)
            return Prefix(node, node.end)
        return prefix
