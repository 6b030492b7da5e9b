"""Reference to a program's reservation, shared with called programs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...reservation import Reservation


class ReservationRef:
    """Reference-counted reservation: released when the last program with the reservation has
    ended."""

    def __init__(
        self, reservation: Reservation, release: Callable[[Reservation, int | None], None]
    ) -> None:
        self.reservation = reservation
        self._release = release
        self._holders = 0
        self._made: int | None = 0
        self._lock = threading.Lock()

    def take(self) -> None:
        with self._lock:
            self._holders += 1

    def leave(self, made: int | None) -> None:
        """Remove a program. `made`: number of generated tokens, None after an error."""
        with self._lock:
            self._holders -= 1
            self._made = None if made is None or self._made is None else self._made + made
            last = self._holders == 0
        if last:
            self._release(self.reservation, self._made)
