"""Views of a run of a cell and of the edits of this run, comparisons with earlier runs, and batches
as data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..errors import OptionError
from ..lang import Run
from ..lang.batches.states import States
from ..viz import Display
from .loaded_engine import LoadedEngine, RemoteBackend
from .magic_options import CellLine
from .reruns import compare_recordings
from .runs import BackgroundRun, run_to_end
from .session import Session

END_SECONDS = 0.02
"""Poll interval for the end of an edited run whose program has finished."""

VERIFY_SECONDS = 30
"""Longest time for which views wait for the comparison of approximate answers."""


class Views:
    """The views of one run, or of a batch and its reruns. Create before the run begins."""

    def __init__(
        self,
        loaded: LoadedEngine | RemoteBackend,
        line: CellLine,
        session: Session,
        cell: str = "",
        steers: bool = False,
        bind: Callable[[Any], None] = lambda value: None,
    ) -> None:
        """Prepare the views.

        Args:
            loaded: Backend of the run.
            line: Line of the cell.
            session: Keeps the recordings.
            cell: Name of the program, or id of the cell.
            steers: The views have buttons to pause the run; needs an idle kernel.
            bind: Receives the states after a rerun.
        """
        self._bind, self._timeout = bind, line.timeout
        self._states: States | None = None  # of a finished batch
        self._recordings, self._edits, self._cell = session.recordings, session.edits, cell
        self._loaded, self._disk_offer = loaded, session.disk_offer
        views = () if line.quiet else line.show
        steer = session.runs.steer if steers else None
        self._display = Display(
            loaded.emitter,
            views,
            static=line.static,
            keep=line.keep,
            act=loaded.act,
            steer=steer,
            edit=session.edits,
            compare=self._compare,
            run_rows=self._run_rows,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[str] = set()  # ids of the run and of its edits
        self._reported = False  # the cell shows the error of the run
        self._close_by: float | None = None  # see `_waits_for_verdicts`

    def show(self, work: Callable[[], Any], runs: list[Run]) -> Any:
        """Start a run by calling `work`, with views and time limit, and wait for the result.

        Args:
            work: Starts the run.
            runs: Receives the run, also if `work` raises.
        """

        def open_views(run: Run) -> None:
            runs.append(run)
            self.open(run)

        try:
            value = run_to_end(work, open_views, self._timeout)
        except BaseException as error:
            self.close(getattr(error, "states", None), reported=True)
            raise

        self.close(value)
        return value

    def open(self, run: Run) -> None:
        """Open the views. Main thread only."""
        self._open.add(run.id)
        self._display.open(run.id)
        run.meanwhile = self._display.tick

        with suppress(RuntimeError):  # no event loop outside of kernels
            self._loop = asyncio.get_running_loop()

        if self._display.live and self._loop is not None:
            run.on_edit = self._begin_edit
            self._edits.keep(run)

    def close(self, value: Any = None, run: str = "", reported: bool = False) -> None:
        """Close the views after the last run.

        Args:
            value: Value of the run; the states of a batch can be exported and run again.
            run: Id of the finished run; by default the run of the cell.
            reported: The cell shows the error of the run.
        """
        display = self._display
        if isinstance(value, States):
            self._states = value

        self._open.discard(run or (display.run.run if display.run else ""))
        if self._open or self._waits_for_verdicts(run, reported):
            return

        self._reported = self._reported or reported
        display.close(self._reported)
        if display.run is not None and display.feed is not None:
            name = display.run.run
            self._recordings.keep(name, display.feed, self._cell)
            runs = self._recordings.reruns(name)
            earlier = runs[: runs.index(name)] if name in runs else []
            hint = self._disk_offer(self._loaded, display.run) if display.has_live_view else ""
            display.offer(earlier, self._states is not None, hint)

    def _waits_for_verdicts(self, run: str, reported: bool) -> bool:
        """Return whether a live view stays open for the comparison of approximate answers, at most
        `VERIFY_SECONDS`. Then `close` is called again."""
        now = time.monotonic()
        is_late = self._close_by is not None and now > self._close_by
        if self._loop is None or not self._display.verifies or is_late:
            self._close_by = None
            return False
        if self._close_by is None:
            self._close_by = now + VERIFY_SECONDS
            self._display.refresh()  # the picture of a kernel that ends before the comparison
        again = partial(self.close, run=run, reported=reported)
        self._loop.call_soon_threadsafe(self._loop.call_later, END_SECONDS, again)
        return True

    def _compare(self, earlier: str) -> bytes:
        """Return the records of an earlier run and the run of the views, compared."""
        assert self._display.run is not None
        report = compare_recordings(self._recordings, earlier, self._display.run.run)
        return "\n".join(report.recording.lines).encode()

    def closer(self) -> Callable[[Any], None]:
        """Return a function that closes the views on the kernel's event loop, from any thread, with
        the value of the run."""
        loop = asyncio.get_running_loop()

        def close(value: Any) -> None:
            loop.call_soon_threadsafe(self.close, value)

        return close

    def _run_rows(self, action: str) -> str | bytes:
        """Execute a button of a batch: return the states as CSV, or run the failed rows again."""
        if self._states is None:
            raise OptionError("the batch is still running", "wait for the end")
        if action == "csv":
            return self._states.csv_text().encode(errors="backslashreplace")

        if self._states.failed:
            self._rerun(self._states)
        return ""

    def _rerun(self, states: States) -> None:
        """Run the failed rows on a background thread, in the same views."""
        close = self.closer()

        def ended(value: Any) -> None:
            self._bind(states if value is None else value)
            close(states if value is None else value)

        self._states = None
        self._display.resume()
        try:
            background = BackgroundRun(states.rerun, self._timeout, ended)
        except BaseException:
            self.close(states)
            raise

        self._open.add(background.run.id)
        self._display.begin_rerun(background.run.id)

    def _begin_edit(self, run: Run) -> None:
        """Show an edit of the run until the end of the edit."""
        self._open.add(run.id)
        self._display.begin_edit(run.id)
        self._edits.keep(run)
        loop = self._loop
        assert loop is not None

        def close() -> None:
            if run.status == "running":
                loop.call_later(END_SECONDS, close)
            else:
                self.close(run=run.id)

        def finished(_: object) -> None:
            loop.call_soon_threadsafe(close)

        run.on_finished = finished
