"""Programs that have reserved what they hold of the KV cache at most, and which of them may run: so
many that all fit into the pool at once, and none is retracted for want of memory.

In the order of their first requests' ranks, and while the first does not fit none is admitted: a
large one is not overtaken for ever, and runs alone where it is larger than the pool. An admitted
program waits for no program that is held: each ends, and gives its share back. What programs begin
with counts once.

How much of what they may write programs do write is seen at their ends. Of the slots that are for
that, as large a share counts as any of the last few has used: where answers are short, more run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

import numpy as np

from ...reservation import Reservation
from ..cache.radix import Node, RadixTree
from .request import Request

RANKED = 256
"""Programs that wait, of which the first is looked for: the oldest."""

RECENT = 16
"""Programs that ended last: the others are taken to write no larger share of what they may."""


class ProgramGate:
    """capacity: gives the slots that programs may hold together. rank: of a first request; the
    smallest comes first, of equal ones the oldest."""

    def __init__(self, capacity: Callable[[], int], rank: Callable[[Request], float]) -> None:
        self._capacity, self._rank = capacity, rank
        self._prefixes = RadixTree()  # of the admitted, locked; its slots mean nothing
        self._admitted: dict[Reservation, tuple[Node, int]] = {}  # where its prefix ends, and own
        self._own = 0  # slots of the admitted beside their prefixes, and of those
        self._open = 0  # for what is to be written
        self._shares: deque[float] = deque(maxlen=RECENT)  # of that, used by who ended
        self._held: dict[Reservation, list[Request]] = {}  # the others, the oldest first
        self._full = False  # the first of them does not fit, and nothing has changed since

    def __len__(self) -> int:
        """Requests that are held."""
        return sum(map(len, self._held.values()))

    @property
    def reserved(self) -> int:
        """Slots of the admitted."""
        return self._prefixes.locked + self._own - self._unused(self._open)

    def enter(self, request: Request) -> list[Request]:
        """The request, if its program is admitted, or can be now. Else it is held, and nothing
        comes of it yet."""
        reservation = request.sharing.reservation
        assert reservation is not None
        if reservation in self._admitted:
            return [request]
        self._held.setdefault(reservation, []).append(request)
        return [] if self._full else self._admit()

    def release(self, reservation: Reservation, made: int | None = None) -> list[Request]:
        """The program is over. The requests that may run for that. made: the tokens that its
        generations wrote, if it ended as it was to."""
        if made is not None and reservation.new:
            self._shares.append(min(1.0, made / reservation.new))
        self._held.pop(reservation, None)
        if reservation in self._admitted:
            node, own = self._admitted.pop(reservation)
            self._own -= own
            self._open -= _open(reservation)
            self._forget(node)
        return self._admit()

    def drop(self, request: Request) -> list[Request]:
        """The request ended, held or not. Those that may run for that."""
        reservation = request.sharing.reservation
        held = self._held.get(reservation, []) if reservation is not None else []
        if request not in held:
            return []
        held.remove(request)
        if held or reservation is None:
            return []
        del self._held[reservation]
        return self._admit()

    def admit_first(self) -> list[Request]:
        """Admit the first program in line without a test of its size, and return its requests.
        Call this if nothing runs: the admitted programs do not wait for slots."""
        for reservation, requests in self._ranked()[:1]:
            self._take(reservation, requests[0].sharing.namespace, must_fit=False)
            return self._held.pop(reservation)
        return []

    def _admit(self) -> list[Request]:
        """Admit the first programs in line, as many as fit; their requests."""
        entered: list[Request] = []
        self._full = False
        for reservation, requests in self._ranked():
            self._full = not self._take(reservation, requests[0].sharing.namespace)
            if self._full:
                break
            entered += self._held.pop(reservation)
        return entered

    def _ranked(self) -> list[tuple[Reservation, list[Request]]]:
        """Return the oldest held programs in the order of admission."""
        oldest = islice(self._held.items(), RANKED)
        return sorted(oldest, key=lambda program: self._rank(program[1][0]))

    def _take(self, reservation: Reservation, namespace: str | None, must_fit: bool = True) -> bool:
        """Admit a program if no other is admitted, or if all fit. Returns False otherwise.
        namespace: part of the cache with the program's prefix; None to share no prefix."""
        tokens = np.array(() if namespace is None else reservation.prefix, np.int32)
        own = reservation.own + len(reservation.prefix) - len(tokens)
        node = self._prefixes.insert(tokens, tokens, namespace or "").node
        self._prefixes.lock(node)
        more = own - self._unused(_open(reservation))
        if must_fit and self._admitted and self.reserved + more > self._capacity():
            self._forget(node)
            return False
        self._own += own
        self._open += _open(reservation)
        self._admitted[reservation] = node, own
        return True

    def _unused(self, open: int) -> int:
        """Of slots for what is to be written, those that are left to others."""
        return int(open * (1 - max(self._shares, default=1.0)))

    def _forget(self, node: Node) -> None:
        self._prefixes.unlock(node)
        self._prefixes.evict(self._prefixes.evictable)


def _open(reservation: Reservation) -> int:
    return min(reservation.own, reservation.new)
