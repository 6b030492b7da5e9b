"""The pool's tensors on a CPU: zeros, and no memory before they are written."""

from __future__ import annotations

import math
import multiprocessing
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from sgnb.engine.cache.kv_cache import ALIGNMENT, KVCache, LayerShape
from sgnb.engine.cache.tiers.payloads import _finite_check

from .interpreter import interpreted, needs_triton

MB = 1 << 20

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")


def resident_mb() -> float:
    """Memory of this process that is in use, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MB


def write_a_pool() -> None:
    """In a process of its own: what else runs in this one takes and gives memory too."""
    before = resident_mb()
    kv = KVCache({0: LayerShape(8, 64, 64)}, 64 * 1024, torch.float32, torch.device("cpu"))
    assert kv.keys[0].nbytes + kv.values[0].nbytes > 256 * MB
    assert resident_mb() - before < 32
    kv.keys[0][: 32 * 1024] = 1
    assert resident_mb() - before > 60


@needs_proc
@pytest.mark.slow
def test_a_pool_takes_memory_when_it_is_written() -> None:
    process = multiprocessing.get_context("spawn").Process(target=write_a_pool)
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_was_not_written_is_zero(dtype: torch.dtype) -> None:
    kv = KVCache({0: LayerShape(2, 8, 5), 3: LayerShape(1, 3, 7)}, 10, dtype, torch.device("cpu"))
    for layer, shape in ((0, (11, 2, 8)), (3, (11, 1, 3))):
        keys = kv.keys[layer]
        assert keys.shape == shape and keys.dtype == dtype and keys.is_contiguous()
        assert keys.data_ptr() % ALIGNMENT == 0
    assert kv.values[0].shape == (11, 2, 5) and kv.values[3].shape == (11, 1, 7)
    assert all(not x.any() for x in (*kv.keys.values(), *kv.values.values()))
    kv.values[0][4] = 1
    assert kv.values[0].sum() == 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_come_back_and_a_number_that_is_not_finite_is_found(dtype: torch.dtype) -> None:
    shapes = {0: LayerShape(2, 8, 5), 3: LayerShape(1, 3, 7)}
    kv = KVCache(shapes, 10, dtype, torch.device("cpu"))
    tensors = [*kv.keys.values(), *kv.values.values()]
    for tensor in tensors:
        tensor.normal_()
    copies = [tensor.clone() for tensor in tensors]
    ids, packed = np.array([7, 2, 3], np.int32), torch.full((3, kv.unit_bytes + 5), 9).byte()
    kv.copy(ids, packed)
    for tensor in tensors:
        tensor[ids] = 0
    kv.restore(ids, packed)
    assert all(torch.equal(*pair) for pair in zip(tensors, copies, strict=True))
    assert (packed[:, kv.unit_bytes :] == 9).all(), "padding stays"

    check = _finite_check(kv.columns)
    assert check(packed).all()
    for tensor in tensors:
        for value in (math.nan, math.inf, -math.inf):
            number = tensor[2, 0, -1].clone()
            tensor[2, 0, -1] = value
            kv.copy(ids, packed)
            assert check(packed).tolist() == [True, False, True]
            tensor[2, 0, -1] = number
    tensors[0][2, 0, 0] = torch.finfo(dtype).min
    kv.copy(ids, packed)
    assert check(packed).all(), "the largest number is finite"


@needs_triton
def test_the_kernel_moves_the_same_rows_in_the_interpreter() -> None:
    assert interpreted("row_kernel_check") == ["4", "tensors", "agree"]
