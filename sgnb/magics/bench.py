"""`%sglang bench`, `sgnb.bench`: a benchmark with its progress, and what it found as a notebook
shows it. The measuring is in `sgnb.benchmark`; `compare.py` is for one run beside itself in the
views.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args

from ..benchmark import Measured, Workload, bench, check_opponents
from ..benchmark.conditions import conditions
from ..benchmark.findings import findings, summary, table
from ..benchmark.plot import figure, png
from ..benchmark.runner import Clock
from ..errors import OptionError, shown
from ..viz import in_kernel
from .engines import Loaded
from .progress import ChangingLine
from .table import Printed, Table, html_lines

PIXELS = 860
TELL_SECONDS = 0.1
"""Between two lines of progress."""


class BenchReport(Printed):
    """What a benchmark found. `lines`: for people, what was measured, what was found and how sure
    that is. `rows`: of each variant the median and how many times as long it took (see `table()`).
    `frame`: a row for each measured run. `conditions`: model, machine, versions, seeds, date.
    `findings`: ratios and intervals as data."""

    def __init__(self, measured: Measured, conditions: dict[str, str]) -> None:
        self.measured, self.conditions = measured, conditions
        self.findings = findings(measured)
        self.lines, self.rows = summary(measured, self.findings), table(self.findings)

    @property
    def frame(self) -> Any:
        """A pandas data frame: a row for each measured run, with its seconds and counts."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise OptionError("frame needs pandas", "pip install pandas; or take samples") from None
        return pandas.DataFrame(self.samples)

    @property
    def samples(self) -> list[dict[str, Any]]:
        """The rows of `frame`."""
        return [
            {"round": s.round, "place": s.place, "variant": s.variant, "seconds": s.seconds}
            | dict(s.counts)
            for s in self.measured.samples
        ]

    def plot(self) -> Any:
        """A matplotlib figure: each variant's paired ratios, their median and its interval, and the
        conditions."""
        head, *lines = self.lines
        said = [line for line in lines if line.startswith(("How sure", "Claim"))]
        title, found, how = head.partition(" (median; ")
        how = found[2:] + how.replace(")", "")
        return figure(title, self.findings, self.conditions, [how, *said])

    def table(self) -> Table:
        """A row for each variant."""
        return Table(self.rows)

    def __repr__(self) -> str:
        said = [f"{name}: {value}" for name, value in self.conditions.items()]
        return "\n".join([*self.lines, "", repr(self.table()), "", *said])

    def _html(self) -> str:
        return html_lines("p", self.lines) + self.table()._html()

    def _repr_mimebundle_(self, **_: Any) -> Any:
        """In a notebook the picture, where matplotlib draws it; else a table."""
        if not _draws():
            return super()._repr_mimebundle_()
        picture = base64.b64encode(png(self.plot())).decode()
        text = {"text/plain": repr(self), "image/png": picture}
        return text, {"image/png": {"width": PIXELS}}

    def _repr_html_(self) -> Any:
        """None beside the picture, in whose place pages would show it."""
        return None if _draws() else super()._repr_html_()


def _draws() -> bool:
    return in_kernel() and find_spec("matplotlib") is not None


def benchmark(
    loaded: Loaded,
    workload: Workload,
    against: Sequence[Any],
    rounds: int,
    clock: Clock = "wall",
) -> BenchReport:
    """Measure, and show progress meanwhile. An interrupt, or another error, after a complete round
    has the report so far as its `report`."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise OptionError(f"repeats={rounds!r} is not allowed", "give 1 or more")
    if clock not in get_args(Clock):
        raise OptionError(f"there is no clock {clock!r}", "give wall or cpu")
    if not hasattr(workload.program, "run_batch"):
        hint = "give what @sgnb.function made, or a cell's name"
        raise OptionError(f"{shown(workload.program)} is no program", hint)
    check_opponents(against, clock)
    line, measured = ChangingLine(), Measured(workload, rounds, clock=clock)
    last = -TELL_SECONDS

    def tell(what: str) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last >= TELL_SECONDS:
            line.show(f"{workload.name}: {what}")
            last = now

    try:
        with _engine(loaded, workload) as executor:
            under = conditions(executor.engine)
            if workload.engine:
                own = ", ".join(f"{name}={value}" for name, value in workload.engine.items())
                under["model"] += f", loaded with {own}"
            bench(executor, workload, against, rounds, measured, tell)
    except BaseException as error:
        line.end()
        if measured.done:
            error.report = BenchReport(measured, under | _seeds(measured))  # type: ignore[attr-defined]
            error.add_note("what was measured until then is this error's `report`")
        raise
    report = BenchReport(measured, under | _seeds(measured))
    line.end({"text/plain": "\n".join(report.lines), "text/html": html_lines("div", report.lines)})
    return report


def claims(reports: Iterable[BenchReport]) -> Table:
    """What was found of each claim."""
    return Table(
        {
            "workload": report.measured.workload.name,
            "without": one.what.removeprefix("without "),
            "times": f"{one.ratio:.2f}" if one.ratios else "",
            "interval": f"{one.interval.low:.2f} to {one.interval.high:.2f}" if one.ratios else "",
            "found": one.note or one.verdict,
            "claim": report.measured.workload.claims.get(one.variant, ""),
        }
        for report in reports
        for one in report.findings[1:]
    )


def _seeds(measured: Measured) -> dict[str, str]:
    """Of the samples; greedy text has none."""
    seeds = measured.seeds
    shown = ", ".join(map(str, seeds[:8])) + (f" and {len(seeds) - 8} more" if seeds[8:] else "")
    return {"seeds": shown or "none: temperature 0"}


@contextmanager
def _engine(loaded: Loaded, workload: Workload) -> Iterator[Any]:
    """The executor of the session's engine, or of one of the workload's own: the same model with
    its options."""
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
