"""The comparison of a compiled program with its code before each run: drawn programs with edits
between compile and run, and the processor time of the comparison."""

from __future__ import annotations

import statistics
import time
from typing import Any

import sgnb
from sgnb.lang import SglFunction
from tests.lang.fake import FakeExecutor
from tests.lang.program_fuzz import RUNS, run_fuzz

from .common import Report

PROGRAMS, FIRST_SEED = 2000, 1000
RUNS_PER_ROUND, ROUNDS = 100, 41
CHECK_US = 100


def run() -> list[Report]:
    return [check_time(), drawn_programs()]


@sgnb.function
def three_generations(s: Any, question: str) -> None:
    s += "Q: " + question + "\nA:" + sgnb.gen("answer", max_tokens=8)
    s += "\nWhy:" + sgnb.gen("reason", max_tokens=8)
    s += "\nSo:" + sgnb.gen("end", max_tokens=8)


@sgnb.function
def chat(s: Any, question: str) -> None:
    s += sgnb.system("Be brief.")
    s += sgnb.user(f"Q: {question}?")
    s += sgnb.assistant(sgnb.gen("answer", max_tokens=8))
    s += sgnb.user("Is this right?")
    s += sgnb.assistant(sgnb.select("right", ["yes", "no"]))


@sgnb.function
def forks(s: Any, question: str) -> None:
    s += question
    branches = s.fork(2)
    branches += lambda i: f"\n{i + 1}." + sgnb.gen("tip", max_tokens=8)
    branches.join()
    s += "\n" + " and ".join(s["tip"]) + sgnb.gen("end", max_tokens=8)


def check_time() -> Report:
    """Processor time of a run with the check minus a run without, with a new argument per run."""
    report = Report(
        f"The check of a graph before a run (CPU), us of processor time, {ROUNDS} rounds in turns",
        ("program", "nodes", "run without check", "run with check", "check"),
        bar=f"the check takes at most {CHECK_US} us per run (median of the programs)",
    )
    medians = []
    for program in (three_generations, chat, forks):
        unchecked, checked = _times(program)
        difference = statistics.median(b - a for a, b in zip(unchecked, checked, strict=True))
        medians.append(difference)
        report.rows.append(
            (
                program.func.__name__,
                len(program.trace().nodes),
                f"{statistics.median(unchecked):.0f}",
                f"{statistics.median(checked):.0f}",
                f"{difference:.0f}",
            )
        )
    report.met = statistics.median(medians) <= CHECK_US
    return report


def _times(program: SglFunction) -> tuple[list[float], list[float]]:
    """Return the microseconds per run of each round, without and with the check."""
    executor, times = FakeExecutor(answer="a"), {False: [], True: []}  # type: ignore[var-annotated]
    graphs = {check: program.compile(check=check) for check in times}
    try:
        for turn in range(ROUNDS):
            for check in (False, True) if turn % 2 else (True, False):
                begun = time.thread_time()
                for i in range(RUNS_PER_ROUND):
                    graphs[check].run(f"question {turn} {i}", backend=executor)
                times[check].append(1e6 * (time.thread_time() - begun) / RUNS_PER_ROUND)
    finally:
        executor.close()
    return times[False], times[True]


def drawn_programs() -> Report:
    """Compare runs of graphs with runs of the code, after edits of globals, lists and helpers."""
    seeds = range(FIRST_SEED, FIRST_SEED + PROGRAMS)
    counts, different = run_fuzz(seeds)
    results = "equal", "error", "refused", "different", "no graph"
    return Report(
        f"{PROGRAMS:,} drawn programs, {RUNS} runs each with an edit before each run",
        ("equal", "same error", "refused with a line", "different", "programs without a graph"),
        [tuple(f"{counts[result]:,}" for result in results)],
        bar="no run differs",
        met=not different,
    )
