"""`%sglang check` and `sgnb.check`: the answers of a program, compared with expected values.

A check runs the program over rows and gives each row a verdict. The session keeps the verdicts and
answers of the last check of each program, by row.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from inspect import Parameter
from typing import Any, NamedTuple

from ..errors import Aborted, OptionError, first_line, nearest, shown
from ..lang import ProgramState, Run
from ..lang.batches.rows import Rows, is_program
from ..viz import Feed
from .check_report import CheckedRow, CheckReport, Previous
from .engines import Engines
from .progress_line import ChangingLine
from .recordings import Recordings
from .runs import run_to_end

KEPT_PROGRAMS = 50
"""Number of programs whose last check is kept."""

Expect = str | Callable[[ProgramState, dict[str, Any]], bool]
"""Name of a column with the expected answers, or a function of state and row."""


class Checks:
    """Checks of programs, with the results of the last check of each program."""

    def __init__(self, engines: Engines, recordings: Recordings) -> None:
        self._engines, self._recordings = engines, recordings
        self._last: dict[str, dict[str, Previous]] = {}

    def __call__(self, program: Any, over: Any, expect: Expect, **defaults: Any) -> CheckReport:
        """Run a program over rows and compare the answers: `%sglang check`.

        The answer is the variable with the name of the expected column, otherwise the variable that
        the program set last. Texts are compared without surrounding blanks; an expected value of
        another type is compared with the answer as JSON. Columns that are no arguments of the
        program are not passed to the program.

        Args:
            program: Program to check.
            over: Rows of a batch, as in `run_batch`.
            expect: Column with the expected answers, or a function of state and row (a dict) that
                returns True for a right answer.
            defaults: Sampling parameters, as in `run_batch`.

        Returns:
            The report. An error of a program, a row or the function counts as a row with an error.

        Raises:
            OptionError: The program, the rows or `expect` are invalid.
            KeyboardInterrupt: The attribute `report` has the finished rows.
        """
        over = list(over) if isinstance(over, Iterator) else over
        rows = read_rows(program, over)
        _check_expect(expect, rows)

        arguments = [_arguments(program, row, expect) for row in rows]
        finished = self._run(program, arguments, defaults)
        judged = self._judged(program.__name__, rows, finished.states, expect)
        report = CheckReport(
            program.__name__,
            finished.run,
            judged,
            expect if isinstance(expect, str) else None,
            over,
            finished.feed,
        )
        if finished.interrupt is not None:
            finished.interrupt.report = report  # type: ignore[attr-defined]
            finished.interrupt.add_note("the attribute `report` of this error has the rows")
            raise finished.interrupt

        return report

    def _run(
        self, program: Any, arguments: Sequence[dict[str, Any]], defaults: dict[str, Any]
    ) -> _BatchResult:
        """Run the rows with a progress line and a recording."""
        backend = program.backend() if hasattr(program, "backend") else self._engines.backend()
        feed, runs, line = backend.emitter.feed(), list[Run](), ChangingLine()
        interrupt: BaseException | None = None

        def begin(run: Run) -> None:
            runs.append(run)
            progress = f"of {len(arguments):,} rows of {program.__name__}"
            run.meanwhile = lambda: line.show(f"{run.finished:,} {progress}")

        try:
            work = partial(program.run_batch, arguments, backend=backend.executor, **defaults)
            states = run_to_end(work, begin)
        except BaseException as error:
            if not runs:
                raise

            states = getattr(error, "states", None) or runs[0].states
            # Any other error is the error of the first row of a batch without a finished row.
            if isinstance(error, Aborted) or not isinstance(error, Exception):
                interrupt = error
        finally:
            line.end()
            backend.emitter.flush()
            backend.emitter.detach(feed)

        self._recordings.keep(runs[0].id, feed)
        runs[0].mark_read()
        return _BatchResult(states, runs[0].id, feed, interrupt)

    def _judged(
        self,
        program: str,
        rows: Sequence[dict[str, Any]],
        states: Sequence[ProgramState],
        expect: Expect,
    ) -> list[CheckedRow]:
        """Return the rows with verdicts, and keep the results for the next check."""
        last = self._last.pop(program, {})
        repeats, now, judged = Counter[str](), dict[str, Previous](), []
        for index, row in enumerate(rows):
            content = _content(row)
            repeats[content] += 1
            key = f"{repeats[content]} {content}"

            state, previous = states[index] if index < len(states) else None, last.get(key)
            verdict, answer, error = _verdict(state, row, expect)
            checked = CheckedRow(
                index=index,
                values=row,
                answer=answer,
                expected=row.get(expect) if isinstance(expect, str) else None,
                verdict=verdict,
                error=error,
                previous=previous,
                branch="" if state is None else state._branch.id,
            )
            judged.append(checked)
            if verdict != "stopped":
                now[key] = Previous(verdict, answer)
            elif previous is not None:
                now[key] = previous

        self._last[program] = now
        while len(self._last) > KEPT_PROGRAMS:
            del self._last[next(iter(self._last))]
        return judged


class _BatchResult(NamedTuple):
    states: Sequence[ProgramState]
    run: str
    feed: Feed
    interrupt: BaseException | None


def read_rows(program: Any, over: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch as dicts. Values by position get the names of the program's
    parameters.

    Raises:
        OptionError: `program` is not a program, there is no row, a row has more values than the
            program has parameters, or the name of a column is not a text.
    """
    if not is_program(program):
        hint = "give a function with @sgnb.function, or the name of a cell"
        raise OptionError(f"{shown(program)} is not a program", hint)

    names, rows = list(program.signature.parameters), list[dict[str, Any]]()
    for values, named in Rows(over, None):
        if len(values) > len(names):
            message = f"row {len(rows)} has {len(values)} values: {shown(values)}"
            raise OptionError(message, f"{program.__name__} takes {program.signature}")
        for name in named:
            if not isinstance(name, str):
                message = f"row {len(rows)} has the column {shown(name)}, which is not a text"
                raise OptionError(message, f"rename the column, for example to 'column_{name}'")
        rows.append({**dict(zip(names, values, strict=False)), **named})

    if not rows:
        raise OptionError("there are no rows", "give at least one row of arguments")
    return rows


