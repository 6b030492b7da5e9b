"""Wakes what waits on an event loop, from other threads. Knows nothing of programs.

Telling a loop something from outside is a system call, which gives up the GIL: what wakes while the
loop is at work, it is told together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from weakref import WeakKeyDictionary


class Waker:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: deque[asyncio.Event] = deque()
        self._told = False  # the loop will look at `_woken`

    def wake(self, waiting: asyncio.Event) -> None:
        """Set `waiting`, on the loop. Any thread may call this."""
        self._woken.append(waiting)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop was closed in the middle of the wait
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._told = False  # before the look: whatever comes after it tells the loop again
        while self._woken:
            self._woken.popleft().set()


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = WeakKeyDictionary()


def running_waker() -> Waker:
    """That of the event loop which runs here."""
    loop = asyncio.get_running_loop()
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = Waker(loop)
    return waker
