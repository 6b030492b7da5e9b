"""One run: a program, or a batch of them, on an executor, from `RunStarted` to `RunFinished`.

    with Run(executor, title="my cell", source=body) as run:
        s = run.state()
        ...                             # s += text and generations
    s["answer"]

Leaving the block waits for everything that was appended, and raises the first error when no program
succeeded. An exception inside it, an interrupt above all, stops the run's calls at the next token
and keeps what they brought.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from ..errors import Aborted
from ..events import RunFinished, RunStarted
from ..sampling import SamplingParams
from .executor import Executor
from .program import Program
from .state import ProgramState

DRAIN_SECONDS = 5.0
"""How long a stopped run waits for its calls to hand over what they have."""

Status = Literal["running", "done", "error", "interrupted"]

_numbers = itertools.count(1)
_watchers: list[Callable[[Run], None]] = []


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
        source: str = "",  # the program's text, for people
        total: int = 1,  # programs that will run
        defaults: SamplingParams | Mapping[str, Any] | None = None,  # for every `gen`
        stream: bool = False,  # ask the executor for text as it is made
        marks: bool = False,  # special tokens written in data are read as such
    ) -> None:
        self.id = f"run{next(_numbers)}"
        self.title, self.total = title, total
        self.status: Status = "running"
        self.message = ""  # of `RunFinished`
        self.executor, self.stream, self.marks = executor, stream, marks
        self.defaults = SamplingParams.make(defaults)
        self.meanwhile: Callable[[], None] | None = None  # see `tick`
        self.emit = executor.log.emit
        self.states: list[ProgramState] = []  # of the programs, in order
        self._params: dict[Any, SamplingParams] = {}  # by the arguments of `params`
        self._over = False
        self.emit(RunStarted(self.id, title, source, total))
        for started in tuple(_watchers):
            started(self)

    def state(self, start: bool = True) -> ProgramState:
        """The state of the run's next program. With `start`, the calling thread runs its code."""
        program = Program(self, len(self.states))
        state = ProgramState(program.root)
        self.states.append(state)
        if start:
            program.start()
        return state

    def params(
        self,
        options: tuple[tuple[str, Any], ...],
        in_assistant: bool,
        backend: Executor | None = None,
    ) -> SamplingParams:
        """The run's defaults with `options`, and in the assistant's role the template's stops."""
        key = options, in_assistant, id(backend)
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
        if self.meanwhile is not None and threading.current_thread() is threading.main_thread():
            self.meanwhile()

    @property
    def finished(self) -> int:
        """How many programs are finished."""
        return sum(state.program.finished for state in self.states)

    def wait(self) -> None:
        """Wait until every program is finished."""
        for state in self.states:
            state.program.wait_finished()

    def cancel(self) -> None:
        """Stop every program's calls at the next token, from any thread. Waits for nothing."""
        for state in list(self.states):
            state.cancel()

    def finish(self, error: BaseException | None = None) -> None:
        """End the run; after an `error`, stop it first. Harmless when repeated."""
        if self._over:
            return
        self._over = True
        try:
            if error is not None:
                self.cancel()
                deadline = time.monotonic() + DRAIN_SECONDS
                for state in self.states:
                    state.program.drain(deadline)
        finally:
            self.status, self.message = self._outcome(error)
            self.emit(RunFinished(self.id, self.status, self.message))

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.finish(error)
            return
        try:
            for state in self.states:
                state.program.close()
            self.wait()
            self._raise_if_none_succeeded()
        except BaseException as caught:
            self.finish(caught)
            raise
        self.finish()

    def _errors(self) -> list[BaseException]:
        return [error for state in self.states if (error := state.program.root.error) is not None]

    def _raise_if_none_succeeded(self) -> None:
        if self.states and len(self._errors()) == len(self.states):
            self.states[0].raise_error()

    def _outcome(self, error: BaseException | None) -> tuple[Status, str]:
        """The status and message of `RunFinished`."""
        failed = self._errors()
        first = error or (failed[0] if failed else None)
        if first is None:
            return "done", ""
        if isinstance(first, (KeyboardInterrupt, GeneratorExit, Aborted)):
            return "interrupted", str(first)
        message = f"{type(first).__name__}: {first}"
        if (total := len(self.states)) > 1:
            message = f"{len(failed)} of {total} programs failed, first: {message}"
        return "error", message
