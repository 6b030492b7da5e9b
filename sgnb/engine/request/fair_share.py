"""Fair order of the requests of several clients by tokens. Knows no slots.

The client with the fewest served tokens is next, as in fair queuing by virtual token counters
(Sheng et al., arXiv 2401.00588). While two clients wait, their served tokens differ at most by the
largest request and the outputs in progress. A client that waits again after a pause has no credit
from the pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..cache.radix import Prefix
from .request import Request

Row = tuple[Request, Prefix]
"""A waiting request and its cached prefix."""


class FairShare:
    """Served tokens by client: computed prompt tokens and output tokens. On the engine's thread."""

    def __init__(self) -> None:
        self.served: dict[int, int] = {}
        self._waiting: frozenset[int] = frozenset()  # clients at the last `order`
        self._running: dict[int, tuple[Request, int]] = {}  # by id, with the counted tokens

    def order(self, queues: Mapping[int, Iterator[Row]]) -> Iterator[Row]:
        """Return the requests of all clients in a fair order. Each client's own order stays.

        Args:
            queues: Requests by client. Clients without requests are missing.
        """
        self._count_outputs()
        self._join(frozenset(queues))
        served = {client: self.served[client] for client in queues}
        while served:
            client = min(served, key=served.__getitem__)
            row = next(queues[client], None)
            if row is None:
                del served[client]
            else:
                served[client] += _cost(*row)
                yield row

    def admit(self, request: Request) -> None:
        """Count the prompt tokens that a started request computes, and its output from now on."""
        client = request.cache_scope.client
        uncached = request.num_tokens - request.num_computed
        self.served[client] = self.served.get(client, 0) + uncached
        self._running[request.id] = request, request.num_tokens

    def _join(self, clients: frozenset[int]) -> None:
        """Remove the credit of clients that did not wait before."""
        present = clients & self._waiting
        least = min((self.served[client] for client in present), default=0)
        for client in clients - self._waiting:
            self.served[client] = max(self.served.get(client, 0), least)
        self._waiting = clients

    def _count_outputs(self) -> None:
        running, self._running = self._running, {}
        for id, (request, counted) in running.items():
            client = request.cache_scope.client
            self.served[client] = self.served.get(client, 0) + request.num_tokens - counted
            if hasattr(request, "state"):  # not ended
                self._running[id] = request, request.num_tokens


def _cost(request: Request, prefix: Prefix) -> int:
    """Return the tokens that the first steps of a request compute."""
    return request.num_tokens - min(prefix.length, request.reusable)
