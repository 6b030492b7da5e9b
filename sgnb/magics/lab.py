"""`sgnb.lab` and `%sglang lab`: a program over a grid of settings and rows, with ratings.

A lab runs each pair of setting and row once. A second run continues with new, failed and stopped
pairs. The display is in `lab_view.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

from ..errors import Aborted, OptionError, first_line, nearest, shown
from ..lang import ProgramState, Run
from ..lang.batches.rows import is_program
from ..lang.code import DEFAULTS
from ..lang.executor import executor_of
from ..sampling import SHORT_NAMES, SamplingParams, integer, read_option, with_long_names
from .answer_checks import answer_of, read_rows
from .engines import Engines
from .runs import run_to_end
from .table import Displayable, Table, html_lines

RATINGS = ("good", "bad", 1, 2, 3, 4, 5)
OPEN = ("", "error", "stopped")
"""Statuses of pairs that the next run computes."""
SAMPLING = {*DEFAULTS, *SHORT_NAMES}


@dataclass
class LabCell:
    """A pair of row and setting.

    Attributes:
        index: Number of the pair, from 0.
        row: Arguments of the program.
        setting: Values of the grid.
        status: "" before the run, "running", "done", "error" or "stopped".
        answer: Variable that the program set last.
        error: Error of the program.
        state: State of the program, or None.
        rating: One of `RATINGS`, or None.
        note: Note of the rating.
    """

    index: int
    row: dict[str, Any]
    setting: dict[str, Any]
    status: str = ""
    answer: str = ""
    error: str = ""
    state: ProgramState | None = None
    rating: Any = None
    note: str = ""

    def text(self) -> str:
        """Return the answer, the error or the status, with the rating."""
        text = self.answer if self.status == "done" else self.error or self.status
        note = f": {self.note}" if self.note else ""
        return f"{text} [{self.rating}{note}]" if self.rating is not None else text

    def values(self) -> dict[str, Any]:
        """Return row, setting, answer, error, rating and note as columns."""
        setting = {name: label_of(value) for name, value in self.setting.items()}
        result = {"answer": self.answer, "error": self.error, "rating": self.rating}
        return {**self.row, **setting, **result, "note": self.note}


class Lab(Displayable):
    """A program over a grid of settings and rows. Displays as controls and a table.

    Attributes:
        cells: Pairs of row and setting, a list of `LabCell`.
        settings: Settings of the grid.
        rows: Rows of arguments.
    """

    def __init__(
        self,
        engines: Engines,
        program: Any,
        rows: Any,
        grid: Any,
        display: Callable[[Lab], None],
    ) -> None:
        """See `Labs`. `display` shows the lab in the running cell."""
        self.engines, self.program, self._display = engines, program, display
        self.has_grid = grid is not None
        self.rows: list[dict[str, Any]] = []
        self.settings: list[dict[str, Any]] = []
        self._cells: dict[tuple[int, int], LabCell] = {}  # by row and setting
        self._run: Run | None = None  # of the current batch
        self._pairs: list[LabCell] = []
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        for row in [] if rows is None else read_rows(program, rows):
            self.add_row(row)

        for setting in self._settings_of(grid) if self.has_grid else ():
            self.add_setting(setting)

    @property
    def cells(self) -> list[LabCell]:
        """Return the pairs, by row and then by setting."""
        places = list(product(range(len(self.rows)), range(len(self.settings))))
        for row, setting in places:
            if (row, setting) not in self._cells:
                cell = LabCell(len(self._cells), self.rows[row], self.settings[setting])
                self._cells[row, setting] = cell

        return [self._cells[place] for place in places]

    @property
    def is_running(self) -> bool:
        """Return True while a background run continues."""
        return self._thread is not None and self._thread.is_alive()

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add a row of arguments. An equal row is not added.

        Args:
            row: Arguments of the program by name.

        Raises:
            OptionError: The program has no such argument.
        """
        self._check_arguments(row, partial=True)
        if _key(row) not in map(_key, self.rows):
            self.rows.append(dict(row))

    def add_setting(self, setting: Mapping[str, Any]) -> None:
        """Add a setting: sampling parameters, "model", "program" and arguments of the program. An
        equal setting is not added.

        Args:
            setting: Values by name.

        Raises:
            OptionError: A name or a value is invalid.
        """
        if not isinstance(setting, Mapping):
            hint = 'give a dict, for example {"temperature": 0}'
            raise OptionError(f"{shown(setting)} is not a setting", hint)

        names = {*SAMPLING, *self.program.signature.parameters, "model", "program"}
        for name, value in setting.items():
            if name not in names:
                raise OptionError(f"the grid has no setting {name!r}", nearest(name, names))

            if name == "program" and not is_program(value):
                raise OptionError(f"{shown(value)} is not a program", "give programs to compare")
        SamplingParams.make(with_long_names(self._sampling(setting)))
        if isinstance(model := setting.get("model"), str):
            self.engines.get(model)

        if _key(setting) not in map(_key, self.settings):
            self.settings.append(dict(setting))

    def run(self, **row: Any) -> Lab:
        """Run all pairs that have no answer yet, and wait. Keeps finished pairs on an interrupt.

        Args:
            row: A further row of arguments, or nothing.

        Returns:
            The lab.
        """
        self._prepare(row or None)
        self._run_all()
        return self

    def start(self, **row: Any) -> None:
        """Run in the background; see `run`, `stop` and `wait`."""
        self._prepare(row or None)
        self._thread = threading.Thread(target=self._run_all, name="sgnb-lab", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop a background run at the next token. Finished pairs stay."""
        self._is_stopped = True
        if self._run is not None:
            self._run.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of a background run. Returns True if the run has ended.

        Args:
            timeout: Maximum wait in seconds, or None.
        """
        if self._thread is not None:
            self._thread.join(timeout)

        return not self.is_running

    def update(self) -> None:
        """Take over the answers of finished programs of the current batch."""
        run, pairs = self._run, self._pairs
        for pair, state in zip(pairs, [] if run is None else list(run.states), strict=False):
            if pair.status == "running" and state.program.finished:
                _take(pair, state, None)

    def rate(self, cell: int, rating: Any, note: str = "") -> None:
        """Rate an answer.

        Args:
            cell: Number of the pair; see `cells`.
            rating: "good", "bad", 1 to 5, or None to remove the rating.
            note: A remark.

        Raises:
            OptionError: No pair has the number, or the rating is invalid.
        """
        cells = {pair.index: pair for pair in self.cells}
        if read_option("cell", cell, "the number of a pair", integer(0)) not in cells:
            raise OptionError(
                f"the grid has no pair {shown(cell)}", f"pairs: 0 to {len(cells) - 1}"
            )

        if rating is not None and (rating not in RATINGS or isinstance(rating, bool)):
            raise OptionError(f"{shown(rating)} is not a rating", 'use "good", "bad" or 1 to 5')
        cells[cell].rating, cells[cell].note = rating, note if rating is not None else ""

    @property
    def ratings(self) -> Any:
        """Return the rated pairs as a pandas data frame; as a list of dicts without pandas."""
        rated = [pair.values() for pair in self.cells if pair.rating is not None]
        try:
            return import_module("pandas").DataFrame(rated)
        except ImportError:
            return rated

    def frame(self) -> Any:
        """Return all pairs as a pandas data frame.

        Raises:
            OptionError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise OptionError("frame() needs pandas", "pip install pandas; or read cells") from None

        return pandas.DataFrame([pair.values() for pair in self.cells])

    def table(self) -> Table:
        """Return the grid as a table: a line per row, and a column per setting."""
        by_row: dict[int, dict[str, Any]] = {}
        for pair in self.cells:
            line = by_row.setdefault(id(pair.row), {"row": setting_label(pair.row) or "-"})
            line[setting_label(pair.setting) or "answer"] = f"{pair.index}: {pair.text()}"

        return Table(by_row.values(), empty="no row yet")

    def line(self) -> str:
        """Return the progress as a sentence."""
        cells = self.cells
        done = sum(pair.status == "done" for pair in cells)
        others = {name: sum(pair.status == name for pair in cells) for name in ("error", "stopped")}
        words = [f"{count} {name}" for name, count in others.items() if count]
        return ", ".join([f"{done} of {len(cells)} done", *words])

    def __repr__(self) -> str:
        return f"{self.line()}\n{self.table()!r}"

    def _html(self) -> str:
        return html_lines("p", [self.line()]) + self.table()._html()

    def _ipython_display_(self) -> None:
        self._display(self)

    def _settings_of(self, grid: Any) -> Iterable[dict[str, Any]]:
        if not isinstance(grid, Mapping) or not grid:
            hint = 'for example {"temperature": [0, 0.7], "seed": [1, 2]}'
            raise OptionError(f"grid={shown(grid)} is not a dict of lists", hint)
        for name, values in grid.items():
            if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not values:
                message = f"grid: {name!r} has the values {shown(values)}"
                raise OptionError(message, "give a list with at least one value")

        return (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))

    def _prepare(self, row: Mapping[str, Any] | None) -> None:
        if self.is_running:
            raise OptionError("the lab is running already", "stop() ends the run")
        if row is not None or not self.rows:
            self.add_row(row or {})

        if not self.settings:
            self.add_setting({})
        for pair in self.cells:
            self._check_arguments({**pair.row, **self._arguments(pair.setting)}, partial=False)

        self._is_stopped = False

    def _check_arguments(self, row: Mapping[str, Any], partial: bool) -> None:
        signature = self.program.signature
        bound = getattr(self.program, "bind_arguments", {})
        try:
            bind = signature.bind_partial if partial else signature.bind
            bind(**{**bound, **row})
        except TypeError as error:
            message = f"{self.program.__name__}: {error}"
            raise OptionError(message, f"its arguments are {signature}") from None

    def _arguments(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        names = self.program.signature.parameters
        return {name: value for name, value in setting.items() if name in names}

    def _sampling(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        names = self.program.signature.parameters
        return {k: v for k, v in setting.items() if k in SAMPLING and k not in names}

    def _run_all(self) -> None:
        cells = self.cells
        for setting in self.settings:
            open_pairs = [p for p in cells if p.setting is setting and p.status in OPEN]
            if open_pairs and not self._is_stopped:
                self._run_setting(setting, open_pairs)

    def _run_setting(self, setting: dict[str, Any], pairs: list[LabCell]) -> None:
        """Run the pairs of a setting as a batch. A failed pair receives the error of the row."""
        states: Sequence[ProgramState] = ()

        def begin(run: Run) -> None:
            self._run = run
            if self._is_stopped:
                run.cancel()

        for pair in pairs:
            pair.status, pair.error, pair.answer, pair.state = "running", "", "", None
        self._run, self._pairs = None, pairs
        failure: BaseException | None = None
        try:
            arguments = [{**pair.row, **self._arguments(setting)} for pair in pairs]
            program, options = setting.get("program", self.program), self._sampling(setting)
            backend = self._executor(program, setting.get("model"))
            work = partial(program.run_batch, arguments, backend=backend, **options)
            states = run_to_end(work, begin)
        except BaseException as error:
            failure = error
            run: Run | None = self._run
            states = getattr(error, "states", None) or ([] if run is None else run.states)
            if not isinstance(error, Exception):
                raise
        finally:
            for index, pair in enumerate(pairs):
                _take(pair, states[index] if index < len(states) else None, failure)

            if self._run is not None:
                self._run.mark_read()

    def _executor(self, program: Any, model: Any) -> Any:
        if model is not None and not isinstance(model, str):
            return executor_of(model)
        if model is None and hasattr(program, "backend"):
            return program.backend().executor

        return self.engines.backend(model or "").executor


def _take(pair: LabCell, state: ProgramState | None, failure: BaseException | None) -> None:
    """Set the result of a pair. `failure`: the error of the batch, for pairs without a state."""
    error = failure if state is None else state.error()
    pair.state = state
    if isinstance(error, (Aborted, KeyboardInterrupt)) or (state is None and error is None):
        pair.status = "stopped"
    elif error is not None:
        pair.status, pair.error = "error", f"{type(error).__name__}: {first_line(error)}"
    else:
        pair.status = "done"

    if state is not None:
        pair.answer = answer_of(state)


def label_of(value: Any) -> Any:
    """Return a value of a setting as plain data."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return getattr(value, "__name__", None) or shown(value)


def setting_label(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={label_of(value)}" for name, value in values.items())


def _key(values: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal values. Objects are equal only to themselves."""
    numbers = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in values.items()
    }
    return json.dumps(numbers, sort_keys=True, default=lambda other: f"{shown(other)} {id(other)}")
