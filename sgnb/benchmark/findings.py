"""Findings from measured times: medians, paired ratios with confidence intervals, and verdicts as
sentences. Pure; runs no program."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Literal

from ..viz import AS_IS
from .measurement import Measurements
from .stats import LEVEL, Interval, median_interval, paired_ratios, rounds_needed
from .variants import ABLATIONS

Verdict = Literal["slower", "faster", "no difference", "too few rounds", "not compared"]

SAME = Interval(1.0, 1.0, 1.0)
INFORMATIVE = 0.25
"""Largest possible difference that still counts as informative, if the interval contains 1."""


@dataclass(frozen=True)
class Finding:
    """One variant compared with the unmodified program."""

    variant: str
    title: str
    seconds: tuple[float, ...] = ()  # by round
    ratios: tuple[float, ...] = ()  # time ratio to the unmodified program, by round
    ratio: float = 1.0  # median of `ratios`
    interval: Interval = SAME
    verdict: Verdict = "not compared"
    note: str = ""  # reason against a comparison
    counts: str = ""  # savings of the technique: "9,040 tokens computed instead of 1,210"

    def sentence(self) -> str:
        if self.note:
            return f"{self.variant}: not compared, {self.note}"
        low, high, level = self.interval
        sure, subject = f"{level:.1%} interval {low:.2f} to {high:.2f}", _capital(self.title)

        if self.verdict == "slower":
            sentence = f"{subject} it takes {self.ratio:.2f} times as long ({sure})"
        elif self.verdict == "faster":
            sentence = f"{subject} it takes only {self.ratio:.2f} times as long ({sure})"
        elif self.verdict == "too few rounds":
            sentence = (
                f"{subject} it took {self.ratio:.2f} times as long ({low:.2f} to {high:.2f}), in"
            )
            sentence += " too few rounds to be sure"
        elif (largest := max(high - 1, 1 - low)) <= INFORMATIVE:
            sentence = f"{subject} no difference was found ({sure}): a difference is at most"
            sentence += f" {largest:.1%}"
        else:
            sentence = f"{subject} no difference was found, but the noise of the runs is large"
            sentence += f" ({sure}): more rounds or a quieter machine may show a difference"

        return f"{self.variant}: {sentence}" + (f"; {self.counts}" if self.counts else "")


def findings(measured: Measurements) -> list[Finding]:
    """Return a finding per variant, in order. The unmodified program is first.

    Args:
        measured: Samples of complete rounds.
    """
    base = measured.seconds(AS_IS)
    results = [Finding(AS_IS, AS_IS, tuple(base))]
    for variant, title in list(measured.titles.items())[1:]:
        note = measured.refused.get(
            variant, "" if base else "the benchmark was stopped before the first round ended"
        )
        if note:
            results.append(Finding(variant, title, note=note))
            continue

        seconds = measured.seconds(variant)
        ratios = paired_ratios(seconds, base)
        interval = median_interval(ratios)

        results.append(
            Finding(
                variant=variant,
                title=title,
                seconds=tuple(seconds),
                ratios=tuple(ratios),
                ratio=statistics.median(ratios),
                interval=interval,
                verdict=_verdict(interval),
                counts=_counts(measured, variant),
            )
        )
    return results


def _verdict(interval: Interval) -> Verdict:
    if interval.level < LEVEL:
        return "too few rounds"
    if interval.low > 1:
        return "slower"
    return "faster" if interval.high < 1 else "no difference"


def _counts(measured: Measurements, variant: str) -> str:
    ablation = ABLATIONS.get(variant)
    if ablation is None or not ablation.count:
        return ""
    here, there = (measured.count(name, ablation.count) for name in (variant, AS_IS))
    return f"{here:,} {ablation.measure} instead of {there:,}" if here != there else ""


def summary(measured: Measurements, results: list[Finding]) -> list[str]:
    """Summarize a benchmark as display lines: method, findings, certainty and claims.

    Args:
        measured: Samples and conditions.
        results: Result of `findings`.
    """
    others = results[1:]
    lines = [*_head(measured), *(finding.sentence() for finding in others)]
    compared = [finding for finding in others if not finding.note]
    if any(finding.interval.level < LEVEL for finding in compared):
        lines.append(f"{rounds_needed()} rounds or more give intervals of {LEVEL:.0%}.")
    elif compared:
        lines.append(
            f"Certainty: {100 * compared[0].interval.level:.3g} of a hundred such intervals contain"
            " the true median ratio, for any noise; on this machine, for these rows."
        )
    return [*lines, *_claims(measured, others)]


def _head(measured: Measurements) -> list[str]:
    size = f"{measured.workload.name}, {measured.rows} rows, {measured.tokens:,} tokens generated"
    times = measured.seconds(AS_IS)
    if not times:
        return [f"{size}: nothing was measured"]
    spread = f"{duration(min(times))} to {duration(max(times))}"
    how = f"{measured.done} rounds" if measured.done != 1 else "one round"
    if measured.done < measured.rounds and len(measured.titles) > len(measured.refused) + 1:
        how += f" of {measured.rounds}, then it was stopped"

    clock = ", in processor time" if measured.clock == "cpu" else ""
    disturbances = "".join(f"; {activity}" for activity in sorted(measured.disturbances))
    return [
        f"{size}: {duration(statistics.median(times))} as it is (median; {spread}; {how} in turns,"
        f" each run with an empty cache{clock}){disturbances}"
    ]


def _claims(measured: Measurements, results: list[Finding]) -> list[str]:
    outcomes: dict[Verdict, str] = {
        "slower": "seen here",
        "faster": "the opposite was seen here",
        "no difference": "not seen here",
    }
    return [
        f"Claim: {claim}: {outcomes.get(finding.verdict, finding.verdict)}"
        for finding in results
        if (claim := measured.workload.claims.get(finding.variant))
    ]


def table(results: list[Finding]) -> list[dict[str, Any]]:
    """Return a table row per variant of `results`."""
    rows = []
    for finding in results:
        row: dict[str, Any] = {"variant": finding.variant}
        if finding.seconds:
            row |= {
                "seconds": round(statistics.median(finding.seconds), 4),
                "fastest": round(min(finding.seconds), 4),
                "slowest": round(max(finding.seconds), 4),
                "times": round(finding.ratio, 3),
                "low": round(finding.interval.low, 3),
                "high": round(finding.interval.high, 3),
                "verdict": finding.verdict if finding.ratios else "",
            }
        else:
            row |= dict.fromkeys(("seconds", "fastest", "slowest", "times", "low", "high"), "")
            row["verdict"] = finding.verdict
        rows.append(row | {"note": finding.note or finding.counts})
    return rows


def duration(seconds: float) -> str:
    """Format `seconds` with three or more digits, because paired times differ little."""
    return f"{seconds:.2f} s" if seconds >= 0.9995 else f"{1000 * seconds:.3g} ms"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
