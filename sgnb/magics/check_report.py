"""Report of a check: verdicts of the rows, the share of right rows, and changes since the last
check. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..benchmark.stats import share_interval
from ..errors import OptionError, shown
from ..lang.batches.rows import Rows
from ..viz import Feed, Recording
from .table import Displayable, Table, html_lines

ORDER = ("error", "wrong", "right", "stopped")
"""Verdicts in the order of the table."""


class Previous(NamedTuple):
    """Result of a row in the last check of the program."""

    verdict: str
    answer: str


@dataclass(frozen=True)
class CheckedRow:
    """Result of a row.

    Attributes:
        index: Number of the row, from 0.
        values: Values of the row by column.
        answer: Answer of the program.
        expected: Value of the expected column; None for a function.
        verdict: "right", "wrong", "error" (of the program, the row or the function), or "stopped".
        error: Reason of the verdict "error".
        previous: Result in the last check of the program; None for a new row.
        branch: Branch of the row in the recording; "" if the row did not run.
    """

    index: int
    values: dict[str, Any]
    answer: str
    expected: Any
    verdict: str
    error: str
    previous: Previous | None
    branch: str

    @property
    def changed(self) -> str:
        """Change since the last check: "", "right → wrong", or "new answer"."""
        if self.previous is None or "stopped" in (self.verdict, self.previous.verdict):
            return ""
        if self.verdict != self.previous.verdict:
            return f"{self.previous.verdict} → {self.verdict}"

        return "new answer" if self.answer != self.previous.answer else ""


class CheckReport(Displayable):
    """Report of a check. Displays as a sentence and a table; errors and wrong rows come first.

    Attributes:
        program: Name of the program.
        rows: Result of each row, a list of `CheckedRow`.
        run: Id of the run.
        column: Column with the expected answers; None for a function.
        interval: Exact confidence interval of the share of right rows.
    """

    def __init__(
        self,
        program: str,
        run: str,
        rows: Sequence[CheckedRow],
        column: str | None,
        over: Any,
        feed: Feed,
    ) -> None:
        self.program, self.run, self.rows, self.column = program, run, list(rows), column
        self._over, self._feed = over, feed
        self.counts = Counter(row.verdict for row in self.rows)
        self.interval = share_interval(self.right, self.right + self.wrong)

    @property
    def right(self) -> int:
        """Number of right rows."""
        return self.counts["right"]

    @property
    def wrong(self) -> int:
        """Number of wrong rows."""
        return self.counts["wrong"]

    @property
    def errors(self) -> int:
        """Number of rows with an error."""
        return self.counts["error"]

    @property
    def changed(self) -> list[int]:
        """Indices of the rows with another verdict or answer than in the last check."""
        return [row.index for row in self.rows if row.changed]

    @property
    def lines(self) -> list[str]:
        """Sentences: the share of right rows, changes since the last check, and each error once."""
        judged = self.right + self.wrong
        head = f"{self.program}: {self.right:,} of {judged:,} right"
        if judged:
            low, high, level = self.interval
            head += f" ({self.right / judged:.0%}; {level:.0%} interval {low:.0%} to {high:.0%})"

        for verdict, words in {"error": "with an error", "stopped": "stopped"}.items():
            count = self.counts[verdict]
            head += f" · {count:,} {words}, not counted" if count else ""
        return [head, *self._changes(), *self._causes()]

    def _changes(self) -> list[str]:
        known = sum(row.previous is not None for row in self.rows)
        if not known:
            return []
        changes = Counter(row.changed for row in self.rows if row.changed)
        texts = [f"{count:,} {change}" for change, count in sorted(changes.items())]
        summary = ", ".join(texts) or "no row changed"
        return [f"{known:,} row{'s' if known > 1 else ''} checked before: {summary}"]

    def _causes(self) -> list[str]:
        failed = [row for row in self.rows if row.error]
        first = {row.error: row.index for row in reversed(failed)}
        counts = Counter(row.error for row in failed)
        return [
            f"{error}: row {first[error]}" + (f" and {count - 1:,} more" if count > 1 else "")
            for error, count in counts.items()
        ]

    def table(self) -> Table:
        """Return a table with a row per row of the check: errors and wrong rows first, then changed
        rows."""
        ordered = sorted(self.rows, key=lambda row: (ORDER.index(row.verdict), not row.changed))
        expect = self.column
        return Table(
            {
                "#": row.index,
                "verdict": row.verdict + (f" ({row.changed})" if row.changed else ""),
                "values": ", ".join(
                    f"{k}={shown(v)}" for k, v in row.values.items() if k != expect
                ),
                "answer": row.error or row.answer,
                **({} if expect is None else {"expected": row.values.get(expect, "")}),
            }
            for row in ordered
        )

    def frame(self) -> Any:
        """Return a data frame with the columns of the rows and answer, expected, verdict, changed
        and error; of the library of the rows' own data frame, otherwise of pandas.

        Raises:
            OptionError: pandas is not installed.
        """
        rows, arguments = Rows(self._over, None), [row.values for row in self.rows]
        names = ("answer", "expected", "verdict", "changed", "error")
        results = [{name: getattr(row, name) for name in names} for row in self.rows]
        return rows.frame(arguments, rows.results(arguments, results))

    def trace(self, row: int) -> Recording:
        """Return the recording of a row: views without an engine, or a file with `save`.

        Args:
            row: Number of the row, from 0.

        Raises:
            OptionError: No row has the number, or the row did not run.
        """
        if not isinstance(row, int) or not 0 <= row < len(self.rows):
            raise OptionError(f"no row {shown(row)}", f"rows are 0 to {len(self.rows) - 1}")

        if not self.rows[row].branch:
            raise OptionError(f"row {row} did not run", "check the rows again")
        return Recording(self._feed.lines, self.run).of_program(self.rows[row].branch)

    def __repr__(self) -> str:
        return "\n".join([*self.lines, "", repr(self.table())])

    def _html(self) -> str:
        return html_lines("p", self.lines) + self.table()._html()
