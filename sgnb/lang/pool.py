"""Worker threads for the programs of a batch, and the one with an event loop for those that are
`async def`. Knows nothing of programs.

What `concurrent.futures.ThreadPoolExecutor` lacks: the workers of a `WorkerPool` are daemon
threads, so that a tool which hangs never holds up the end of the interpreter; and a worker that
waits says so (`blocking`), which puts another one to work. Tasks that never wait share one thread
(2,000 programs of one generation: half the cost of 64 threads in turn for the GIL); those that do
get up to `limit`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_SECONDS = 0.1
"""After this long without a new task, workers are taken to be blocked without having said so."""

_current = threading.local()

Task = Callable[[], None]


class WorkerPool:
    """Tasks begin in order and must not raise. Threads end when there is no task left."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._threads = 0
        self._active = 0
        self._begun = time.monotonic()

    def add(self, tasks: Iterable[Task]) -> None:
        with self._lock:
            self._tasks.extend(tasks)
            self._replace()

    def stop(self) -> None:
        """Drop the tasks that have not begun. Does not wait for the others."""
        with self._lock:
            self._tasks.clear()

    def nudge(self) -> None:
        """Call this often: starts a worker when the others have blocked for `PATIENCE_SECONDS`."""
        with self._lock:
            if time.monotonic() - self._begun > PATIENCE_SECONDS:
                self._spawn()

    def _replace(self) -> None:
        if self._active == 0:
            self._spawn()

    def _spawn(self) -> None:
        if self._tasks and self._threads < self.limit:
            self._threads += 1
            self._active += 1
            self._begun = time.monotonic()
            threading.Thread(target=self._work, name="sgnb-worker", daemon=True).start()

    def _work(self) -> None:
        _current.pool = self
        while True:
            with self._lock:
                if not self._tasks:
                    self._threads -= 1
                    self._active -= 1
                    return
                task = self._tasks.popleft()
                self._begun = time.monotonic()
            task()

    def _enter_wait(self) -> None:
        with self._lock:
            self._active -= 1
            self._replace()

    def _leave_wait(self) -> None:
        with self._lock:
            self._active += 1


class LoopThread:
    """Coroutines on one event loop, on a thread of its own that begins with the first of them. They
    must not raise."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    def add(self, tasks: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._run, args=(self._loop,), name="sgnb-loop", daemon=True
            ).start()
        self._loop.call_soon_threadsafe(self._begin, list(tasks))

    def stop(self) -> None:
        """Cancel what still runs. Does not wait."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    def nudge(self) -> None:
        """As `WorkerPool.nudge`: nothing that runs here keeps another from beginning."""

    def _begin(self, tasks: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        for task in tasks:
            running = asyncio.ensure_future(task())
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._over.wait())


@contextmanager
def blocking() -> Iterator[None]:
    """The calling thread waits inside; if it is a worker, its pool may start another one."""
    pool: WorkerPool | None = getattr(_current, "pool", None)
    if pool is not None:
        pool._enter_wait()
    try:
        yield
    finally:
        if pool is not None:
            pool._leave_wait()
