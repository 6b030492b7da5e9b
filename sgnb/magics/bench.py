"""`%sglang bench` and `sgnb.bench`: progress and report of a benchmark in a notebook.

`sgnb.benchmark` does the measurement. `compare.py` is for few runs with views.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args

from ..benchmark import Measurements, Workload, bench, check_opponents
from ..benchmark.conditions import conditions
from ..benchmark.findings import findings, summary, table
from ..benchmark.measurement import Clock
from ..benchmark.plot import figure, png
from ..errors import OptionError, shown
from ..lang.batches.rows import is_program
from ..sampling import integer, read_option
from ..viz import in_kernel
from .loaded_engine import LoadedEngine
from .progress_line import ChangingLine
from .table import Displayable, Table, html_lines

PIXELS = 860
TELL_SECONDS = 0.1
"""Minimum interval between progress lines, in seconds."""


class BenchReport(Displayable):
    """Report of a benchmark.

    Attributes:
        lines: Display text: method, findings and certainty.
        rows: Per variant the median time and the ratio to the unmodified program; see `table()`.
        frame: Data frame with a row per measured run.
        conditions: Model, machine, versions, seeds and date.
        findings: Ratios and intervals as data.
    """

    def __init__(self, measured: Measurements, conditions: dict[str, str]) -> None:
        self.measured, self.conditions = measured, conditions
        self.findings = findings(measured)
        self.lines, self.rows = summary(measured, self.findings), table(self.findings)

    @property
    def frame(self) -> Any:
        """Return a pandas data frame with a row per measured run: seconds and counters."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise OptionError("frame needs pandas", "pip install pandas; or take samples") from None
        return pandas.DataFrame(self.samples)

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Return the rows of `frame` as dictionaries."""
        return [
            {"round": s.round, "place": s.place, "variant": s.variant, "seconds": s.seconds}
            | dict(s.counts)
            for s in self.measured.samples
        ]

    def plot(self) -> Any:
        """Return a matplotlib figure with paired ratios, medians, intervals and conditions."""
        head, *lines = self.lines
        statements = [line for line in lines if line.startswith(("Certainty", "Claim"))]
        title, separator, how = head.partition(" (median; ")
        how = separator[2:] + how.replace(")", "")
        return figure(title, self.findings, self.conditions, [how, *statements])

    def table(self) -> Table:
        """Return a table with a row per variant."""
        return Table(self.rows)

    def __repr__(self) -> str:
        conditions = [f"{name}: {value}" for name, value in self.conditions.items()]
        return "\n".join([*self.lines, "", repr(self.table()), "", *conditions])

    def _html(self) -> str:
        return html_lines("p", self.lines) + self.table()._html()

    def _repr_mimebundle_(self, **_: Any) -> Any:
        """Return the plot for a notebook, or a table without matplotlib."""
        if not _draws():
            return super()._repr_mimebundle_()
        picture = base64.b64encode(png(self.plot())).decode()
        text = {"text/plain": repr(self), "image/png": picture}
        return text, {"image/png": {"width": PIXELS}}

    def _repr_html_(self) -> Any:
        """Return None if the plot is available, because pages would prefer HTML to the plot."""
        return None if _draws() else super()._repr_html_()


def _draws() -> bool:
    return in_kernel() and find_spec("matplotlib") is not None


def benchmark(
    loaded: LoadedEngine,
    workload: Workload,
    against: Sequence[Any],
    rounds: int,
    clock: Clock = "wall",
) -> BenchReport:
    """Run a benchmark with progress display.

    An interrupt or error after a complete round carries the partial report as attribute `report`.

    Args:
        loaded: Engine of the session.
        workload: Program and rows.
        against: Opponents of the program.
        rounds: Number of measured rounds.
        clock: Wall or processor time.

    Raises:
        OptionError: An argument is invalid.
    """
    rounds = read_option("repeats", rounds, "an integer of 1 or more", integer(1))
    if clock not in get_args(Clock):
        raise OptionError(f"clock={clock!r} is not valid", "use wall or cpu")
    if not is_program(workload.program):
        hint = "give a function with @sgnb.function, or the name of a cell"
        raise OptionError(f"{shown(workload.program)} is not a program", hint)
    check_opponents(against, clock)
    line, measured = ChangingLine(), Measurements(workload, rounds, clock=clock)
    last = -TELL_SECONDS

    def tell(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last >= TELL_SECONDS:
            line.show(f"{workload.name}: {stage}")
            last = now

    try:
        with _engine(loaded, workload) as executor:
            circumstances = conditions(executor.engine)
            if workload.engine:
                engine_options = ", ".join(
                    f"{name}={value}" for name, value in workload.engine.items()
                )
                circumstances["model"] += f", loaded with {engine_options}"
            bench(executor, against, measured, tell)
    except BaseException as error:
        line.end()
        if measured.done:
            error.report = BenchReport(measured, circumstances | _seeds(measured))  # type: ignore[attr-defined]
            error.add_note("the attribute `report` of this error has the finished rounds")
        raise
    report = BenchReport(measured, circumstances | _seeds(measured))
    line.end({"text/plain": "\n".join(report.lines), "text/html": html_lines("div", report.lines)})
    return report


def claims(reports: Iterable[BenchReport]) -> Table:
    """Return the verdict on each claim of the reports.

    Args:
        reports: Reports of workloads with claims.
    """
    return Table(
        {
            "workload": report.measured.workload.name,
            "without": finding.title.removeprefix("without "),
            "times": f"{finding.ratio:.2f}" if finding.ratios else "",
            "interval": f"{finding.interval.low:.2f} to {finding.interval.high:.2f}"
            if finding.ratios
            else "",
            "found": finding.note or finding.verdict,
            "claim": report.measured.workload.claims.get(finding.variant, ""),
        }
        for report in reports
        for finding in report.findings[1:]
    )


def _seeds(measured: Measurements) -> dict[str, str]:
    """Return the seeds of sampled calls as a condition. Greedy text has no seeds."""
    seeds = measured.seeds
    shown = ", ".join(map(str, seeds[:8])) + (f" and {len(seeds) - 8} more" if seeds[8:] else "")
    return {"seeds": shown or "none: temperature 0"}


@contextmanager
def _engine(loaded: LoadedEngine, workload: Workload) -> Iterator[Any]:
    """Yield the executor of the session's engine, or of a private engine with the workload's
    options."""
    if not workload.engine:
        yield loaded.executor
        return
    from ..backends import executor_of
    from ..engine import Engine

    options = {**(loaded.options or {}), **workload.engine}
    source = loaded.engine.model if loaded.engine.model is not None else loaded.model
    with Engine(source, **options) as engine:
        executor = executor_of(engine)
        try:
            yield executor
        finally:
            executor.close()
