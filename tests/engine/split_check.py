"""Steps that Triton and FlashInfer serve together, against the float64 reference. Run as a program.

Triton's kernels run in its interpreter, which must be chosen before triton is imported: that needs
a process of its own. A stand-in serves for FlashInfer.
"""

from __future__ import annotations

import random

import pytest
import torch

from sgnb.engine import step_input
from sgnb.engine.attention.split import SplitAttention
from sgnb.engine.attention.triton_backend import TritonAttention

from . import fake_flashinfer
from .test_attention import OPTIONS, random_batch
from .test_flashinfer import new_batch
from .triton_attention_check import SMALL, error, pool

SHORT = 4


def check(rounds: int) -> None:
    kv = pool(2, 16, 16, "cpu", torch.float32)
    attention = SplitAttention(TritonAttention(kv, {0: 4}, tuning=SMALL))
    rng, borders = random.Random(0), set()
    for _ in range(rounds):
        assert error(attention, random_batch(rng, 0.5), 4, OPTIONS["all"]) < 1e-4
        borders.add(attention._border if attention._split else None)
        assert (
            error(attention, new_batch((9, 1), (20, 1), (3, 1)), 4, OPTIONS["all"], padded=4) < 1e-4
        )
        assert (
            error(attention, new_batch((9, 1), (20, 3), (30, 12), (7, 7)), 4, OPTIONS["all"]) < 1e-4
        )
        borders.add(attention._border if attention._split else None)
        assert attention._background is not None
        attention._background.wait(60)
    assert {None, 4} <= borders and attention.name == "flashinfer"


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        fake_flashinfer.install(patch)
        patch.setattr(step_input, "SHORT", SHORT)
        check(rounds=6)
    print("all agree")
