"""Measures the bundled model on held-out questions: `python -m training.evaluate`.

Prints a table, writes it to training/RESULTS.md and into the model's card. Every question is an sgnb program and every
suite one `run_batch`; greedy unless a suite's program says otherwise, float32 on a CPU. `--against` compares two models
on the same questions instead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from random import Random
from statistics import mean, variance
from typing import NamedTuple

from sgnb.backends import LocalExecutor
from sgnb.engine import Engine

from .calibration import Bin, bins, error, guesses
from .corpus import held_out_document
from .suites import SUITES, exam
from .suites.base import Suite
from .tokenizer import MODEL

RESULTS = Path(__file__).parent / "RESULTS.md"
COUNT = 100


class Row(NamedTuple):
    """A suite with the share of right answers."""

    suite: Suite
    right: float


def run(executor: LocalExecutor, suite: Suite, count: int, show: int = 0) -> list[bool]:
    """Return whether each answer is right. Print the first `show` wrong ones."""
    cases = suite.cases(count)
    rows = [{"case": case, "stop": suite.stop} for case in cases]
    states = suite.program.run_batch(rows, backend=executor, temperature=0)
    answers = [state.ret_value for state in states]
    right = [suite.judge(answer, case.want) for case, answer in zip(cases, answers, strict=True)]
    wrong = [(case, answer) for case, answer, is_right in zip(cases, answers, right, strict=True) if not is_right]
    for case, answer in wrong[:show]:
        print(f"    {case.prompt[-160:]!r}\n      wanted {case.want!r}, got {answer!r}")
    return right


def difference(pairs: Sequence[tuple[list[bool], list[bool]]]) -> tuple[float, float]:
    """Return the mean difference of two models in points, and half of the 95 % interval.

    The mean is over suites. The interval is that of other questions for the same suites, and pairs the answers to a
    question.

    Args:
        pairs: for each suite, whether each answer of the first and of the second model is right; two questions or more.
    """
    suites = [[first - second for first, second in zip(*answers, strict=True)] for answers in pairs]
    spread = sqrt(sum(variance(changes) / len(changes) for changes in suites)) / len(suites)
    return 100 * mean(mean(changes) for changes in suites), 196 * spread


def compare(model: Path, other: Path, suites: Sequence[Suite], count: int) -> None:
    """Print both models' shares of right answers in each suite, and the difference."""
    executors = [LocalExecutor(Engine(str(folder))) for folder in (model, other)]
    pairs = []
    for suite in suites:
        first, second = (run(executor, suite, count) for executor in executors)
        pairs.append((first, second))
        print(f"{100 * mean(first):5.1f} %  {100 * mean(second):5.1f} %  {suite.name}", flush=True)
    points, half = difference(pairs)
    print(f"{points:+.2f} points (95 % interval {points - half:+.2f} to {points + half:+.2f}), "
          f"{len(pairs)} rows, {sum(len(first) for first, _ in pairs):,} questions")


def table(rows: list[Row]) -> str:
    lines = [f"| {row.suite.name} | {100 * row.right:.1f} % | {percent(row.suite.bar)} |" for row in rows]
    return "\n".join(["| held-out set | right | bar |", "|---|---|---|", *lines, ""])


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def reliability(found: list[Bin]) -> str:
    """The calibration of the next tokens as text and table."""
    lines = [f"| {b.count:,} | {100 * b.probability:.1f} % | {100 * b.right:.1f} % |" for b in found]
    head = f"Expected calibration error of the next token: {error(found):.4f} ({sum(b.count for b in found):,} tokens)."
    columns = "| tokens | mean probability of the likeliest | it was the next |"
    return "\n".join([head, "", columns, "|---|---|---|", *lines, ""])


def put_into(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the two marks of the page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    head, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


def write(rows: list[Row], found: list[Bin]) -> None:
    """The tables into RESULTS.md; into the card the rows that have a bar and the hand-written exam."""
    card = MODEL / "README.md"
    put_into(RESULTS, "results", table(rows))
    put_into(RESULTS, "calibration", reliability(found))
    put_into(card, "results", table([row for row in rows if row.suite.bar or row.suite in exam.SUITES]))
    put_into(card, "calibration", reliability(found).partition("\n")[0] + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL, help="another model: nothing is written")
    parser.add_argument("--count", type=int, default=COUNT, help="questions in each suite; else nothing is written")
    parser.add_argument("--only", default="", help="suites whose name holds this; nothing is written")
    parser.add_argument("--first", type=int, help="so many suites, from the first one; nothing is written")
    parser.add_argument("--against", type=Path, help="another model, asked the same questions; nothing is written")
    parser.add_argument("--show", type=int, default=0, help="so many wrong answers of each suite")
    options = parser.parse_args()
    suites = [suite for suite in SUITES[: options.first] if options.only in suite.name]
    if options.against:
        if options.count < 2:
            parser.error(f"--count {options.count}: an interval needs two questions. Use --count 2 or more.")
        compare(options.model, options.against, suites, options.count)
        return
    engine, rows, started = Engine(str(options.model)), [], time.time()
    executor = LocalExecutor(engine)
    for suite in suites:
        rows.append(Row(suite, mean(run(executor, suite, options.count, options.show))))
        print(f"{100 * rows[-1].right:5.1f} %  {percent(suite.bar):>5}  {suite.name}", flush=True)
    rng = Random("calibration")
    found = bins(list(guesses(engine, [held_out_document(rng) for _ in range(20 * options.count)])))
    print(f"calibration error {error(found):.4f}; {time.time() - started:.0f} s")
    if (options.model, options.count, suites) == (MODEL, COUNT, list(SUITES)):
        write(rows, found)


if __name__ == "__main__":
    main()
