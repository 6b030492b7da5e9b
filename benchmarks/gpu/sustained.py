"""`python -m benchmarks.gpu.sustained`: how fast large products are for a moment and for seconds on end.

A GPU that reaches the power it may draw lowers its clock. So a prompt of seconds is computed more slowly than one of
milliseconds, by any engine. Llama-8B's products of 8,192 rows, by cuBLAS, with random numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..common import Report
from .chip import watched
from .sizes import FULL

ROWS = 8192
MOMENT, LONG = 0.02, 2.0
COLD = 790e12
"""Operations a second that one H200 reached for a moment."""

REST = 1.5
"""Seconds before each run, for the chip to cool."""


def run() -> Report:
    import torch

    share_of = f"of {COLD / 1e12:.0f}"
    columns = ("product", "TFLOP/s for a moment", f"for {LONG:g} s", share_of, "MHz", "W")
    report = Report(f"Products of {ROWS:,} rows for a moment and for seconds (GPU)", columns)
    if not torch.cuda.is_available():
        report.note = "Needs an NVIDIA GPU."
        return report
    for name, product in FULL.products.items():
        if name == "logits":
            continue
        x, weight = (
            torch.randn(rows, product.size, device="cuda").mul_(width).bfloat16()
            for rows, width in ((ROWS, 1.0), (product.columns, product.size**-0.5))
        )
        operations = 2 * ROWS * product.columns * product.size
        call = partial(torch.nn.functional.linear, x, weight)
        (moment, _), (long, chip) = (_rate(call, operations, seconds) for seconds in (MOMENT, LONG))
        shown = (f"{chip.get(key, float('nan')):,.0f}" for key in ("mhz", "watts"))
        share = f"{long / COLD:.0%}"
        report.rows.append((name, f"{moment / 1e12:,.0f}", f"{long / 1e12:,.0f}", share, *shown))
        print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _rate(product: Callable[[], Any], operations: int, seconds: float) -> tuple[float, dict[str, float]]:
    """Operations a second over about so many seconds, and the chip meanwhile."""
    import torch

    product()
    torch.cuda.synchronize()
    time.sleep(REST)
    count = max(1, round(seconds * COLD / operations))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with watched() as chip:
        begin.record()
        for _ in range(count):
            product()
        end.record()
        end.synchronize()
    return count * operations / begin.elapsed_time(end) * 1000, chip


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks.gpu.sustained", description=__doc__).parse_args()
    print(run().markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
