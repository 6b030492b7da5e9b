"""Recordings of this process: displayed runs, and recordings on demand. Draws nothing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import OptionError, nearest
from ..lang import ProgramState, Run
from ..lang.batches.states import States
from ..sampling import read_option, text
from ..viz import Emitter, Feed, Recording

MAX_CHARACTERS = 256 << 20
"""Maximum total size of all recordings. The oldest are dropped, also for pages opened later."""

RUNS_OF_A_CELL = 10
"""Number of last runs of a cell that can be compared."""

AnyRun = str | Run | ProgramState | States
"""A run: its id, the run itself, or a state or the states of its programs."""


class Recordings:
    """Recordings by run id. `on` and `off` record all runs."""

    def __init__(self, emitter: Callable[[], Emitter]) -> None:
        """Start without recordings. `emitter()` returns the current engine's emitter."""
        self._emitter = emitter
        self._runs: dict[str, Feed] = {}
        self._cells = defaultdict[str, deque[str]](partial(deque, maxlen=RUNS_OF_A_CELL))
        self._recording: tuple[Emitter, Feed] | None = None

    def __call__(self, run: AnyRun = "last") -> Recording:
        """Return the recording of a run.

        Args:
            run: Id of a run (see `sgnb.runs()`), "last", a run, or a state or the states of its
                programs.

        Raises:
            OptionError: No recording of the run exists, or `run` is not a run.
        """
        run = _id_of(run)
        if not self._runs:
            hint = "run a %%sglang cell with views first, or record: %sglang recording on"
            raise OptionError("no run was recorded yet", hint)
        name = next(reversed(self._runs)) if run == "last" else run
        if name not in self._runs:
            raise OptionError(
                f"there is no recording of {run!r}", nearest(run, ["last", *self._runs])
            )
        return Recording(self._runs[name].lines, name)

    def runs(self) -> list[str]:
        """Return the ids of the recorded runs, oldest first."""
        return list(self._runs)

    def on(self) -> None:
        """Start to record the current engine. Raises OptionError during a recording."""
        if self._recording is not None:
            raise OptionError(
                "a recording is active already", "end the recording: %sglang recording off"
            )
        emitter = self._emitter()
        self._recording = emitter, emitter.feed()

    def off(self) -> Recording:
        """Stop the recording and return the recording. Raises OptionError without a recording."""
        if self._recording is None:
            raise OptionError("no recording is active", "start a recording: %sglang recording on")
        emitter, feed = self._recording
        self._recording = None
        emitter.flush()
        emitter.detach(feed)
        return Recording(feed.lines)

    def reruns(self, run: str) -> list[str]:
        """Return the recorded runs of the cell of `run`, oldest first; empty for a run without a
        cell."""
        runs = next((runs for runs in self._cells.values() if run in runs), ())
        return [other for other in runs if other in self._runs]

    def keep(self, run: str, feed: Feed, cell: str = "") -> None:
        """Keep the records of a finished run. Drops the oldest recordings beyond `MAX_CHARACTERS`.

        Args:
            run: Id of the run.
            feed: Records of the run.
            cell: Name of the program, or id of the notebook's cell; "" if unknown.
        """
        self._runs[run] = feed
        if cell and run not in self._cells[cell]:  # an edit keeps the run again
            self._cells[cell].append(run)
        size = sum(feed.size for feed in self._runs.values())
        for oldest in list(self._runs)[:-1]:
            if size <= MAX_CHARACTERS:
                break
            dropped = self._runs.pop(oldest)
            size -= dropped.size
            dropped.drop(len(dropped.lines))


def _id_of(run: Any) -> str:
    """Return the id of a run, or "last"."""
    if isinstance(run, States):
        run = next((state for state in run if isinstance(state, ProgramState)), run)
    if isinstance(run, ProgramState):
        return run.run_id
    if isinstance(run, Run):
        return run.id
    return read_option("run", run, "the id of a run, a run, or the state of a program", text)
