"""Admission control for programs with reservations: the sum of reservations fits the KV pool, so no
program is preempted.

Programs are admitted in the order of their first requests' ranks. If the first program does not
fit, no program is admitted: large programs do not starve, and a program larger than the pool runs
alone. Admitted programs never wait for pending programs. Shared prefixes count once.

Output reservations are scaled by the largest share used by recently ended programs: with short
answers, more programs run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

import numpy as np

from ...events import Wait, WaitReason
from ...reservation import Reservation
from ..cache.radix import Node, RadixTree
from .request import Request

RANKED = 256
"""Number of pending programs, the oldest, ranked for admission."""

RECENT = 16
"""Number of recently ended programs; their largest used share of output scales reservations."""


class ProgramAdmission:
    """Pending and admitted programs, in front of the waiting queue.

    Args:
        capacity: Returns the number of slots available to all programs together.
        rank: Rank of a first request; the smallest is admitted first, ties by age.
    """

    def __init__(self, capacity: Callable[[], int], rank: Callable[[Request], float]) -> None:
        self._capacity, self._rank = capacity, rank
        # locked prefixes of admitted programs; slot values are dummies
        self._prefixes = RadixTree()
        self._admitted: dict[Reservation, tuple[Node, int]] = {}  # (end of the prefix, own slots)
        self._own_slots = 0  # slots of admitted programs without prefixes
        self._reserved_output = 0  # part of `_own_slots` reserved for output
        self._shares: deque[float] = deque(maxlen=RECENT)  # used shares of reserved output
        self._pending: dict[Reservation, list[Request]] = {}  # pending programs, oldest first
        self._full = False  # the first pending program does not fit, unchanged since the last test

    def __len__(self) -> int:
        """Number of pending requests."""
        return sum(map(len, self._pending.values()))

    @property
    def reserved(self) -> int:
        """Slots of the admitted programs."""
        return self._prefixes.locked + self._own_slots - self._unused(self._reserved_output)

    def shortage(self, request: Request) -> Wait | None:
        """Return the slots that the request's program needs for admission. None for a request that
        is not pending."""
        reservation = request.cache_scope.reservation
        if reservation is None or request not in self._pending.get(reservation, ()):
            return None
        available = max(0, self._capacity() - self.reserved)
        return Wait(WaitReason.PROGRAM, reservation.own + len(reservation.prefix), available)

    def enter(self, request: Request) -> list[Request]:
        """Return the request if its program is or can be admitted. Otherwise hold the request and
        return nothing."""
        reservation = request.cache_scope.reservation
        assert reservation is not None
        if reservation in self._admitted:
            return [request]
        self._pending.setdefault(reservation, []).append(request)
        return [] if self._full else self._admit()

    def release(self, reservation: Reservation, made: int | None = None) -> list[Request]:
        """End a program and return the newly admitted requests. made: number of tokens written by
        the program's generations, None if the program was cut short."""
        if made is not None and reservation.new:
            self._shares.append(min(1.0, made / reservation.new))
        self._pending.pop(reservation, None)
        if reservation in self._admitted:
            node, own = self._admitted.pop(reservation)
            self._own_slots -= own
            self._reserved_output -= _output_slots(reservation)
            self._drop_prefix(node)
        return self._admit()

    def drop(self, request: Request) -> list[Request]:
        """Remove an ended request, pending or not, and return the newly admitted requests."""
        reservation = request.cache_scope.reservation
        pending = self._pending.get(reservation, []) if reservation is not None else []
        if request not in pending:
            return []
        pending.remove(request)
        if pending or reservation is None:
            return []
        del self._pending[reservation]
        return self._admit()

    def admit_first(self) -> list[Request]:
        """Admit the first pending program without a size test, and return its requests. Call this
        method if nothing runs: admitted programs do not wait for slots."""
        for reservation, requests in self._ranked()[:1]:
            self._reserve(reservation, requests[0].cache_scope.namespace, must_fit=False)
            return self._pending.pop(reservation)
        return []

    def _admit(self) -> list[Request]:
        """Admit the first pending programs until a program does not fit; return their requests."""
        entered: list[Request] = []
        self._full = False
        for reservation, requests in self._ranked():
            self._full = not self._reserve(reservation, requests[0].cache_scope.namespace)
            if self._full:
                break
            entered += self._pending.pop(reservation)
        return entered

    def _ranked(self) -> list[tuple[Reservation, list[Request]]]:
        """Return the oldest pending programs in the order of admission."""
        oldest = islice(self._pending.items(), RANKED)
        return sorted(oldest, key=lambda program: self._rank(program[1][0]))

    def _reserve(
        self, reservation: Reservation, namespace: str | None, must_fit: bool = True
    ) -> bool:
        """Admit a program if no program is admitted or the sum fits; return False otherwise.

        namespace: cache namespace of the program's prefix; None shares no prefix."""
        tokens = np.array(() if namespace is None else reservation.prefix, np.int32)
        own = reservation.own + len(reservation.prefix) - len(tokens)
        node = self._prefixes.insert(tokens, tokens, namespace or "").node
        self._prefixes.lock(node)
        more = own - self._unused(_output_slots(reservation))
        if must_fit and self._admitted and self.reserved + more > self._capacity():
            self._drop_prefix(node)
            return False
        self._own_slots += own
        self._reserved_output += _output_slots(reservation)
        self._admitted[reservation] = node, own
        return True

    def _unused(self, output: int) -> int:
        """Slots reserved for output but expected to stay unused."""
        return int(output * (1 - max(self._shares, default=1.0)))

    def _drop_prefix(self, node: Node) -> None:
        self._prefixes.unlock(node)
        self._prefixes.evict(self._prefixes.evictable)


def _output_slots(reservation: Reservation) -> int:
    return min(reservation.own, reservation.new)
