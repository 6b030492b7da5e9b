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
from typing import Any

from ...errors import Aborted
from ...events import RowsNumbered
from ...sampling import integer, read_option
from ..core.run import Run
from ..core.state import ProgramState
from ..pool import MAX_WORKERS, BatchTasks, LoopTasks
from .saved import SavedRows, SavedState
from .states import BatchRecord, State, States

WINDOW = 1024
"""Maximum number of rows of an iterator that are read ahead of the first unreturned row."""


class BatchRun:
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
        earlier: Row index -> state of an earlier batch. These rows are not run.
        record: Receives the arguments of the rows read by `all`.
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
        earlier: Mapping[int, State],
        record: BatchRecord,
        arranged: Callable[[list[BoundArguments]], list[int]] | None = None,
    ) -> None:
        self._total, self._start, self._task, self._workers = total, start, task, workers
        self._saved, self._progress_bar, self._earlier = saved, progress_bar, earlier
        self._record, self._arranged = record, arranged
        self._rows = self._looked_up(rows)
        self._to_run: int | None = None
        self._numbered: tuple[tuple[int, ...], str] | None = None  # rows to run, and earlier run
        if total is not None:
            read = list(self._rows)
            self._total = len(read)
            to_run = tuple(i for i, (_, _, state) in enumerate(read) if state is None)
            self._to_run, self._rows = len(to_run), iter(read)
            if len(to_run) < len(read):
                self._numbered = to_run, _last_run(state for _, _, state in read)
        self._window: deque[State] = deque()  # running or restored, and not returned yet
        self._all_read = False

    def all(self) -> States:
        """Return the states of all rows."""
        states = States((), self._record)
        try:
            for state in self._run(keep=True):
                states.append(state)
        except BaseException as error:
            error.states = States([*states, *self._window], self._record)  # type: ignore[attr-defined]
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
    ) -> Iterator[tuple[BoundArguments, str, State | None]]:
        """Yield each row with the key, and the state of an earlier batch or of the file."""
        for row, arguments in enumerate(rows):
            if self._saved is None:
                yield arguments, "", self._earlier.get(row)
            else:
                key = self._saved.key(arguments)
                yield arguments, key, self._earlier.get(row) or self._saved.find(key)

    def _run(self, keep: bool) -> Iterator[State]:
        with ExitStack() as stack:
            if self._saved is not None:
                stack.enter_context(self._saved)
            stack.callback(self._workers.stop)
            run = stack.enter_context(self._start(self._to_run))
            if self._numbered is not None:
                run.emit(RowsNumbered(run.id, *self._numbered))
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
                if isinstance(state, ProgramState) and state.program.run is run:
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
        rows: Iterable[tuple[BoundArguments, str, State | None]],
        keep: bool,
    ) -> None:
        arguments_to_run, tasks = [], []
        for arguments, key, earlier_state in rows:
            if keep:
                self._record.arguments.append(arguments)
            if earlier_state is not None:
                self._window.append(earlier_state)
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


def _last_run(states: Iterable[State | None]) -> str:
    """Return the id of the last run with one of the states, or "" without a run."""
    runs = [state.program.run for state in states if isinstance(state, ProgramState)]
    return max(runs, key=lambda run: int(run.id.removeprefix("run"))).id if runs else ""


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
