"""The slots of the KV cache that programs of the language use, and their bound before they run.

Those of `tests/lang/test_zoo.py` that can be traced, on the bundled model. How what they use is
measured, `tests/lang/bounded.py` says.
"""

from __future__ import annotations

import sgnb
from tests.lang.bounded import measure
from tests.lang.test_graph_zoo import NOT_TRACED
from tests.lang.test_zoo import ZOO

from .common import Report

AT_MOST = 1.5


def run() -> Report:
    columns = ("program", "calls", "new tokens, at most", "slots, at most", "used", "ratio")
    report = Report("KV slots of a run: its bound, and what it used", columns)
    ratios = []
    with sgnb.Engine("tiny") as engine:
        sgnb.set_default_backend(engine)
        for name in ZOO:
            if name in NOT_TRACED:
                continue
            bound, used = max(measure(name, engine), key=lambda one: one.bound.slots / one.used)
            ratios.append(bound.slots / used)
            counts = bound.calls, bound.new_tokens, bound.slots, used
            report.rows.append((name, *counts, f"{ratios[-1]:.2f}"))
        sgnb.set_default_backend(None)
    report.bar = f"never below 1, at most {AT_MOST}"
    report.met = min(ratios) >= 1 and max(ratios) <= AT_MOST
    report.note = "Of several runs of a program, the one with the largest ratio."
    return report
