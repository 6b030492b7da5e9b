"""Execution of a batch: rows of unknown number run in a bounded window, and states return in order.

An interrupt or another error of the batch carries the states so far as the attribute `states`.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from inspect import BoundArguments
from itertools import islice
from types import MappingProxyType
from typing import Any

from ...errors import Aborted, AnswerError, shown
from ...sampling import integer, read_option
from ..core.run import Run
from ..core.state import ProgramState
from ..core.typed_values import typed
from ..pool import MAX_WORKERS, BatchTasks, LoopTasks
from .rows import Rows
from .saved import SavedRows, SavedState

WINDOW = 1024
"""Maximum number of rows of an iterator that are read ahead of the first unreturned row."""

State = ProgramState | SavedState

SHOWN_STATES = 5
SHOWN_VARIABLES = 3


class States(list[State]):
    """List of the states of a batch, in the order of the rows. The representation shows the number
    of rows and failures, and the first answers."""

    def get(self, name: str, type_: Any) -> list[Any]:
        """Return the variable `name` of each row as an instance of a type; see `ProgramState.get`.

        Raises:
            AnswerError: The text of a row is not a value of the type.
            Exception: The error of a failed row.
        """
        return [state.get(name, type_) for state in self]

    def __repr__(self) -> str:
        errors = [(row, error) for row, state in enumerate(self) if (error := _error(state))]
        head = f"{len(self):,} rows"
        if errors:
            row, error = errors[0]
            head += f", {len(errors):,} failed, first row {row}: {type(error).__name__}: "
            head += shown(str(error))[1:-1]
        lines = [f"[{row}] {_answers(state)}" for row, state in enumerate(self[:SHOWN_STATES])]
        hidden = len(self) - SHOWN_STATES
        return "\n".join([head, *lines, *([f"and {hidden:,} more rows"] if hidden > 0 else [])])


def _error(state: State) -> BaseException | None:
    """Return the error so far, without waiting."""
    return None if isinstance(state, SavedState) else state.program.root.error


def _answers(state: State) -> str:
    if error := _error(state):
        return type(error).__name__
    variables = state.variables if isinstance(state, SavedState) else state.program.root.variables
    pairs = [f"{name}={shown(value)}" for name, value in [*variables.items()][:SHOWN_VARIABLES]]
    hidden = len(variables) - SHOWN_VARIABLES
    return ", ".join([*pairs, *([f"and {hidden} more"] if hidden > 0 else [])]) or "no variables"


class Batch:
    """Execution of the rows of a batch. Rows are checked at construction; rows of an iterator when
    they are read.

    Args:
        rows: Arguments of each row.
        total: Number of rows; None for an iterator.
        start: Begins a run of the given number of programs; None for an unknown number.
        task: Returns a function that runs the code of a program.
        workers: Runs the tasks.
        saved: File of finished rows.
        progress_bar: Show a progress bar.
        arranged: Returns the order in which rows begin, as row indices; None for the order of the
            rows. Does not affect the order of the states.
    """

    def __init__(
        self,
        rows: Iterable[BoundArguments],
        total: int | None,
        start: Callable[[int | None], Run],
        task: Callable[[ProgramState, BoundArguments], Callable[[], Any]],
        workers: BatchTasks | LoopTasks,
        saved: SavedRows | None,
        progress_bar: bool,
        arranged: Callable[[list[BoundArguments]], list[int]] | None = None,
    ) -> None:
        self.arguments: list[dict[str, Any]] = []  # arguments of the rows read by `all`
        self._total, self._start, self._task, self._workers = total, start, task, workers
        self._saved, self._progress_bar = saved, progress_bar
        self._arranged = arranged
        self._rows = self._looked_up(rows)
        self._to_run: int | None = None
        if total is not None:
            read = list(self._rows)
            self._total = len(read)
            self._to_run = sum(saved_state is None for _, _, saved_state in read)
            self._rows = iter(read)
        self._window: deque[State] = deque()  # running or restored, and not returned yet
        self._all_read = False

    def all(self) -> States:
        """Return the states of all rows."""
        states = States()
        try:
            for state in self._run(keep=True):
                states.append(state)
        except BaseException as error:
            error.states = States([*states, *self._window])  # type: ignore[attr-defined]
            if isinstance(error, KeyboardInterrupt):
                error.add_note("the batch's states so far are this error's `states`")
            raise
        return states

    def stream(self) -> Iterator[State]:
        """Return an iterator over the states in the order of the rows. Returned states are not
        kept."""
        return self._run(keep=False)

    def _looked_up(
        self, rows: Iterable[BoundArguments]
    ) -> Iterator[tuple[BoundArguments, str, SavedState | None]]:
        """Yield each row with the key and the saved state of an earlier call."""
        for arguments in rows:
            key = "" if self._saved is None else self._saved.key(arguments)
            yield arguments, key, None if self._saved is None else self._saved.find(key)

    def _run(self, keep: bool) -> Iterator[State]:
        with ExitStack() as stack:
            if self._saved is not None:
                stack.enter_context(self._saved)
            stack.callback(self._workers.stop)
            run = stack.enter_context(self._start(self._to_run))
            if self._saved is not None:
                run.on_finished = self._saved.finished
            bar = stack.enter_context(_bar(self._total)) if self._progress_bar else None
            num_restored = num_awaited = 0

            def meanwhile() -> None:
                self._workers.nudge()
                if self._saved is not None:
                    self._saved.check()
                if bar is not None:
                    bar.update(run.finished + num_restored - bar.n)

            while self._fill(run, keep):
                state = self._window[0]
                # The thread that waits for the outermost batch nudges for all batches.
                quiet = self._workers.inner and self._saved is None and bar is None
                if isinstance(state, ProgramState):
                    num_awaited += 1
                    # In a stream, a later program may wait for the consumer of the states.
                    self._workers.help(until=None if keep else num_awaited)
                    self._wait(keep, None if quiet else meanwhile)
                else:
                    num_restored += 1
                if not quiet:
                    meanwhile()
                yield self._window.popleft()
                if not keep and isinstance(state, ProgramState):
                    run.forget(state)

    def _wait(self, keep: bool, meanwhile: Callable[[], None] | None) -> None:
        """Wait for the first state of the window. If all states are returned together, wait for the
        last state first: otherwise the thread wakes up for every state."""
        wait_for_last = keep and self._total is not None
        for state in (self._window[-1] if wait_for_last else self._window[0], self._window[0]):
            if isinstance(state, ProgramState) and not state.program.finished:
                state.program.wait_finished(meanwhile)

    def _fill(self, run: Run, keep: bool) -> bool:
        """Begin rows until the window is full or the first state is finished. Returns False if no
        state is left."""
        size = WINDOW if self._total is None else self._total
        step = 1 if self._total is None else max(size, 1)
        while not self._all_read and len(self._window) < size and not self._first_finished():
            if run.cancelled and self._window:
                break
            if run.cancelled:
                hint = "it stopped before all rows were read; run it again to go on"
                raise Aborted("the run was stopped", hint)
            rows = list(islice(self._rows, step))
            self._begin(run, rows, keep)
            if len(rows) < step or self._total is not None:
                self._all_read, run.total = True, run.begun
        return bool(self._window)

    def _first_finished(self) -> bool:
        if not self._window:
            return False
        first = self._window[0]
        return isinstance(first, SavedState) or first.program.finished

    def _begin(
        self,
        run: Run,
        rows: Iterable[tuple[BoundArguments, str, SavedState | None]],
        keep: bool,
    ) -> None:
        arguments_to_run, tasks = [], []
        for arguments, key, saved_state in rows:
            if keep:
                self.arguments.append(arguments.arguments)
            if saved_state is not None:
                self._window.append(saved_state)
                continue
            state = run.state(start=False)
            self._window.append(state)
            if self._saved is not None:
                self._saved.expect(state.program, key, arguments)
            arguments_to_run.append(arguments)
            tasks.append(self._task(state, arguments))
        if self._arranged is not None:
            tasks = [tasks[index] for index in self._arranged(arguments_to_run)]
        self._workers.add(tasks)


def frame(
    rows: Rows,
    arguments: list[dict[str, Any]],
    states: list[State],
    types: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Return a data frame with the rows, variables, errors, tokens and seconds.

    Args:
        rows: The rows of the batch.
        arguments: The arguments of each row.
        states: The state of each row.
        types: Types of variables. A text that is not a value of its type becomes None, and the
            column of errors has the reason.
    """
    variables, errors = [], []
    for state in states:
        read = state.variables if isinstance(state, SavedState) else state._branch.variables
        values = dict(read)
        error = state.error()
        for name in types.keys() & values.keys():
            try:
                values[name] = typed(name, values[name], types[name])
            except AnswerError as reason:
                values[name], error = None, error or reason
        variables.append(values)
        errors.append(None if error is None else f"{type(error).__name__}: {error}")
    return rows.frame(
        arguments,
        variables,
        error=errors,
        tokens=[state.tokens for state in states],
        seconds=[state.seconds for state in states],
    )


def thread_limit(num_threads: Any) -> int:
    """Return the argument `num_threads` of `run_batch` as a number."""
    if num_threads == "auto":
        return MAX_WORKERS
    return read_option("num_threads", num_threads, '"auto" or an integer of 1 or more', integer(1))


def _bar(total: int | None) -> Any:
    """Return a progress bar, as a widget in a notebook."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns in notebooks without widgets
        from tqdm.auto import tqdm
    return tqdm(total=total, unit="program")
