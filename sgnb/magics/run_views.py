"""The views of a run of a cell, and of the edits of this run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ..lang import Run
from ..viz import Display
from .engines import LoadedEngine, RemoteBackend
from .magic_options import CellLine
from .reruns import compare_recordings
from .session import Session

END_SECONDS = 0.02
"""Poll interval for the end of an edited run whose program has finished."""


class Views:
    """The views of one run. Create before the run begins."""

    def __init__(
        self,
        loaded: LoadedEngine | RemoteBackend,
        line: CellLine,
        session: Session,
        cell: str = "",
        steers: bool = False,
    ) -> None:
        """cell: name of the program, or id of the cell. steers: the views have buttons to pause
        the run; needs an idle kernel."""
        self._recordings, self._edits, self._cell = session.recordings, session.edits, cell
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
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[str] = set()  # ids of the run and of its edits
        self._reported = False  # the cell shows the error of the run

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

    def close(self, run: str = "", reported: bool = False) -> None:
        """Close the views after the last run.

        Args:
            run: Id of the finished run; by default the run of the cell.
            reported: The cell shows the error of the run.
        """
        display = self._display
        self._open.discard(run or (display.run.run if display.run else ""))
        if self._open:
            return
        self._reported = self._reported or reported
        display.close(self._reported)
        if display.run is not None and display.feed is not None:
            name = display.run.run
            self._recordings.keep(name, display.feed, self._cell)
            runs = self._recordings.reruns(name)
            display.offer(runs[: runs.index(name)] if name in runs else [])

    def _compare(self, earlier: str) -> bytes:
        """Return the records of an earlier run and the run of the views, compared."""
        assert self._display.run is not None
        report = compare_recordings(self._recordings, earlier, self._display.run.run)
        return "\n".join(report.recording.lines).encode()

    def closer(self) -> Callable[[], None]:
        """Return a function that closes the views on the kernel's event loop, from any thread."""
        loop = asyncio.get_running_loop()

        def close() -> None:
            loop.call_soon_threadsafe(self.close)

        return close

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
                self.close(run.id)

        def finished(_: object) -> None:
            loop.call_soon_threadsafe(close)

        run.on_finished = finished
