"""From `%load_ext sgnb` to the first token of the bundled model, in a fresh process, less the
import of torch."""

from __future__ import annotations

import statistics
import subprocess
import sys

from .common import Report

SCRIPT = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.perf_counter(); import torch; torch_seconds = time.perf_counter() - began
began = time.perf_counter()
shell.run_line_magic("load_ext", "sgnb")
cell = "s += 'The capital of France is' + gen('city', max_tokens=1)"
shell.run_cell_magic("sglang", "--show none -q", cell)
assert shell.user_ns["s"]["city"], "no token came"
print("RESULT", torch_seconds, time.perf_counter() - began)
"""


def run() -> Report:
    runs = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
        )
        line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
        runs.append([float(x) for x in line.split()[1:]])
    torch_seconds, rest = (statistics.median(column) for column in zip(*runs, strict=True))
    report = Report(
        "First token of the bundled model (CPU, fresh process)",
        ("part", "seconds (median of 5)"),
        bar="under 3 s beyond the import of torch",
        met=rest < 3,
    )
    report.rows = [
        ("import torch", f"{torch_seconds:.2f}"),
        ("%load_ext to the first token, torch imported before", f"{rest:.2f}"),
    ]
    return report
