"""Waiting items of several clients, in a fair order by tokens."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar


class HasClient(Protocol):
    @property
    def client(self) -> str: ...


T = TypeVar("T", bound=HasClient)


class FairQueue(Generic[T]):
    """Deficit round robin over clients. The cost of an item is charged after `pop`, when the
    number of uncached tokens is known; a client waits until the credit is positive.

    Args:
        quantum: Credit per client and round, in tokens.
    """

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()  # clients in the round's order
        self._credits: dict[str, float] = {}  # credits of waiting clients, and debts
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, item: T, first: bool = False) -> None:
        """Add an item at the end of the client's items, or at the start with `first`."""
        items = self._waiting.setdefault(item.client, deque())
        (items.appendleft if first else items.append)(item)
        self._credits.setdefault(item.client, 0.0)
        self._length += 1

    def pop(self) -> T:
        """Remove and return the next item; `charge` must follow. The queue must not be empty."""
        while True:
            client, items = next(iter(self._waiting.items()))
            if self._credits[client] > 0:
                break
            self._credits[client] += self._quantum
            self._waiting.move_to_end(client)
        self._length -= 1
        item = items.popleft()
        if not items:
            del self._waiting[client]
        return item

    def charge(self, client: str, tokens: float) -> None:
        """Charge a client for an item. A client without items keeps a debt, not a credit, until no
        client waits."""
        self._credits[client] -= tokens
        if not self._waiting:
            self._credits.clear()
        elif client not in self._waiting and self._credits[client] >= 0:
            del self._credits[client]
