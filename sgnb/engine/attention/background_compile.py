"""Jobs done once in the background, such as compiling kernels, and whether they are done. Knows
nothing of the jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Job(NamedTuple):
    name: str
    run: Callable[[], object]  # raises when it cannot; holds nothing that is to be freed before


class BackgroundCompile:
    """Runs jobs one after another on a daemon thread of its own, from `start` on.

    `done` or `failure` is set once, from the thread, which then ends.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.done = False  # all jobs went well
        self.failure: str | None = None  # why the jobs that were left are not done
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
        """Begin no further job. One that runs goes on: compilers keep their results on disk."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Until the thread has ended, at most `seconds`. Returns `done`."""
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
    """A compiler's message can be thousands of lines; what it died of comes last."""
    return f"{type(error).__name__}: " + "\n".join(str(error).strip().splitlines()[-8:])