def _content(row: dict[str, Any]) -> str:
    """Return a text that is equal for equal rows."""
    try:
        return json.dumps(row, sort_keys=True, default=shown)
    except (TypeError, ValueError, RecursionError):  # a nested dict with keys of several types
        return str({name: shown(value) for name, value in sorted(row.items())})


def named_expectation(name: str, columns: Set[str], namespace: Mapping[str, Any]) -> Expect:
    """Return the column or the function with a name.

    Args:
        name: Value of `--expect`.
        columns: Columns of the rows.
        namespace: Variables of the notebook.

    Raises:
        OptionError: The name is unknown, or both a column and a function.
    """
    functions = {key for key, value in namespace.items() if key[:1] != "_" and callable(value)}
    if name in columns and name in functions:
        message = f"--expect {name} is a column of the rows and a function of the notebook"
        raise OptionError(message, "rename the function")

    if name not in columns | functions:
        message = f"--expect {name}: neither a column of the rows nor a function of the notebook"
        raise OptionError(message, nearest(name, columns | functions))
    expectation: Expect = name if name in columns else namespace[name]
    return expectation


def _check_expect(expect: Expect, rows: Sequence[dict[str, Any]]) -> None:
    if isinstance(expect, str):
        if not any(expect in row for row in rows):
            columns = {name for row in rows for name in row}
            raise OptionError(f"the rows have no column {expect!r}", nearest(expect, columns))

        return
    rule = "give the name of a column, or a function of state and row"
    if not callable(expect):
        raise OptionError(f"expect={shown(expect)} is not a function", rule)
    try:
        inspect.signature(expect).bind(None, {})
    except TypeError as error:
        raise OptionError(f"expect={shown(expect)} does not fit: {error}", rule) from None
    except ValueError:
        return  # a built-in function without a signature


def _arguments(program: Any, row: dict[str, Any], expect: Expect) -> dict[str, Any]:
    """Return the values of a row that are arguments of the program."""
    parameters = program.signature.parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return {name: value for name, value in row.items() if name != expect}

    return {name: value for name, value in row.items() if name in parameters}


def _verdict(
    state: ProgramState | None, row: dict[str, Any], expect: Expect
) -> tuple[str, str, str]:
    """Return verdict, answer and error of a row."""
    failure = None if state is None else state.error()
    if state is None or isinstance(failure, (Aborted, KeyboardInterrupt)):
        return "stopped", "", ""

    variables = state._branch.variables
    last = next(reversed(variables), "")
    name = expect if isinstance(expect, str) and expect in variables else last
    answer = variables.get(name)

    try:
        if failure is not None:
            raise failure
        is_right = _is_right(state, row, expect, answer)
    except Exception as error:
        return "error", _text(answer), f"{type(error).__name__}: {first_line(error)}"

    return "right" if is_right else "wrong", _text(answer), ""


def _is_right(state: ProgramState, row: dict[str, Any], expect: Expect, answer: Any) -> bool:
    if not isinstance(expect, str):
        result = expect(state, row)
        if type(result).__name__ not in ("bool", "bool_"):
            message = f"{getattr(expect, '__name__', 'expect')} returned {shown(result)}"
            raise OptionError(message, "return True for a right answer, False for a wrong one")

        return bool(result)

    expected = row.get(expect)
    if expected is None or expected != expected:
        raise OptionError(f"the row has no value in the column {expect!r}", "fill in the value")
    if not state._branch.variables:
        raise OptionError("the program has no variable", "name the answer: gen('answer')")

    return same_value(answer, expected)


def same_value(answer: Any, expected: Any) -> bool:
    """Return whether an answer equals an expected value: as texts without surrounding blanks, or as
    JSON if the expected value is no text."""
    if not isinstance(answer, str):
        return bool(answer == expected)

    if isinstance(expected, str):
        return answer.strip() == expected.strip()
    try:
        value = json.loads(answer)
    except ValueError:
        return answer.strip() == str(expected)

    return isinstance(value, bool) == isinstance(expected, bool) and bool(value == expected)


def answer_of(state: ProgramState) -> str:
    """Return the variable that a finished program set last, as text; "" without a variable."""
    variables = state._branch.variables
    return _text(variables.get(next(reversed(variables), "")))


def _text(answer: Any) -> str:
    return answer.strip() if isinstance(answer, str) else "" if answer is None else str(answer)
