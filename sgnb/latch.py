"""A one-shot event with a wait that KeyboardInterrupt may end at any point.

`threading.Condition`, `Event`, `Semaphore` and `concurrent.futures.Future` are Python code. An
interrupt raised inside their methods leaves the lock acquired, and the thread that should wake the
waiters blocks forever. The main thread therefore waits only on a `Latch` or a `queue.SimpleQueue`,
and acquires only `threading.Lock` and `RLock`, by `with`: both are implemented in C.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock


class Latch:
    """Event that becomes set once and stays set. Any number of threads may wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Lock] = []  # acquired locks; `set` releases them

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set the latch and wake all waiters. Repeated calls have no effect."""
        self._is_set = True
        for waiter in tuple(self._waiters):
            with suppress(RuntimeError):  # released by a concurrent `set`
                waiter.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the latch is set.

        Args:
            seconds: timeout; None waits without limit.

        Returns:
            True if the latch is set, False after a timeout.
        """
        waiter = Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        if not self._is_set:  # checked after the append, so a concurrent `set` is never missed
            waiter.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
        self._waiters.remove(waiter)
        return self._is_set
