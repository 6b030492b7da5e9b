"""Background jobs that run once, such as kernel compilation, and their completion state. Knows
nothing about the jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Job(NamedTuple):
    name: str
    run: Callable[[], object]  # raises on failure; must not keep resources alive


class BackgroundCompile:
    """Run jobs in sequence on a daemon thread after `start`.

    The thread sets `done` or `failure` once and then ends.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.done = False  # all jobs succeeded
        self.failure: str | None = None  # reason why the remaining jobs did not run
        self.seconds = 0.0  # from the start to the end
        self._jobs = list(jobs)
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="sgnb-compile-attention", daemon=True
        )

    def start(self) -> BackgroundCompile:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Start no further job. A running job continues because compilers cache results."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the thread, at most `seconds`. Returns `done`."""
        self._thread.join(seconds)
        return self.done

    def _run(self) -> None:
        begin = time.perf_counter()
        for job in self._jobs:
            if self._stopped.is_set():
                self.failure = "stopped"
                return
            try:
                job.run()
            except Exception as error:
                self.failure = f"{job.name}: {_last_lines(error)}"
                return
        self.seconds = time.perf_counter() - begin
        self.done = True


def _last_lines(error: Exception) -> str:
    """Return the end of the message: compilers print thousands of lines and the cause last."""
    return f"{type(error).__name__}: " + "\n".join(str(error).strip().splitlines()[-8:])
