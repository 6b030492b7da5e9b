"""What a program costs: 2,000 of one generation by `run_batch`, against `Engine.generate` of the
same requests."""

from __future__ import annotations

import statistics

import sgnb
from sgnb.backends import LocalExecutor

from .common import Report, alternate, median_ratio

PROGRAMS, NEW = 2000, 16


@sgnb.function
def continued(s, text):  # type: ignore[no-untyped-def]
    s += text
    s += sgnb.gen("more", max_tokens=NEW, temperature=0, ignore_eos=True)


def run() -> Report:
    texts = [f"Question {i}: what is {i % 97} plus {i % 89}?\nAnswer:" for i in range(PROGRAMS)]
    with sgnb.Engine("tiny") as engine:
        executor = LocalExecutor(engine)

        def direct() -> None:
            engine.flush_cache()
            engine.generate(texts, temperature=0, max_new_tokens=NEW, ignore_eos=True)

        def programs() -> None:
            engine.flush_cache()
            continued.run_batch([{"text": text} for text in texts], backend=executor)

        times = alternate({"Engine.generate": direct, "run_batch": programs}, rounds=5)
    cost = median_ratio(times["run_batch"], times["Engine.generate"]) - 1
    report = Report(
        f"{PROGRAMS:,} programs of one generation (CPU)",
        ("way", "seconds (median)"),
        bar="run_batch at most 5 % over Engine.generate",
        met=cost <= 0.05,
    )
    report.rows = [(name, f"{statistics.median(t):.2f}") for name, t in times.items()]
    report.note = f"Median of 5 pairs: {cost:+.1%}."
    return report
