"""Edits that views request: another token, text or choice in a run of a cell."""

from __future__ import annotations

from ..errors import OptionError
from ..lang import ProgramState, Run
from ..lang.core.editing import find_point
from ..viz.live.views import EditRequest

KEPT_RUNS = 10
"""Number of runs that views can edit. A run keeps the states of its programs in memory."""


class Edits:
    """The latest runs of cells, and the execution of edits."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def keep(self, run: Run) -> None:
        """Keep a run for edits; forget the oldest runs beyond `KEPT_RUNS`."""
        self._runs[run.id] = run
        for id in list(self._runs)[:-KEPT_RUNS]:
            if self._runs[id].status != "running":
                del self._runs[id]

    def __call__(self, request: EditRequest) -> str:
        """Start a new run with the edit. Returns a message.

        Raises:
            OptionError: The run is forgotten or goes on, or the edit is not valid.
        """
        run = self._runs.get(request.run)
        if run is None:
            message = f"{request.run} is not among the last {KEPT_RUNS} runs of cells"
            raise OptionError(message, "run the cell again")

        if run.status == "running" and not run.paused:
            raise OptionError(f"{run.id} goes on", "pause the run first")

        branches = [branch for state in run.states for branch in state.program.branches]
        branch = next((branch for branch in branches if branch.id == request.branch), None)
        if branch is None:
            raise OptionError(f"{run.id} has no branch {request.branch!r}", "run the cell again")

        point = find_point(branch, request.position, None)
        edited: ProgramState = point.fork(request.text, token=request.token)
        return f"{edited.run_id} continues from here"
