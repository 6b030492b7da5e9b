"""What measured times say: of each variant the median, the paired ratio with its interval, and a
sentence that says how sure it is. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Literal

from ..viz import AS_IS
from .runner import Measured
from .stats import LEVEL, Interval, median_interval, paired_ratios, rounds_needed
from .variants import ABLATIONS

Verdict = Literal["slower", "faster", "no difference", "too few rounds", "not compared"]

SAME = Interval(1.0, 1.0, 1.0)
TELLING = 0.25
"""The largest difference that an interval with 1 in it may leave open and still say something."""


@dataclass(frozen=True)
class Finding:
    """One variant beside the program as it is."""

    variant: str
    what: str
    seconds: tuple[float, ...] = ()  # by round
    ratios: tuple[float, ...] = ()  # of its time to the program's as it is, by round
    ratio: float = 1.0  # their median
    interval: Interval = SAME
    verdict: Verdict = "not compared"
    note: str = ""  # why it was not compared
    counts: str = ""  # what the technique saves: "9,040 tokens computed instead of 1,210"

    def sentence(self) -> str:
        if self.note:
            return f"{self.variant}: not compared, {self.note}"
        low, high, level = self.interval
        sure, what = f"{level:.1%} interval {low:.2f} to {high:.2f}", _capital(self.what)
        if self.verdict == "slower":
            found = f"{what} it takes {self.ratio:.2f} times as long ({sure})"
        elif self.verdict == "faster":
            found = f"{what} it takes only {self.ratio:.2f} times as long ({sure})"
        elif self.verdict == "too few rounds":
            found = f"{what} it took {self.ratio:.2f} times as long ({low:.2f} to {high:.2f}), in"
            found += " too few rounds to be sure"
        elif (most := max(high - 1, 1 - low)) <= TELLING:
            found = f"{what} no difference was found ({sure}): if there is one, it is at most"
            found += f" {most:.1%}"
        else:
            found = f"{what} no difference was found, but the runs differ so much among themselves"
            found += f" ({sure}) that only more rounds or a quieter machine would tell"
        return f"{self.variant}: {found}" + (f"; {self.counts}" if self.counts else "")


def findings(measured: Measured) -> list[Finding]:
    """Of each variant, in order, the program as it is first."""
    base = measured.seconds(AS_IS)
    found = [Finding(AS_IS, AS_IS, tuple(base))]
    for variant, what in list(measured.what.items())[1:]:
        note = measured.refused.get(variant, "" if base else "it was stopped before a round")
        if note:
            found.append(Finding(variant, what, note=note))
            continue
        seconds = measured.seconds(variant)
        ratios = paired_ratios(seconds, base)
        interval = median_interval(ratios)
        found.append(
            Finding(
                variant,
                what,
                tuple(seconds),
                tuple(ratios),
                statistics.median(ratios),
                interval,
                _verdict(interval),
                counts=_counts(measured, variant),
            )
        )
    return found


def _verdict(interval: Interval) -> Verdict:
    if interval.level < LEVEL:
        return "too few rounds"
    if interval.low > 1:
        return "slower"
    return "faster" if interval.high < 1 else "no difference"


def _counts(measured: Measured, variant: str) -> str:
    ablation = ABLATIONS.get(variant)
    if ablation is None or not ablation.count:
        return ""
    here, there = (measured.count(name, ablation.count) for name in (variant, AS_IS))
    return f"{here:,} {ablation.measure} instead of {there:,}" if here != there else ""


def summary(measured: Measured, found: list[Finding]) -> list[str]:
    """For people: what was measured, what was found, how sure that is, and what is claimed."""
    others = found[1:]
    lines = [*_head(measured), *(one.sentence() for one in others)]
    compared = [one for one in others if not one.note]
    if any(one.interval.level < LEVEL for one in compared):
        lines.append(f"{rounds_needed()} rounds or more give intervals of {LEVEL:.0%}.")
    elif compared:
        lines.append(
            f"How sure: of a hundred such intervals {100 * compared[0].interval.level:.3g} hold the"
            " median ratio, whatever the noise is like; on this machine, for these rows."
        )
    return [*lines, *_claims(measured, others)]


def _head(measured: Measured) -> list[str]:
    what = f"{measured.workload.name}, {measured.rows} rows, {measured.tokens:,} tokens made"
    times = measured.seconds(AS_IS)
    if not times:
        return [f"{what}: nothing was measured"]
    spread = f"{duration(min(times))} to {duration(max(times))}"
    how = f"{measured.done} rounds" if measured.done != 1 else "one round"
    if measured.done < measured.rounds and len(measured.what) > len(measured.refused) + 1:
        how += f" of {measured.rounds}, then it was stopped"
    clock = ", in processor time" if measured.clock == "cpu" else ""
    beside = "".join(f"; {one}" for one in sorted(measured.beside))
    return [
        f"{what}: {duration(statistics.median(times))} as it is (median; {spread}; {how} in turns,"
        f" each run with an empty cache{clock}){beside}"
    ]


def _claims(measured: Measured, found: list[Finding]) -> list[str]:
    seen: dict[Verdict, str] = {
        "slower": "seen here",
        "faster": "the opposite was seen here",
        "no difference": "not seen here",
    }
    return [
        f"Claim: {claim}: {seen.get(one.verdict, one.verdict)}"
        for one in found
        if (claim := measured.workload.claims.get(one.variant))
    ]


def table(found: list[Finding]) -> list[dict[str, Any]]:
    """A row for each variant."""
    rows = []
    for one in found:
        row: dict[str, Any] = {"variant": one.variant}
        if one.seconds:
            row |= {
                "seconds": round(statistics.median(one.seconds), 4),
                "fastest": round(min(one.seconds), 4),
                "slowest": round(max(one.seconds), 4),
                "times": round(one.ratio, 3),
                "low": round(one.interval.low, 3),
                "high": round(one.interval.high, 3),
                "verdict": one.verdict if one.ratios else "",
            }
        else:
            row |= dict.fromkeys(("seconds", "fastest", "slowest", "times", "low", "high"), "")
            row["verdict"] = one.verdict
        rows.append(row | {"note": one.note or one.counts})
    return rows


def duration(seconds: float) -> str:
    """Three digits or more, as paired times need."""
    return f"{seconds:.2f} s" if seconds >= 0.9995 else f"{1000 * seconds:.3g} ms"


def _capital(what: str) -> str:
    return what[:1].upper() + what[1:]
