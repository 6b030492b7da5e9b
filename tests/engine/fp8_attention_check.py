"""FP8 keys and values: the Triton kernels against float64 attention over the dequantized cache. Run
as a program: in triton's interpreter."""

from __future__ import annotations

import random
import sys

import numpy as np
import torch

from sgnb.engine.attention.triton_backend import TritonAttention
from sgnb.engine.cache.fp8 import quantize
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.request.step_builder import attention_input

from .test_attention import OPTIONS, SLOTS, blocks_error, blocks_step, random_batch
from .triton_attention_check import SMALL, error, plain_batch, pool

LONG = [(9, 1), (40, 1), (3, 5), (0, 37), (21, 18)]
TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3}


def fp8_pool(
    dtype: torch.dtype, kv_heads: int = 2, value_dim: int = 7, slots: int = SLOTS
) -> KVCache:
    return pool(kv_heads, 10, value_dim, "cpu", dtype, slots, "fp8")


def check_random_batches(quick: bool) -> None:
    """Shared prefixes, tree masks, decodes and short chunks. quick: each dtype once."""
    rng = random.Random(3)
    torch.manual_seed(3)
    kinds = {torch.float32: ("all",), torch.float16: ("plain",)}
    for dtype, tolerance in TOLERANCES.items():
        for kind in kinds[dtype] if quick else sorted(OPTIONS):
            for heads in (2,) if quick else (4, 1):
                attention = TritonAttention(fp8_pool(dtype, heads, 5), {0: 4}, tuning=SMALL)
                worst = error(attention, random_batch(rng), 4, OPTIONS[kind])
                assert worst < tolerance, (dtype, kind, heads, worst)


def check_extend(quick: bool) -> None:
    """Chunks long enough for the extend kernel."""
    order = np.random.default_rng(0).permutation(SLOTS).astype(np.int32)
    batch = plain_batch([(9, 1), (3, 5), (0, 17)] if quick else LONG, order)
    for dtype, tolerance in TOLERANCES.items():
        for kind in ("plain",) if quick else ("plain", "window"):
            attention = TritonAttention(fp8_pool(dtype), {0: 6}, tuning=SMALL)
            worst = error(attention, batch, 6, OPTIONS[kind])
            assert worst < tolerance, (dtype, kind, worst)


def check_blocks() -> None:
    attention = TritonAttention(fp8_pool(torch.float32, slots=400), {0: 4}, tuning=SMALL)
    assert blocks_error(attention, blocks_step(random.Random(5), 400), 4, OPTIONS["all"]) < 1e-5


def check_odd_numbers() -> None:
    """Zeros, tiny and huge numbers and NaN are stored as by `quantize`."""
    kv = fp8_pool(torch.float32, 3, 10)
    attention = TritonAttention(kv, {0: 3}, tuning=SMALL)
    numbers = torch.zeros(9, 3, 10)
    numbers[1], numbers[2], numbers[3] = 1e-38, torch.finfo(torch.bfloat16).max, torch.randn(3, 10)
    numbers[4, 1, 3], numbers[5, 2, 9] = torch.nan, torch.inf
    numbers[6:] = 10 ** torch.linspace(-12, 3, 90).view(3, 3, 10)
    order = np.arange(SLOTS, dtype=np.int32)[::-1].copy()
    step = plain_batch([(0, 9)], order)
    attention.plan(attention_input(step))
    attention.store(0, numbers, -numbers)
    slots = torch.from_numpy(order[:9].astype(np.int64))
    for rows, new in zip(kv.rows(0), (numbers, -numbers), strict=True):
        stored, scales = quantize(new)
        assert rows.scales is not None
        finite = new.isfinite().all(-1)
        assert torch.equal(rows.scales[slots][finite], scales[finite])
        found = rows.numbers.view(torch.uint8)[slots].view(stored.dtype).float()
        assert torch.equal(found[finite], stored.float()[finite])
        read = rows.read(slots)
        assert not read[4, 1, 3].isfinite() and not read[5, 2, 9].isfinite()
        assert read[4, [0, 2]].isfinite().all() and read[finite].isfinite().all()


if __name__ == "__main__":
    torch.set_num_threads(1)
    quick = sys.argv[1:] == ["quick"]
    check_random_batches(quick)
    check_extend(quick)
    if not quick:
        check_blocks()
    check_odd_numbers()
    print("all agree")
