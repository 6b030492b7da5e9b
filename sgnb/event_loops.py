"""Notification of the end of an asyncio event loop that is closed, or dropped, with work pending.
Imports nothing of ours."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

NEVER = 10.0 * 365 * 86400
"""Delay of the timer that holds the sentinel, in seconds."""


class _Sentinel:
    """A timer's callback. Its finalizer runs when the timer is dropped."""

    def __call__(self) -> None:
        """Do nothing."""


def on_close(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` when the running event loop is closed. Returns the function that ends this.

    asyncio has no hook for this: a waiting task is neither cancelled nor freed. `loop.close` drops
    the loop's timers, and a timer set here holds the only reference to a sentinel with a finalizer.

    Args:
        callback: runs as a finalizer, perhaps inside the garbage collector, so it must not take a
            lock that any thread may hold.
    """
    sentinel = _Sentinel()
    finalizer = weakref.finalize(sentinel, callback)
    finalizer.atexit = False
    timer = weakref.ref(asyncio.get_running_loop().call_later(NEVER, sentinel))

    def cancel() -> None:
        finalizer.detach()
        if (pending := timer()) is not None:
            pending.cancel()

    return cancel
