"""Comparison of two runs of a program: `%sglang runs compare`, `sgnb.runs.compare`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import OptionError
from ..events import RunsCompared
from ..viz import Recording, joined_runs
from .recordings import AnyRun, Recordings
from .table import Displayable, Table, html_lines


class Change(NamedTuple):
    """A line or text of two runs: "=" in both, "-" in the earlier run, "+" in the later run."""

    mark: str
    place: int | str  # number of the line, or branch of the text
    text: str


class ComputedTokens(NamedTuple):
    """Computed prompt tokens begin .. end of a call of the later run, with the cause."""

    request: int
    begin: int
    end: int
    cause: str


class RerunReport(Displayable):
    """Comparison of two runs of a program.

    Attributes:
        rows: Seconds and counters of both runs; see `table()`.
        findings: Display text.
        source: Changed lines of the program with neighbours, as `Change`.
        text: Text of the branches, as `Change` per stretch of tokens.
        computed: Computed prompt tokens of the later run, as `ComputedTokens`.
        recording: Views of both runs, without an engine.
    """

    def __init__(self, recording: Recording) -> None:
        comparison = recording.states.comparison
        rerun = comparison.rerun
        assert rerun is not None
        self.earlier, self.later = rerun.earlier, rerun.later
        self.rows, self.findings = comparison.rows(), list(comparison.lines)
        self.source, self.text = _source(rerun), _text(rerun)
        self.computed = _computed(rerun)
        self.recording = recording

    def table(self) -> Table:
        """Return a table with a row per run."""
        return Table(self.rows)

    def __repr__(self) -> str:
        return self.recording.text()

    def _html(self) -> str:
        return self.table()._html() + html_lines("p", self.findings)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return self.recording._repr_mimebundle_()


def compare_recordings(recordings: Recordings, earlier: AnyRun, later: AnyRun) -> RerunReport:
    """Compare two recorded runs; see `Runs.compare`."""
    last = recordings("last" if later == "" else later)
    if earlier == "":
        runs = recordings.reruns(last.run)
        former = runs[: runs.index(last.run)] if last.run in runs else []
        if not former:
            hint = "run the cell again, or name two runs: %sglang runs compare RUN RUN"
            raise OptionError(f"{last.run} has no earlier run of the same cell", hint)

        earlier = former[-1]
    first = recordings(earlier)
    if first.run == last.run:
        raise OptionError(f"both runs are {last.run}", "name two runs")

    return RerunReport(joined_runs(first, last))


def _source(rerun: RunsCompared) -> list[Change]:
    return list(map(Change, rerun.line_marks, rerun.line_numbers, rerun.lines))


def _text(rerun: RunsCompared) -> list[Change]:
    return list(map(Change, rerun.text_marks, rerun.text_branches, rerun.texts))


def _computed(rerun: RunsCompared) -> list[ComputedTokens]:
    columns = rerun.cause_requests, rerun.cause_begins, rerun.cause_ends, rerun.causes
    return list(map(ComputedTokens, *columns))
