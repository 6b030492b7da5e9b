"""One run: a program, or a batch of them, on an executor, from `RunStarted` to `RunFinished`.

    with Run(executor, title="my cell", source=body) as run:
        s = run.state()
        ...                             # s += text and generations
    s["answer"]

Leaving the block waits for everything that was appended, and raises the first error when no program
succeeded. An exception inside it, an interrupt above all, stops the run's calls at the next token
and keeps what they brought. Without the block a run ends by itself, when the last of its programs
is finished.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from ...events import RunFinished, RunStarted
from ...sampling import SamplingParams
from ..executor import Executor
from ..location import Location
from .other_models import OtherModels
from .program import Program, inside
from .snapshot import Snapshot
from .state import ProgramState
from .stopping import DRAIN_SECONDS, STOPS

Status = Literal["running", "done", "error", "interrupted"]

_numbers = itertools.count(1)
_watchers: list[Callable[[Run], None]] = []
_foreground: weakref.WeakSet[Run] = weakref.WeakSet()
"""Runs that the main thread has begun, outside of programs, and that are not over."""


def watch(started: Callable[[Run], None]) -> Callable[[], None]:
    """Have `started(run)` called for every run before its first op, on the thread that starts it.
    Returns the function that ends this."""
    _watchers.append(started)
    return lambda: _watchers.remove(started)


class Run:
    """The programs of one run, their executor, and what all their generations share."""

    def __init__(
        self,
        executor: Executor,
        title: str = "",
        source: str = "",  # the program's text, for people,
        location: Location | None = None,  # and where it begins
        total: int | None = 1,  # programs that will run; None: not known yet
        defaults: SamplingParams | Mapping[str, Any] | None = None,  # for every `gen`
        stream: bool = False,  # ask the executor for text as it is made
        special_tokens: bool = False,  # special tokens written in data are read as such
        keep_tokens: bool = True,  # outputs stay the tokens that they were made of
        num_api_spec_tokens: int | None = None,  # see `Ahead`
        initial: Snapshot | None = None,  # what its programs begin with
        traced: bool = False,  # it only becomes a graph: no view is told, and nobody waits for it
    ) -> None:
        executor.log.home.check()
        self.id = f"run{next(_numbers)}"
        self.title, self.total = title, total
        self.status: Status = "running"
        self.message = ""  # of `RunFinished`
        self.executor, self.stream = executor, stream
        self.others = OtherModels(self.id, executor)
        self.special_tokens, self.keep_tokens, self.initial = special_tokens, keep_tokens, initial
        self.num_api_spec_tokens = num_api_spec_tokens
        self.defaults = SamplingParams.make(defaults)
        self.meanwhile: Callable[[], None] | None = None  # see `tick`
        self.emit = executor.log.emit
        self.states: list[ProgramState] = []  # of the programs, in order, less those let go
        self.on_finished: Callable[[Program], None] | None = None  # must be quick, and not wait
        self._params: dict[Any, SamplingParams] = {}  # by the arguments of `params`
        self.begun = self.finished = 0  # programs
        self.cancelled = False  # no program is to begin
        self._failed = 0  # of those let go
        self._first_failed: ProgramState | None = None
        self._over = False
        self._ending = threading.Lock()
        self._failure: BaseException | None = None  # what `finish` was told
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
        self.emit(RunStarted(self.id, title, source, total or 0, *(location or ())))
        for started in tuple(_watchers):
            started(self)

    def state(self, start: bool = True) -> ProgramState:
        """The state of the run's next program. With `start` the program begins, and its code is
        whoever holds the state."""
        program = Program(self, self.begun, self.initial)
        state = ProgramState(program.root, inside=start)
        self.begun += 1
        self.states.append(state)
        if start:
            program.start()
        return state

    def forget(self, state: ProgramState) -> None:
        """Of a finished program remember only whether it failed."""
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
        """The run's defaults with `options`, and in the assistant's role the template's stops."""
        key = options, in_assistant, backend
        if key not in self._params:
            params = SamplingParams.make(self.defaults, **dict(options))
            if in_assistant:
                chat = (backend or self.executor).chat
                params = SamplingParams.make(
                    params,
                    stop=tuple(dict.fromkeys((*params.stop, *chat.stop))),
                    stop_token_ids=(*params.stop_token_ids, *chat.stop_token_ids),
                )
            self._params[key] = params
        return self._params[key]

    def tick(self) -> None:
        """Call `meanwhile`, on the main thread alone: only that one may display. Every wait for one
        of the run's programs does this about ten times a second."""
        if threading.current_thread() is not threading.main_thread():
            return
        if self.meanwhile is not None:
            self.meanwhile()
        elif self.outer is not None:
            self.outer.run.tick()

    def wait(self) -> None:
        """Wait until every program is finished."""
        for state in self.states:
            state.program.wait_finished()

    def cancel(self) -> None:
        """Stop every program's calls at the next token, from any thread. Waits for nothing."""
        self.cancelled = True
        for state in list(self.states):
            state.cancel()

    @staticmethod
    def stop_all(error: BaseException) -> None:
        """Stop the runs that the main thread has begun, as an `error` wants."""
        begun = tuple(_foreground)
        for run in begun:
            run.cancel()
        for run in begun:
            run.finish(error)

    def join(self) -> None:
        """Wait until the run and those nested in it are over, and raise the first error when none
        of its programs succeeded; of a nested run, if nobody has read it. An exception here stops
        them."""
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
        """What ended the programs' code is raised where they were begun."""
        for state in self.states:
            state.program.root.error_reported = True

    def count_finished(self, program: Program) -> None:
        """Programs call this, with their lock, when they are finished."""
        if self.on_finished is not None:
            self.on_finished(program)
        with self._ending:
            self.finished += 1
            last = self.total is not None and self.finished >= max(self.total, self.begun)
        if last:
            self.finish()

    def finish(self, error: BaseException | None = None) -> None:
        """End the run; after an `error`, stop it first. Harmless when repeated."""
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
        """Stop the programs and the runs nested in them, and take what their calls have brought."""
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
        """The status and message of `RunFinished`."""
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
