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
        self._num_tokens: int | None = 0
        self._lock = threading.Lock()

    def acquire(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self, num_tokens: int | None) -> None:
        """Remove a program. `num_tokens`: number of generated tokens, None after an error."""
        with self._lock:
            self._holders -= 1
            if num_tokens is None or self._num_tokens is None:
                self._num_tokens = None
            else:
                self._num_tokens += num_tokens
            last = self._holders == 0
        if last:
            self._release(self.reservation, self._num_tokens)
