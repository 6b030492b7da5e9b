"""Stops of a run: before each op of a branch, and after each token of a call.

A stopped branch keeps the ops in the queue: no thread waits. Tokens stop in the engine, through
the optional attribute `token_stepper` of an executor. Other executors stop between ops only.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ...errors import EngineError, OptionError, shown
from ...events import BranchPaused
from ..ir import MediaExpr, PartSet, Text
from ..location import Location
from .ops import Choose, Generate, Op

if TYPE_CHECKING:
    from .branch import Branch
    from .program import Program
    from .run import Run

Until = int | str | None
"""Condition of a stop: a line number of the program, "p<0.1" for a token with a probability below
0.1, or None."""

Step = Literal["token", "call"]
POLL_SECONDS = 0.002
STEP_SECONDS = 60.0
"""Longest wait of `step` for the next stop."""


class StepGate:
    """Stops of a run. `admits` is called with the lock of a program, the public methods
    without a lock."""

    def __init__(self, run: Run) -> None:
        self._run, self._stepper = run, getattr(run.executor, "token_stepper", None)
        self._stops = True  # before each op
        self._line = 0  # stop before ops of this line only; 0: no line

    def pause(self) -> None:
        """Stop the branches before their next op, and running calls after their next token."""
        self._stops = True
        for program in self._programs():
            with program.changed:
                for branch in program.branches:
                    branch.permit = ""
        if self._stepper is not None:
            self._stepper.pause(self._run.id)

    def step(self, unit: Step) -> None:
        """Let each stopped call compute a token; without a stopped call, let each stopped branch
        run an op. With "call", let each branch go on to the end of the current or next call."""
        self._stops = True
        if unit == "call":
            if self._stepper is not None:
                self._stepper.resume(self._run.id)
            self._release("call")
        else:
            if self._stepper is not None:
                self._stepper.pause(self._run.id)
                if self._stepper.step(self._run.id):
                    return
            self._release("op")

    def resume(self, until: Until) -> None:
        """Go on to the end, or until the condition."""
        self._line, below = read_until(until)
        self._stops = False
        try:
            if self._stepper is not None:
                if below is None:
                    self._stepper.resume(self._run.id)
                else:
                    self._stepper.pause(self._run.id, below)
                    self._stepper.step(self._run.id)
        finally:  # also of a closed engine, whose calls then fail
            self._release("op")

    @property
    def paused(self) -> bool:
        """True if a branch is stopped and all others wait."""
        paused = set[str]()
        if self._stepper is not None:
            with suppress(EngineError):  # a closed engine has no stopped requests
                paused = self._stepper.stopped_branches(self._run.id)

        stops = False
        for branch in [each for program in self._programs() for each in list(program.branches)]:
            calls = isinstance(branch.waiting, Generate | Choose)
            if branch.stopped or (calls and branch.id in paused):
                stops = True
            elif calls or branch.may_advance:
                return False
        return stops

    def wait(self, seconds: float = STEP_SECONDS) -> bool:
        """Wait for the next stop, or the end of the run. An interrupt stops the run.

        Returns:
            False after `seconds`.
        """
        deadline = time.monotonic() + seconds
        try:
            while self._run.status == "running" and not self.paused:
                if time.monotonic() > deadline:
                    return False
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self._run.cancel()
            raise
        return True

    def admits(self, branch: Branch, op: Op) -> bool:
        """Return whether the branch may run an op now, and log the stop of the branch otherwise."""
        is_call = isinstance(op, Generate | Choose)
        location = branch.location_of(op)

        if branch.permit == "op" or (branch.permit == "call" and is_call):
            branch.permit = ""
        elif branch.permit == "call" or not (self._stops or self._is_at_line(location)):
            pass
        else:
            if self._is_at_line(location):
                self._stops = True
            if not branch.stopped:
                branch.stopped = True
                file, line = location or ("", 0)
                run = branch.program.run.id
                branch.emit(BranchPaused(run, branch.id, describe(op), file, line))
            return False

        branch.note_resumed()
        return True

    def _is_at_line(self, location: Location | None) -> bool:
        return bool(self._line) and location is not None and location.line == self._line

    def _programs(self) -> list[Program]:
        return [state.program for state in list(self._run.states)]

    def _release(self, permit: str) -> None:
        """Let all stopped branches go on with a permit. Permits of other branches end, except for
        "call" followed by "call"."""
        for program in self._programs():
            with program.changed:
                for branch in list(program.branches):
                    if branch.stopped:
                        branch.permit = permit
                        branch.advance()
                    elif permit != "call":
                        branch.permit = ""
                program.waits.notify()
            program.send()


def read_until(until: Any) -> tuple[int, float | None]:
    """Return the line (or 0) and the probability (or None) of a condition. Raises OptionError."""
    if until is None:
        return 0, None
    text = str(until).strip()
    if not isinstance(until, bool) and text.isdecimal() and int(text) > 0:
        return int(text), None

    match = re.fullmatch(r"p\s*<\s*(0?\.\d+|1(\.0*)?)", text)
    if match is None or float(match[1]) == 0.0:
        hint = 'give a line number of the program, or "p<0.1" for a probability'
        raise OptionError(f"until={shown(until)} is not a condition", hint)
    return 0, float(match[1])


def describe(op: Op) -> str:
    """Return the words of a view for an op."""
    if isinstance(op, Generate):
        return f"gen {op.name!r}"
    if isinstance(op, Choose):
        return f"select {op.name!r}"
    if isinstance(op, Text):
        text = op.text if len(op.text) <= 30 else op.text[:29] + "…"
        return f"text {text!r}"
    if isinstance(op, MediaExpr):
        return str(op.kind)
    if isinstance(op, PartSet):
        return f"{len(op.parts)} unordered parts"
    return type(op).__name__.lower()
