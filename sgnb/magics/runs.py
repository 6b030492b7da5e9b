"""List of all runs of this process, and handles of background runs.

Observes runs through the language's `watch`. Knows engines only as executors of runs.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..errors import Aborted, OptionError, nearest, renamed
from ..lang import ProgramState, Run, watch
from ..lang.executor import Executor
from ..latch import Latch
from ..sampling import read_option, text
from .recordings import AnyRun, Recordings
from .reruns import RerunReport, compare_recordings
from .table import Table
from .unused_settings import warn_of_unused_settings

MAX_RUNS = 50
"""Number of runs to remember; running programs are never forgotten."""

WAIT_SECONDS = 0.1
CANCEL_SECONDS = 2.0

_thread_state = threading.local()


class FinishedRun(NamedTuple):
    """List entry of a finished run. Holds no states, so that memory can be freed."""

    id: str
    title: str
    status: str
    finished: int
    total: int | None
    message: str


def _without_states(run: Run | FinishedRun) -> Run | FinishedRun:
    if isinstance(run, FinishedRun) or run.status == "running":
        return run
    return FinishedRun(run.id, run.title, run.status, run.finished, run.total, run.message)


class Runs:
    """Runs of this process, without dry runs."""

    def __init__(self, engine_of: Callable[[Executor], str], recordings: Recordings) -> None:
        """Start to observe runs.

        Args:
            engine_of: Returns the engine name of an executor.
            recordings: Recordings of finished runs.
        """
        self._engine_of, self._recordings = engine_of, recordings
        self._runs: deque[tuple[Run | FinishedRun, str, float]] = deque()
        self._lock = threading.Lock()
        watch(self._started)

    def __call__(self) -> Table:
        """Return a table of the latest runs, oldest first."""
        now = time.monotonic()
        with self._lock:
            runs = list(self._runs)
        rows = (
            {
                "run": run.id,
                "program": run.title,
                "status": run.status,
                "programs": f"{run.finished}/{'?' if run.total is None else run.total}",
                "engine": engine,
                "age": f"{now - begin:.0f} s",
                "message": run.message.partition("\n")[0],
            }
            for run, engine, begin in runs
        )
        return Table(rows, empty="no program has run yet")

    def running(self, executor: Executor | None = None) -> list[str]:
        """Return the ids of unfinished runs.

        Args:
            executor: Only runs with calls to this executor; None for all runs.
        """
        return [
            run.id
            for run in self._running()
            if executor is None
            or any(backend.log is executor.log for backend in (run.executor, *run.others.backends))
        ]

    def of_cell(self, run: AnyRun = "last") -> list[str]:
        """Return the ids of the last ten recorded runs of a cell, oldest first.

        Args:
            run: A run of the cell, as in `sgnb.recording`.
        """
        return self._recordings.reruns(self._recordings(run).run)

    def compare(self, earlier: AnyRun = "", later: AnyRun = "") -> RerunReport:
        """Compare two runs by lines, text and figures: `%sglang runs compare`.

        Args:
            earlier: A run, as in `sgnb.recording`; by default the run before `later` of the same
                cell.
            later: A run; by default the last recorded run.

        Returns:
            The comparison, with the change that caused each computed prompt token.

        Raises:
            OptionError: A run has no recording.
        """
        return compare_recordings(self._recordings, earlier, later)

    def cancel(self, which: str = "all") -> list[str]:
        """Cancel a run, or all runs, at the next token. Partial output is kept. Waits at most
        `CANCEL_SECONDS`.

        Args:
            which: Id of a run, or "all".

        Returns:
            Ids of the cancelled runs.

        Raises:
            OptionError: No run has the id.
        """
        which = read_option("run", which, "the id of a run, or 'all'", text)
        with self._lock:
            ids = [run.id for run, *_ in self._runs]
        if which != "all" and which not in ids:
            raise OptionError(f"no run is called {which!r}", nearest(which, [*ids, "all"]))
        cancelled = [run for run in self._running() if which in ("all", run.id)]
        for run in cancelled:
            run.cancel()
        deadline = time.monotonic() + CANCEL_SECONDS
        while any(run.status == "running" for run in cancelled) and time.monotonic() < deadline:
            time.sleep(0.005)
        return [run.id for run in cancelled]

    def steer(self, action: str, run_id: str) -> None:
        """Execute a step on a run without a wait: a button of a view.

        Args:
            action: "pause", "token", "call", "resume" or "cancel".
            run_id: Id of the run.

        Raises:
            OptionError: The run has ended.
        """
        run = next((run for run in self._running() if run.id == run_id), None)
        if run is None:
            raise OptionError(f"{run_id} is not running", "run the cell again")

        if action in ("token", "call"):
            run.step("token" if action == "token" else "call", wait=False)
        else:
            {"pause": run.pause, "resume": run.resume, "cancel": run.cancel}[action]()

    def _running(self) -> list[Run]:
        with self._lock:
            runs = [run for run, *_ in self._runs]
        return [run for run in runs if isinstance(run, Run) and run.status == "running"]

    def _started(self, run: Run) -> None:
        if getattr(run.executor, "dry", False):
            return
        with self._lock:
            self._runs = deque(
                (_without_states(listed), engine, at) for listed, engine, at in self._runs
            )
            self._runs.append((run, self._engine_of(run.executor), time.monotonic()))
            while len(self._runs) > MAX_RUNS and self._runs[0][0].status != "running":
                self._runs.popleft()

        on_start = getattr(_thread_state, "on_start", None)
        if on_start is not None:
            _thread_state.on_start = None
            on_start(run)


@contextmanager
def first_run(on_start: Callable[[Run], None], timeout: float | None = None) -> Iterator[None]:
    """Observe the first run started by this thread inside the context.

    Args:
        on_start: Called with the run at the start.
        timeout: Seconds until the run is stopped, or None.
    """
    timer: threading.Timer | None = None
    expired = threading.Event()

    def expire(run: Run) -> None:
        expired.set()
        run.cancel()

    def start(run: Run) -> None:
        nonlocal timer
        on_start(run)
        if timeout is not None:
            timer = threading.Timer(timeout, expire, [run])
            timer.daemon = True
            timer.start()

    _thread_state.on_start = start
    try:
        yield
    except Aborted:
        if not expired.is_set():
            raise
        hint = "the partial text is kept; use a larger --timeout"
        raise Aborted(f"the run was stopped after {timeout:g} s", hint) from None
    finally:
        _thread_state.on_start = None
        if timer is not None:
            timer.cancel()


def run_to_end(
    work: Callable[[], Any], on_start: Callable[[Run], None], timeout: float | None = None
) -> Any:
    """Call `work`, wait for the end of the first run, and return the value of `work`. Warns of
    settings without an effect.

    Args:
        work: Starts a run.
        on_start: Called with the run at the start.
        timeout: Seconds until the run is stopped, or None.
    """
    runs: list[Run] = []

    def begin(run: Run) -> None:
        runs.append(run)
        on_start(run)

    try:
        with first_run(begin, timeout):
            value = work()
            for run in runs:
                run.join()
                warn_of_unused_settings(run)
            return value
    except BaseException as error:
        for run in runs:  # interrupt inside `on_start`, before the program starts
            run.finish(error)
        raise


class BackgroundRun:
    """Handle of a background batch (`--bg`).

    The constructor returns after the start of the run, and raises errors from the start.

    Args:
        work: Starts the run, on a background thread.
        ended: Called on the background thread after the run, with the value or, after an error,
            with the states of the error or None.
        begun: Called on the background thread with the run, before the first append.
    """

    def __init__(
        self,
        work: Callable[[], Any],
        timeout: float | None,
        ended: Callable[[Any], None],
        begun: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self._on_begin = begun
        self._runs: list[Run] = []
        self._value: Any = None
        self._error: BaseException | None = None
        self._begun, self._ended = Latch(), Latch()
        threading.Thread(target=self._work, args=(work, timeout, ended), daemon=True).start()
        while not self._begun.wait(WAIT_SECONDS):
            continue
        if not self._runs:
            self.wait()
            hint = "the batch is empty; give it rows"
            raise OptionError("no program ran in the background", hint)

    @property
    def run(self) -> Run:
        """Return the run."""
        return self._runs[0]

    @property
    def status(self) -> str:
        """Return the status: "running", "done", "error" or "interrupted"."""
        return self.run.status

    @property
    def states(self) -> list[ProgramState]:
        """Return the states of the programs. Reading a variable waits for the value."""
        while not self.run.states and not self._ended.wait(0.001):
            continue
        return self.run.states

    @property
    def value(self) -> Any:
        """Wait for the end and return the value of the cell without `--bg`."""
        self.wait()
        return self._value

    def cancel(self) -> None:
        """Cancel at the next token and keep partial output."""
        self.run.cancel()

    def stop(self) -> None:
        """Call `cancel`; the former name."""
        renamed("stop()", "cancel()")
        self.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run.

        Args:
            timeout: Maximum wait in seconds, or None.

        Returns:
            True if the run has ended. Raises the error of the run.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._ended.is_set():
            remaining = min(WAIT_SECONDS, deadline - time.monotonic())
            if remaining <= 0:
                return False
            self._ended.wait(remaining)
        if self._error is not None:
            raise self._error
        return True

    def _work(
        self, work: Callable[[], Any], timeout: float | None, ended: Callable[[Any], None]
    ) -> None:
        try:
            self._value = run_to_end(work, self._begin, timeout)
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()
            try:
                ended(getattr(self._error, "states", None) if self._error else self._value)
            finally:
                self._ended.set()

    def _begin(self, run: Run) -> None:
        self._on_begin(run)
        self._runs.append(run)
        self._begun.set()

    def __repr__(self) -> str:
        run = self.run
        progress = (
            f"{run.status}, {run.finished}/{'?' if run.total is None else run.total} programs"
        )
        return f"<{run.id} {run.title} in the background: {progress}>"


class BackgroundState(BackgroundRun, ProgramState):
    """Handle of a background run of one program (`--bg`), with the interface of the program's
    state."""

    def __init__(
        self,
        work: Callable[[], Any],
        timeout: float | None,
        ended: Callable[[Any], None],
        begun: Callable[[Run], None] = lambda run: None,
    ) -> None:
        BackgroundRun.__init__(self, work, timeout, ended, begun)
        ProgramState.__init__(self, self.states[0]._branch)
