"""Wake-ups of event-loop tasks from other threads. Independent of programs.

`call_soon_threadsafe` makes a system call, which releases the GIL. Wake-ups that arrive while the
loop is busy share a single call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from weakref import WeakKeyDictionary


class Waker:
    """Pending wake-ups of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: deque[asyncio.Event] = deque()
        self._notified = False  # the loop is about to read `_woken`

    def wake(self, waiting: asyncio.Event) -> None:
        """Set `waiting` on the loop. Callable from any thread."""
        self._woken.append(waiting)
        if not self._notified:
            self._notified = True
            with suppress(RuntimeError):  # the loop was closed during the wait
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._notified = False  # reset before the read: a later wake-up notifies the loop again
        while self._woken:
            self._woken.popleft().set()


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = WeakKeyDictionary()


def running_waker() -> Waker:
    """Return the waker of the running event loop."""
    loop = asyncio.get_running_loop()
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = Waker(loop)
    return waker
