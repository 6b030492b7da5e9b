"""The four claims of arXiv 2312.07104 on the bundled model: gains by the prefix cache, cache-aware
scheduling, jump-forward and attention over forks, each with a suitable workload.

Measured in processor time, to reduce the effect of other processes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sgnb
from sgnb import Workload
from sgnb.backends import executor_of
from sgnb.benchmark import Measurements, bench
from sgnb.benchmark.findings import findings
from sgnb.benchmark.measurement import Clock

from .common import Report

ROUNDS = 12
COUNTRIES = ("Japan", "Brazil", "Egypt", "Italy", "Kenya", "Peru", "Norway", "China")
CAPITALS = {"France": "Paris", "Spain": "Madrid", "Poland": "Warsaw", "Greece": "Athens"}
QUESTION = "Question: What is the capital of {}?\nAnswer:"
SHOTS = "".join(f"{QUESTION.format(land)} {city}.\n" for land, city in CAPITALS.items()) * 4
RECORD = (
    r'\{"continent": "(Europe|Asia|Africa|America)", "language": "(English|French|Spanish)",'
    r' "is_a_country_of_the_world": true\}'
)
WORDS = ("river", "stone", "light", "garden", "bird", "winter", "road", "house", "music", "city")
TEXTS, QUESTIONS, FORKS = 8, 4, 16


@sgnb.function
def few_shot(s: Any, country: str) -> None:
    s += SHOTS + QUESTION.format(country)
    s += sgnb.gen("answer", max_tokens=8, temperature=0, stop="\n")


@sgnb.function
def asked(s: Any, text: str, number: int) -> None:
    s += f"{text}\nQuestion {number}:"
    s += sgnb.gen("answer", max_tokens=4, temperature=0, ignore_eos=True)


@sgnb.function
def record(s: Any, country: str) -> None:
    s += f"{country}: " + sgnb.gen("record", regex=RECORD, max_tokens=80, temperature=0)


@sgnb.function
def forked(s: Any, text: str) -> None:
    s += text
    forks = s.fork(FORKS)
    forks += lambda i: f"\nPoint {i + 1}:"
    forks += sgnb.gen("point", max_tokens=24, temperature=0, ignore_eos=True)
    forks.join()


def workloads() -> list[Workload]:
    rng = random.Random(0)

    def text(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words))

    texts, countries = [text(150) for _ in range(TEXTS)], [{"country": c} for c in COUNTRIES]
    return [
        Workload(
            "few-shot questions",
            few_shot,
            countries,
            {"nocache": "examples that prompts share are computed once"},
        ),
        Workload(
            "questions on eight texts, in turns",
            asked,
            [{"text": t, "number": i} for i in range(QUESTIONS) for t in texts],
            {"fcfs": "the longest cached prefix first finds what a small cache still has"},
            engine={"max_total_tokens": 900, "max_running_requests": 2},
        ),
        Workload(
            "records",
            record,
            countries,
            {"nojump": "text that a grammar forces takes no steps of its own"},
        ),
        Workload(
            "sixteen forks of a long text",
            forked,
            [{"text": text(1500)}],
            {"nofork": "a prefix that forks share is read once for all of them"},
        ),
    ]


def run() -> Report:
    title = "Claims of the paper, bundled model (CPU)"
    return claimed(title, workloads(), lambda options: sgnb.Engine("tiny", **options))


def claimed(
    title: str,
    workloads: Iterable[Workload],
    engine_with: Callable[[Mapping[str, Any]], sgnb.Engine],
    clock: Clock = "cpu",
) -> Report:
    """Measure each workload on a private engine, with and without the technique."""
    time = "processor time" if clock == "cpu" else "time on the wall"
    report = Report(
        title,
        ("workload", "without", "times as long", "interval", "counts"),
        bar="each takes longer without its technique",
        met=True,
        note=f"{ROUNDS} rounds in turns, {time}, each run with an empty cache.",
    )
    for workload in workloads:
        measured = Measurements(workload, ROUNDS, clock=clock)
        with engine_with(workload.engine) as engine:
            bench(executor_of(engine), workload.opponents, measured)
        for one in findings(measured)[1:]:
            report.met = report.met and one.verdict == "slower"
            what = workload.name, one.title.removeprefix("without ")
            if one.note:
                report.rows.append((*what, "", "", one.note))
                continue
            low, high, level = one.interval
            sure = f"{level:.1%}: {low:.2f} to {high:.2f}"
            report.rows.append((*what, f"{one.ratio:.2f}", sure, one.counts))
    return report
