"""asyncio event loops: a loop on a thread, and notification of the end of a loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any

from .errors import Aborted, EngineError
from .home_process import HomeProcess

NEVER = 10.0 * 365 * 86400
"""Delay of the timer that holds the sentinel, in seconds."""


class _Sentinel:
    """A timer's callback. Its finalizer runs when the timer is dropped."""

    def __call__(self) -> None:
        """Do nothing."""


def on_close(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` when the running event loop is closed, or dropped, with work pending.

    asyncio has no hook for this: a waiting task is neither cancelled nor freed. `loop.close` drops
    the loop's timers, and a timer set here holds the only reference to a sentinel with a finalizer.

    Args:
        callback: runs as a finalizer, perhaps inside the garbage collector, so it must not take a
            lock that any thread may hold.

    Returns:
        A function that removes the callback.
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


class LoopThread:
    """An event loop on a dedicated thread, for async clients.

    The thread ends with `close` or with the garbage collection of this object.

    Args:
        name: name of the thread.
        cleanup: coroutine function that runs last.
    """

    def __init__(self, name: str, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_serve, args=(self._loop, cleanup), name=name, daemon=True).start()
        self.close = weakref.finalize(self, _stop, self._loop)
        self._home = HomeProcess("this backend")

    def start(
        self,
        work: Callable[[], Coroutine[Any, Any, Any]],
        ended: Callable[[asyncio.Task[Any]], None],
    ) -> Callable[[], None]:
        """Run `work()`, then `ended(task)`, on the loop's thread. Returns immediately with a
        function that cancels the task; `ended` is called after a cancellation too."""
        self._check()
        tasks: list[asyncio.Task[Any]] = []

        def begin() -> None:
            tasks.append(task := self._loop.create_task(work()))
            task.add_done_callback(ended)

        def cancel() -> None:
            if self.close.alive:
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())

        self._loop.call_soon_threadsafe(begin)
        return cancel

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Wait for `work()` and return the result. Deadlocks on the loop's own thread."""
        self._check()
        try:
            return asyncio.run_coroutine_threadsafe(work(), self._loop).result()
        except CancelledError:
            raise Aborted("the backend was closed") from None

    def _check(self) -> None:
        self._home.check()
        if not self.close.alive:
            raise EngineError("this backend is closed", "create a new backend")


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon_threadsafe(loop.stop)


def _serve(
    loop: asyncio.AbstractEventLoop, cleanup: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run the loop until a stop, then cancel and await the remaining tasks."""
    loop.run_forever()
    _end_tasks(loop)
    loop.run_until_complete(cleanup())
    loop.run_until_complete(loop.shutdown_asyncgens())
    _end_tasks(loop)
    loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks, including tasks started during the cancellation."""
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))
