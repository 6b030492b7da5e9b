"""Worker threads for the programs of batches, and event loops for `async def` programs. Knows
nothing of programs.

A batch and the batches inside its programs share a `WorkerPool`. A worker that waits for an inner
batch runs the tasks of this batch on its own thread: nesting needs no further threads, and a pool
of waiting workers makes progress. A waiting worker runs no other task, because any other task may
wait for the code below on the same stack.

Differences from `concurrent.futures.ThreadPoolExecutor`: workers are daemon threads, so a tool that
hangs does not delay the end of the interpreter; and a worker announces a wait (`blocking`), so that
another worker starts. Tasks without waits share one thread (2,000 programs of one generation: half
the cost of 64 threads in turn for the GIL).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context
from functools import partial
from typing import Any

MAX_WORKERS = 64
"""Threads of a batch and of the batches inside, by default."""

PATIENCE_SECONDS = 0.1
"""After this long without a new task, workers count as blocked without an announcement."""

STALL_SECONDS = 5.0
"""After this long without a new task and without an announced wait, running tasks may wait for
queued tasks: a worker beyond the limit starts."""

MAX_INLINE_BATCHES = 8
"""Batches within each other on one stack. A deeper batch gets a worker with an empty stack."""

Task = Callable[[], None]


class _Current(threading.local):
    """State of the calling thread."""

    pool: WorkerPool | None = None
    inline_batches = 0


_current = _Current()


class WorkerPool:
    """Threads for the tasks of a batch and of the batches inside. Threads end without tasks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limit = MAX_WORKERS  # of threads, unless a batch allows more
        self.num_threads = self.num_active = 0  # active: without an announced wait
        self.queues: dict[BatchTasks, None] = {}  # batches with queued tasks, the newest last
        self.last_begin = self.last_move = time.monotonic()

    def nudge(self) -> None:
        """Start a worker if the running workers make no progress. Call often during a wait."""
        with self.lock:
            now = time.monotonic()
            if now - self.last_begin > PATIENCE_SECONDS:
                stalled = self.num_active > 0 and now - self.last_move > STALL_SECONDS
                self._spawn(beyond_limit=stalled)

    def replace(self) -> None:
        """Start a worker if none is active. The lock is held."""
        if self.num_active == 0:
            self._spawn()

    def start(self, tasks: BatchTasks) -> None:
        """Start a worker for a batch. The lock is held."""
        self.last_begin = self.last_move = time.monotonic()
        threading.Thread(target=self._work, args=(tasks,), name="sgnb-worker", daemon=True).start()
        self.num_threads += 1  # after `start`, which may raise; the worker waits for the lock
        self.num_active += 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calling thread against the limit."""
        with self.lock:
            self.num_threads += 1
        try:
            yield
        finally:
            with self.lock:
                self.num_threads -= 1

    @contextmanager
    def active(self, change: int) -> Iterator[None]:
        """Change the number of active workers inside; start a worker if none is left."""
        self._change_active(change)
        try:
            yield
        finally:
            self._change_active(-change)

    def include(self, target: Callable[[], Any]) -> None:
        """Run `target` on the calling thread as a member of the pool."""
        _current.pool = self
        with self.counted(), self.active(1):
            target()

    def _change_active(self, change: int) -> None:
        with self.lock:
            self.num_active += change
            self.last_move = time.monotonic()
            self.replace()

    def _spawn(self, beyond_limit: bool = False) -> None:
        tasks = self._next()
        if tasks is not None and (beyond_limit or self.num_threads < self.limit):
            self.start(tasks)

    def _next(self) -> BatchTasks | None:
        """Return the newest batch with a task that may begin."""
        return next((tasks for tasks in reversed(self.queues) if tasks.ready), None)

    def _work(self, tasks: BatchTasks | None) -> None:
        _current.pool = self
        while tasks is not None:
            tasks.run()
            with self.lock:
                tasks = self._next()
                if tasks is None:
                    self.num_threads -= 1
                    self.num_active -= 1


class BatchTasks:
    """The tasks of one batch, at most `limit` at a time. Tasks begin in order and must not raise.

    A batch inside a task joins the pool of the outer batch.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.queued: deque[Task] = deque()
        self.num_begun = self.num_running = 0
        self.pool = _current.pool or WorkerPool()
        self.pool.limit = max(self.pool.limit, limit)

    @property
    def ready(self) -> bool:
        """Return True if a task may begin. The pool's lock is held."""
        return bool(self.queued) and self.num_running < self.limit

    @property
    def inner(self) -> bool:
        """Return True on a thread of the pool. The waiter for the outermost batch nudges then."""
        return _current.pool is self.pool

    def add(self, tasks: Iterable[Task]) -> None:
        with self.pool.lock:
            self.queued.extend(tasks)
            self.pool.queues[self] = None
            self.pool.replace()

    def stop(self) -> None:
        """Drop the queued tasks. Does not wait for running tasks."""
        with self.pool.lock:
            self.queued.clear()
            self.pool.queues.pop(self, None)

    def nudge(self) -> None:
        """See `WorkerPool.nudge`."""
        self.pool.nudge()

    def help(self, until: int | None = None) -> None:
        """Run tasks on this thread, if it belongs to the pool, until `until` tasks have begun."""
        if not self.inner:
            return
        if _current.inline_batches >= MAX_INLINE_BATCHES or _event_loop_runs():
            with self.pool.lock:
                if self.queued and self.num_running == 0:
                    self.pool.start(self)
            return
        _current.inline_batches += 1
        try:
            self.run(until)
        finally:
            _current.inline_batches -= 1

    def run(self, until: int | None = None) -> None:
        """Run tasks on this thread until `until` have begun, or none may begin."""
        with self.pool.lock:
            task = self._take(until)
        while task is not None:
            Context().run(task)
            with self.pool.lock:
                self.num_running -= 1
                task = self._take(until)

    def _take(self, until: int | None) -> Task | None:
        if not self.ready or (until is not None and self.num_begun >= until):
            return None
        self.num_begun += 1
        self.num_running += 1
        self.pool.last_begin = self.pool.last_move = time.monotonic()
        task = self.queued.popleft()
        if not self.queued:
            del self.pool.queues[self]
        return task


class LoopTasks:
    """One event loop on a thread for the coroutines of a batch. The thread begins with the first
    coroutine. Coroutines must not raise.
    """

    inner = False

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._pool = _current.pool or WorkerPool()

    def add(self, tasks: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._run, args=(self._loop,), name="sgnb-loop", daemon=True
            ).start()
        self._loop.call_soon_threadsafe(self._begin, list(tasks))

    def stop(self) -> None:
        """Cancel the running coroutines. Does not wait."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    def nudge(self) -> None:
        """Do nothing: a waiting coroutine does not delay further coroutines."""

    def help(self, until: int | None = None) -> None:
        """Do nothing: all coroutines run on the event loop."""

    def _begin(self, tasks: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        for task in tasks:
            running = asyncio.ensure_future(task())
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._pool.counted(), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._over.wait())


def start_thread(target: Callable[[], Any], name: str) -> None:
    """Run `target` on a daemon thread. Inner batches share the pool of the calling worker."""
    pool = _current.pool
    run = target if pool is None else partial(pool.include, target)
    threading.Thread(target=run, name=name, daemon=True).start()


def blocking() -> AbstractContextManager[None]:
    """Announce a wait of the calling thread: a pool without another active worker starts one."""
    pool = _current.pool
    return nullcontext() if pool is None else pool.active(-1)


def _event_loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
