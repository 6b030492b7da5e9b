"""States of a batch as data: columns, a data frame, a CSV file, and a rerun of the failed rows."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import BoundArguments
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...codec import dumps
from ...errors import AnswerError, OptionError, shown
from ...sampling import read_option
from ..core.snapshot import Snapshot
from ..core.state import ProgramState
from ..core.typed_values import typed
from .rows import Rows
from .saved import SavedState, described

State = ProgramState | SavedState

NO_TYPES: Mapping[str, Any] = MappingProxyType({})

SHOWN_STATES = 5
SHOWN_VARIABLES = 3


@dataclass
class BatchRecord:
    """Rows of a batch and the way to run the rows again.

    Args:
        rows: The argument of `run_batch`.
        run: Runs rows; the second argument has the states, by row index, of rows that do not run.
        arguments: Arguments of the rows read so far.
    """

    rows: Rows
    run: Callable[[list[BoundArguments], Mapping[int, State]], States]
    arguments: list[BoundArguments] = field(default_factory=list)


class States(list[State]):
    """List of the states of a batch, in the order of the rows. The representation shows the number
    of rows and failures, and the first answers. A slice is an ordinary list.

    An interrupted batch has the same methods: the states are the attribute `states` of the error,
    and the variable of an unfinished generation holds the partial text.
    """

    def __init__(self, states: Iterable[State], record: BatchRecord) -> None:
        super().__init__(states)
        self._record = record

    @property
    def failed(self) -> list[int]:
        """Indices of the rows with an error, including stopped rows. Waits for all rows."""
        return [row for row, state in enumerate(self) if state.error() is not None]

    def rerun(self) -> States:
        """Run the failed and stopped rows again, with the program and the options of the batch.

        Returns:
            The states of all rows; rows without an error keep the state. This list is unchanged.

        Raises:
            Exception: As `run_batch`: the first error if all rerun rows failed again. The
                attribute `states` of the error has the states of all rows.
        """
        failed = set(self.failed)
        earlier = {row: state for row, state in enumerate(self) if row not in failed}
        arguments = self._record.arguments[: len(self)]
        return self._record.run(arguments, earlier) if failed else States(self, self._record)

    def columns(self, types: Mapping[str, Any] = NO_TYPES) -> dict[str, list[Any]]:
        """Return the arguments, variables, errors, tokens and seconds of the rows as columns.

        A variable with the name of an argument gets the suffix "_out". A variable that a row did
        not set is None.

        Args:
            types: Types of variables. A text that is not a value of its type becomes None, and the
                column of errors has the reason.
        """
        rows, arguments = self._record.rows, self._arguments()
        return {**rows.columns(arguments), **self._results(types)}

    def frame(self, types: Mapping[str, Any] = NO_TYPES) -> Any:
        """Return `columns` as a data frame: of the library of the batch's own data frame, otherwise
        of pandas.

        Args:
            types: As in `columns`.

        Raises:
            OptionError: pandas is not installed.
        """
        return self._record.rows.frame(self._arguments(), self._results(types))

    def csv(self, path: str | os.PathLike[str], types: Mapping[str, Any] = NO_TYPES) -> Path:
        """Write `columns` to a CSV file. Texts are written as they are, None as an empty cell, and
        other values as JSON.

        Args:
            path: File; an existing file is replaced.
            types: As in `columns`.

        Returns:
            The path of the file.

        Raises:
            OptionError: `path` is not a path.
        """
        target = read_option("path", path, "the path of a file", Path)
        # A lone surrogate has no UTF-8 encoding.
        with target.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            file.write(self.csv_text(types))
        return target

    def csv_text(self, types: Mapping[str, Any] = NO_TYPES) -> str:
        """Return the content of the file that `csv` writes.

        Args:
            types: As in `columns`.
        """
        columns, text = self.columns(types), io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows(map(_csv_cell, row) for row in zip(*columns.values(), strict=True))
        return text.getvalue()

    def _arguments(self) -> list[dict[str, Any]]:
        return [bound.arguments for bound in self._record.arguments[: len(self)]]

    def _results(self, types: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the columns of variables, errors, tokens and seconds; see `Rows.results`."""
        rows = [_variables(state, types) for state in self]
        return self._record.rows.results(
            self._arguments(),
            [variables for variables, _ in rows],
            error=[None if error is None else _error_text(error) for _, error in rows],
            tokens=[state.tokens for state in self],
            seconds=[state.seconds for state in self],
        )

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


def without_rows(rows: Rows, as_iterator: bool, as_frame: bool) -> Any:
    """Return the result of a batch without rows, which needs no backend."""
    states = States((), BatchRecord(rows, lambda *_: without_rows(rows, False, False)))
    if as_iterator:
        return iter(states)
    return states.frame() if as_frame else states


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


def _variables(
    state: State, types: Mapping[str, Any]
) -> tuple[dict[str, Any], BaseException | None]:
    """Return the variables of a finished row as values of `types`, and the error of the row."""
    error = state.error()
    read = state.variables if isinstance(state, SavedState) else state._branch.variables
    values = dict(read)
    for name in types.keys() & values.keys():
        try:
            values[name] = typed(name, values[name], types[name])
        except AnswerError as reason:
            values[name], error = None, error or reason
    return values, error


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _csv_cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return dumps(value, ensure_ascii=False, default=described)


def initial_content(state: ProgramState | Snapshot | None) -> Snapshot | None:
    """Return the value of the option `continue_from` as a snapshot."""
    if state is None or isinstance(state, Snapshot):
        return state
    if isinstance(state, ProgramState):
        return state.snapshot()
    hint = "give the state of a program, or a snapshot"
    raise OptionError(f"continue_from={state!r} is no state", hint)
