"""An event that happens once, and a wait for it that an interrupt may end anywhere.

An interrupt can be raised inside the methods of `threading.Condition`, `Event` and `Semaphore` and
of `concurrent.futures.Future`, which are written in Python: their lock then stays taken, and the
thread that would wake the others waits for it for ever. So the main thread waits by this or by a
`queue.SimpleQueue`, and takes `threading.Lock` and `RLock` alone, by `with`: those are C.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock


class Latch:
    """Shut until `set`. Any number of threads may wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Lock] = []  # each is taken, until it is released by `set`

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Harmless when repeated."""
        self._is_set = True
        for waiter in tuple(self._waiters):
            with suppress(RuntimeError):  # released already
                waiter.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so long; whether it is set."""
        waiter = Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        if not self._is_set:  # asked after the append: no `set` is missed
            waiter.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
        self._waiters.remove(waiter)
        return self._is_set
