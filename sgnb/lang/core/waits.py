"""Waits of threads and event loops for a change under a lock."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from functools import partial

from ...home_process import HomeProcess
from ...latch import Latch
from .waker import running_waker

WAIT_SECONDS = 0.1
"""Poll interval of waits on the main thread, which handles interrupts and displays, and of waits
with `meanwhile`."""

WORKER_WAIT_SECONDS = 1.0
"""Poll interval of waits on other threads. Ten polls per second by hundreds of threads would cost
more processor time than the programs."""


class Waits:
    """Waits for changes of the data guarded by `lock`. Every change calls `notify`. A forked child
    cannot wait: EngineError."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._home = HomeProcess("a program")
        self._listeners: list[Callable[[], None]] = []

    def notify(self) -> None:
        """Wake all waits. The lock is held."""
        for wake in self._listeners:
            wake()

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Wait until the next change, at most `seconds`.

        Returns:
            Whether `ready()`, asked with the lock held before and after the wait.
        """
        arrived = Latch()
        with self._lock:
            if ready():
                return True
            self._home.check()
            self._listeners.append(arrived.set)

        try:
            arrived.wait(seconds)
        finally:
            with self._lock:
                self._listeners.remove(arrived.set)
        with self._lock:
            return ready()

    async def wait_async(self, ready: Callable[[], bool], seconds: float = math.inf) -> bool:
        """Wait on an event loop until `ready()`, at most `seconds`.

        Returns:
            Whether `ready()`.
        """
        woken = asyncio.Event()
        wake = partial(running_waker().wake, woken)
        with self._lock:
            if ready():
                return True
            self._home.check()
            self._listeners.append(wake)

        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds) as limit:
                while True:
                    await woken.wait()
                    woken.clear()
                    with self._lock:
                        if ready():
                            return True
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        finally:
            with self._lock:
                self._listeners.remove(wake)
