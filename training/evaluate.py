"""Measures the bundled model on held-out questions: `python -m training.evaluate`.

Prints a table, writes it to training/RESULTS.md and into the model's card. Every question is an sgnb program and every
suite one `run_batch`; greedy unless a suite's program says otherwise, float32 on a CPU.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from random import Random
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


def run(executor: LocalExecutor, suite: Suite, count: int, show: int) -> float:
    """The share of right answers; prints the first `show` wrong ones."""
    cases = suite.cases(count)
    rows = [{"case": case, "stop": suite.stop} for case in cases]
    states = suite.program.run_batch(rows, backend=executor, temperature=0)
    answers = [state.ret_value for state in states]
    wrong = [(c, a) for c, a in zip(cases, answers, strict=True) if not suite.judge(a, c.want)]
    for case, answer in wrong[:show]:
        print(f"    {case.prompt[-160:]!r}\n      wanted {case.want!r}, got {answer!r}")
    return 1 - len(wrong) / len(cases)


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
    parser.add_argument("--show", type=int, default=0, help="so many wrong answers of each suite")
    options = parser.parse_args()
    engine, rows, started = Engine(str(options.model)), [], time.time()
    executor = LocalExecutor(engine)
    for suite in SUITES:
        if options.only in suite.name:
            rows.append(Row(suite, run(executor, suite, options.count, options.show)))
            print(f"{100 * rows[-1].right:5.1f} %  {percent(suite.bar):>5}  {suite.name}", flush=True)
    rng = Random("calibration")
    found = bins(list(guesses(engine, [held_out_document(rng) for _ in range(20 * options.count)])))
    print(f"calibration error {error(found):.4f}; {time.time() - started:.0f} s")
    if (options.model, options.count, options.only) == (MODEL, COUNT, ""):
        write(rows, found)


if __name__ == "__main__":
    main()
