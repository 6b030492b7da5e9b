"""The benchmark of single kernels at toy sizes in triton's interpreter: every call that it would
time runs to its end.

Run as a program: the interpreter must be chosen before triton is imported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.gpu import kernels, packed, quantized
from benchmarks.gpu.clock import Call
from benchmarks.gpu.sizes import Mixture, Place, Product, Sizes, layer

TOY = Sizes(
    {"mixture": Mixture(4, 2, 32, 16)},
    (3,),
    {
        "q, k, v": Product(96, 32, norm=True, heads=(1, 1, 32)),
        "gate, up": Product(32, 32, norm=True, gated=True),
        "down": Product(32, 16, added=True),
        "logits": Product(40, 32, norm=True),
    },
    (1, 5),
    (2,),
    {"model": layer((2, 1, 32), 48, 32)},
    (2,),
    70,
)


def once(calls: Sequence[Call]) -> float:
    """The first ones, and a time that is made up."""
    for call in calls[:2]:
        out = call()
        assert (out[0] if isinstance(out, tuple) else out).isfinite().all()
    return 2.0


@torch.inference_mode()
def check() -> None:
    torch.set_num_threads(1)
    place = Place("cpu", "float32", TOY, once, once)
    found = {part: make(place) for part, make in kernels.KERNELS.items()}
    for part, report in found.items():
        assert report.rows and all(len(row) == len(report.columns) for row in report.rows), part
    assert [row[:2] for row in found["invariant"].rows[-2:]] == [("a layer", 1), ("a layer", 5)]
    assert [row[2:] for row in found["invariant"].rows[-2:]] == [("6.0", "6.0", "1.00")] * 2
    parts = "experts", "invariant", "skinny", "layers"
    measured = [cell for part in parts for row in found[part].rows for cell in row]
    assert "-" not in measured, measured
    few = quantized.products(place, (1, 5)).rows
    assert len(few) == 8 and not any("-" in row for row in few)
    mixtures = packed.experts(place, TOY.mixtures, (1, 3)).rows
    assert len(mixtures) == 4 and not any("-" in row for row in mixtures)
    tiled = packed.tilings(place, (5,)).rows
    assert len(tiled) == 12 and not any("-" in row for row in tiled)
    assert found["sampling"].rows[0][1:5] == ("2.0", "2.0", "0%", "2.0")


if __name__ == "__main__":
    check()
    print("all ran")
