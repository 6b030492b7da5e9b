"""Threads for the work of slow grammars: matchers move on and compute masks next to the engine.

Matchers of a grammar share a lock, which llguidance holds while a mask is computed, and a call that
waits for the lock keeps the GIL. Jobs with the same key therefore take turns; jobs with different
keys run at the same time. Knows no request and no engine.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from weakref import finalize

THREADS = 4
"""Number of grammars that compute at the same time."""

NICENESS = 10
"""Priority of the threads, on Linux. The forward passes use all cores, and a pass waits for the
slowest core; masks take the time that the passes leave."""


class GrammarJob:
    """Work on a thread, with the processor time so far.

    Args:
        work: runs on the thread.
        done: called on the thread after the work, also after an exception.
    """

    def __init__(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self._work, self._done = work, done
        self._clock: Callable[[], float] | None = None
        self._began = 0.0
        self._seconds = 0.0  # after the end
        self.error: BaseException | None = None  # raised by the work

    @property
    def seconds(self) -> float:
        """Processor seconds of the work so far; 0 before the start."""
        clock = self._clock
        return self._seconds if clock is None else clock() - self._began

    def run(self) -> None:
        """Do the work on this thread."""
        clock = _thread_clock()
        self._began = clock()
        self._clock = clock
        try:
            self._work()
        except BaseException as error:
            self.error = error
        self._seconds = clock() - self._began
        self._clock = None
        self._done()


class GrammarWorkers:
    """Runs jobs on `THREADS` threads, which start with the first job. `submit` and `close` belong
    to one thread."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, deque[GrammarJob]] = {}  # a key's first job may be running
        self._lock = Lock()
        self._ready: SimpleQueue[Hashable] = SimpleQueue()
        self._runs = False
        self._finalizer = finalize(self, _stop, self._ready)

    def submit(
        self, key: Hashable, work: Callable[[], None], done: Callable[[], None]
    ) -> GrammarJob:
        """Queue work behind earlier work with the same key.

        Args:
            key: jobs with equal keys never run at the same time.
            work: runs on a thread.
            done: called on the thread after the work.

        Returns:
            The job.
        """
        if not self._runs:
            self._runs = True
            for _ in range(THREADS):
                Thread(
                    target=_serve,
                    args=(self._ready, self._jobs, self._lock),
                    name="sgnb-mask",
                    daemon=True,
                ).start()

        job = GrammarJob(work, done)
        with self._lock:
            waiting = self._jobs.get(key)
            if waiting is None:
                self._jobs[key] = deque([job])
                self._ready.put(key)
            else:
                waiting.append(job)
        return job

    def close(self) -> None:
        """End the threads after their current jobs. Repeated calls have no effect."""
        self._finalizer()


def _serve(
    ready: SimpleQueue[Hashable], jobs: dict[Hashable, deque[GrammarJob]], lock: Lock
) -> None:
    """Run the first job of each ready key until a key is None."""
    if sys.platform == "linux":  # only Linux has priorities of threads
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

    while (key := ready.get()) is not None:
        with lock:
            job = jobs[key][0]
        job.run()
        with lock:
            jobs[key].popleft()
            if jobs[key]:
                ready.put(key)
            else:
                del jobs[key]
        del job, key  # hold a grammar and a request


def _stop(ready: SimpleQueue[Hashable]) -> None:
    for _ in range(THREADS):
        ready.put(None)


def _thread_clock() -> Callable[[], float]:
    """Return a clock of this thread's processor time for reads by any thread; a clock of wall time
    on systems without thread clocks."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
