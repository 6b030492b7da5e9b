"""Worker threads that make room when they wait: many programs on few threads. Knows nothing of
programs.

One worker takes task after task. When it has to wait inside a task it says so (`blocking`), and
another worker takes its place; so tasks that never wait share one thread, and those that do get up
to `limit`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 0.1
"""When no task has begun for so long, the workers are held up by something they did not say."""

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
        """Call this often: a task that holds its worker without saying so keeps the next one
        waiting only so long."""
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


@contextmanager
def blocking() -> Iterator[None]:
    """The calling thread waits inside this block; if it is a worker, its pool may put another one
    to work."""
    pool: WorkerPool | None = getattr(_current, "pool", None)
    if pool is None:
        yield
        return
    pool._enter_wait()
    try:
        yield
    finally:
        pool._leave_wait()
