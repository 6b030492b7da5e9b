"""Run: execution of a program or batch on an executor, from `RunStarted` to `RunFinished`.

    with Run(executor, title="my cell", source=body) as run:
        s = run.state()
        ...                             # s += text and generations
    s["answer"]

The end of the block waits for everything that was appended, and raises the first error if no
program succeeded. An exception in the block, for example an interrupt, stops the run's calls at the
next token and keeps partial results. Without the block, a run ends when the last program has
finished.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal

from ...errors import OptionError
from ...events import RunFinished, RunStarted
from ...sampling import SamplingParams
from ..executor import Executor
from ..location import Location
from .editing import Edit, EditPoint
from .other_models import OtherModels
from .program import Program, inside
from .snapshot import Snapshot
from .state import ProgramState
from .stepping import Step, StepGate, Until, read_until
from .stopping import DRAIN_SECONDS, STOPS

Status = Literal["running", "done", "error", "interrupted"]

_numbers = itertools.count(1)
_watchers: list[Callable[[Run], None]] = []
_foreground: weakref.WeakSet[Run] = weakref.WeakSet()
"""Unfinished runs begun by the main thread outside of programs."""


def watch(started: Callable[[Run], None]) -> Callable[[], None]:
    """Register a function to be called for every run before the first op.

    Args:
        started: Called with the run, on the thread that starts the run.

    Returns:
        A function that removes the registration.
    """
    _watchers.append(started)
    return lambda: _watchers.remove(started)


@lru_cache(maxsize=256)
def _merged(
    defaults: SamplingParams, options: tuple[tuple[str, Any], ...], types: tuple[type, ...]
) -> SamplingParams:
    """Return `defaults` with `options`. `types` of the values distinguish 1 and True."""
    return SamplingParams.make(defaults, **dict(options))


class Run:
    """Programs of a run, their executor, and settings common to all generations.

    Args:
        executor: Executes the calls.
        title: Name of the run in views.
        source: Source of the program, for views.
        location: Location of the source.
        total: Number of programs; None if unknown.
        defaults: Sampling defaults for all generations.
        stream: Request text from the executor during generation.
        special_tokens: Recognize special tokens in data.
        keep_tokens: Keep sampled token ids in later prompts.
        num_api_spec_tokens: See `LookaheadBuffer`.
        initial: Content that programs start with.
        traced: The run only records a graph: no events, no waits.
        edit: Edit of an earlier run that this run continues.
    """

    def __init__(
        self,
        executor: Executor,
        title: str = "",
        source: str = "",
        location: Location | None = None,
        total: int | None = 1,
        defaults: SamplingParams | Mapping[str, Any] | None = None,
        stream: bool = False,
        special_tokens: bool = False,
        keep_tokens: bool = True,
        num_api_spec_tokens: int | None = None,
        initial: Snapshot | None = None,
        traced: bool = False,
        edit: Edit | None = None,
    ) -> None:
        executor.log.home.check()
        self.id = f"run{next(_numbers)}"
        self.title, self.total = title, total
        self.status: Status = "running"
        self.message = ""  # message of `RunFinished`
        self.executor, self.stream = executor, stream
        self.others = OtherModels(self.id, executor)
        self.special_tokens, self.keep_tokens, self.initial = special_tokens, keep_tokens, initial
        self.num_api_spec_tokens, self.edit = num_api_spec_tokens, edit
        self.defaults = SamplingParams.make(defaults)
        self.meanwhile: Callable[[], None] | None = None  # see `tick`
        self.on_edit: Callable[[Run], None] | None = None  # before the first event of an edit
        self.emit = executor.log.emit
        # states of programs in order, without forgotten programs
        self.states: list[ProgramState] = []
        self.on_finished: Callable[[Program], None] | None = None  # must not block
        self.gate: StepGate | None = None  # after the first `pause`
        self._params: dict[Any, SamplingParams] = {}  # cache of `params`
        self.begun = self.finished = 0  # numbers of programs
        self.cancelled = False  # no further program begins
        self._failed = 0  # number of forgotten programs that failed
        self._first_failed: ProgramState | None = None
        self._over = False
        self._ending = threading.Lock()
        self._failure: BaseException | None = None  # error passed to `finish`
        self.outer = None if traced else inside.get()  # the program whose code began this run
        if traced:
            return

        if self.outer is not None:
            self.outer.nested.append(self)
            caller: Program | None = self.outer
            while caller is not None:
                caller.called.append(self.id)
                caller = caller.run.outer
        elif threading.current_thread() is threading.main_thread():
            _foreground.add(self)
        self._announce(RunStarted(self.id, title, source, total or 0, *(location or ())))

    def _announce(self, event: RunStarted) -> None:
        """Log the begin of the run and call the watchers."""
        if self.edit is not None:
            self.on_edit = self.edit.call.branch.program.run.on_edit
            if self.on_edit is not None:
                self.on_edit(self)
        self.emit(event)
        if self.edit is not None:
            self.edit.begin(self)
        for started in tuple(_watchers):
            started(self)

    def state(self, start: bool = True) -> ProgramState:
        """Return the state of the next program. With `start` the program begins, and the caller
        acts as the program's code."""
        program = Program(self, self.begun, self.initial)
        state = ProgramState(program.root, inside=start)
        self.begun += 1
        self.states.append(state)
        if start:
            program.start()
        return state

    def forget(self, state: ProgramState) -> None:
        """Remove the state of a finished program; only count a failure."""
        self.states.remove(state)
        if state.program.root.error is not None:
            self._failed += 1
            self._first_failed = self._first_failed or state

    def params(
        self,
        options: tuple[tuple[str, Any], ...],
        in_assistant: bool,
        backend: Executor | None = None,
    ) -> SamplingParams:
        """Return the run's defaults with `options`; in the assistant's role with the template's
        stops."""
        key = options, in_assistant, backend
        if key not in self._params:
            params = _merged(self.defaults, options, tuple(type(value) for _, value in options))
            if in_assistant:
                chat = (backend or self.executor).chat
                params = SamplingParams.make(
                    params,
                    stop=tuple(dict.fromkeys((*params.stop, *chat.stop))),
                    stop_token_ids=(*params.stop_token_ids, *chat.stop_token_ids),
                )
            self._params[key] = params
        return self._params[key]

    def at(self, place: int | str, token: int | None = None) -> EditPoint:
        """Return a point of the run's only program where the run can continue differently. Waits
        for running calls of the program, but not for a paused run.

        Args:
            place: As in `ProgramState.at`.
            token: As in `ProgramState.at`.

        Raises:
            OptionError: The run is a batch, or no such token was generated.
        """
        if len(self.states) != 1:
            message = f"{self.id} has {len(self.states)} programs"
            raise OptionError(message, "give the state: run.states[row].at(...)")
        return self.states[0].at(place, token)

    def pause(self, until: Until = None) -> None:
        """Stop each branch before the next append or call, and running calls after the next
        token. An executor without an engine stops between calls only.

        Args:
            until: Stop only at a line of the program (3), or after a token with a probability
                below a limit ("p<0.1"). None stops at once.

        Raises:
            OptionError: `until` is not a condition.
        """
        read_until(until)

        self.gate = self.gate or StepGate(self)
        if until is None:
            self.gate.pause()
        else:
            self.gate.resume(until)

    def step(self, unit: Step = "token", wait: bool = True) -> bool:
        """Continue a paused run by a step.

        Args:
            unit: "token" continues each stopped call by a token, or else each stopped branch by an
                append or call. "call" continues each branch to the end of a call.
            wait: Wait for the next stop, at most a minute.

        Returns:
            True if the run is paused; False after the end of the run, or while the run goes on.

        Raises:
            OptionError: `unit` is unknown, or the run was never paused.
        """
        if unit not in ("token", "call"):
            raise OptionError(f"step({unit!r}) is unknown", 'give "token" or "call"')
        if self.gate is None:
            raise OptionError(f"{self.id} is not paused", "pause the run first: run.pause()")

        self.gate.step(unit)
        return (not wait or self.gate.wait()) and self.paused

    def resume(self, until: Until = None) -> None:
        """Continue to the end, or until a condition as in `pause`."""
        read_until(until)
        if self.gate is not None:
            self.gate.resume(until)

    @property
    def paused(self) -> bool:
        """True if a branch is stopped and all others wait."""
        return self.status == "running" and self.gate is not None and self.gate.paused

    def tick(self) -> None:
        """Call `meanwhile` on the main thread, the only thread that may display. Waits for programs
        of the run call `tick` about ten times per second."""
        if threading.current_thread() is not threading.main_thread():
            return
        if self.meanwhile is not None:
            self.meanwhile()
        elif self.outer is not None:
            self.outer.run.tick()

    def wait(self) -> None:
        """Wait until every program has finished."""
        for state in self.states:
            state.program.wait_finished()

    def cancel(self) -> None:
        """Stop all calls at the next token. Callable from any thread; does not wait."""
        self.cancelled = True
        for state in list(self.states):
            state.cancel()

    def cancel_on_a_thread(self) -> None:
        """Stop a run whose event loop was closed. Needs a new thread: the finalizer may interrupt
        code that holds a program's lock."""
        self.mark_read()
        threading.Thread(target=self.cancel, name="sgnb-cancel", daemon=True).start()

    @staticmethod
    def stop_all(error: BaseException) -> None:
        """Stop all runs begun by the main thread because of `error`."""
        begun = tuple(_foreground)
        for run in begun:
            run.cancel()
        for run in begun:
            run.finish(error)

    def join(self) -> None:
        """Wait for the run and nested runs, and raise the first error if no program succeeded.

        A nested run raises only errors that the program has not read. An exception here stops the
        run.
        """
        try:
            self.wait()
            for state in self.states:
                for run in tuple(state.program.nested):
                    run.join()
            if self.outer is None or any(
                not state.program.root.error_reported for state in self.states
            ):
                self._raise_if_none_succeeded()
        except BaseException as error:
            self.finish(error)
            raise

    def mark_read(self) -> None:
        """Mark the errors of all programs as read, because the caller of the run raises the
        error."""
        for state in self.states:
            state.program.root.error_reported = True

    def count_finished(self, program: Program) -> None:
        """Count a finished program. Programs call this method with their lock held."""
        if self.on_finished is not None:
            self.on_finished(program)
        with self._ending:
            self.finished += 1
            last = self.total is not None and self.finished >= max(self.total, self.begun)
        if last:
            self.finish()

    def finish(self, error: BaseException | None = None) -> None:
        """End the run, and stop the programs first if there is an `error`. Repeated calls have no
        effect."""
        try:
            if error is not None:
                self._failure = self._failure or error
                self._stop()
        finally:
            with self._ending:
                over, self._over = self._over, True
            if not over:
                self.status, self.message = self._outcome()
                self.emit(RunFinished(self.id, self.status, self.message))
                _foreground.discard(self)
                if self.outer is not None and self.status == "done":
                    self.outer.nested.remove(self)

    def _stop(self) -> None:
        """Stop the programs and nested runs, and keep partial results."""
        self.mark_read()
        self.cancel()
        deadline = time.monotonic() + DRAIN_SECONDS
        for state in self.states:
            state.program.drain(deadline)
            for run in tuple(state.program.nested):
                run.finish(self._failure)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.finish(error)
            return
        for state in self.states:
            state.program.close()
        self.join()
        self.finish()

    def _errors(self) -> list[BaseException]:
        return [error for state in self.states if (error := state.program.root.error) is not None]

    def _raise_if_none_succeeded(self) -> None:
        first = self._first_failed or next(iter(self.states), None)
        if first is not None and self._failed + len(self._errors()) == self.begun:
            first.raise_error()

    def _outcome(self) -> tuple[Status, str]:
        """Return status and message of `RunFinished`."""
        failed = self._errors()
        earlier = self._first_failed and self._first_failed.program.root.error
        first = self._failure or earlier or (failed[0] if failed else None)
        if first is None:
            return "done", ""
        if isinstance(first, STOPS):
            return "interrupted", str(first)
        message = f"{type(first).__name__}: {first}"
        if self.begun > 1:
            count = self._failed + len(failed)
            message = f"{count} of {self.begun} programs failed, first: {message}"
        return "error", message
