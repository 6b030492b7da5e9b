"""FP8 keys and values on a GPU: stored numbers, attention against float64 over the dequantized
cache, CUDA graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgnb.engine.attention import LayerOptions
from sgnb.engine.fusion.types import Heads
from sgnb.engine.request.step_builder import attention_input

from .test_attention import OPTIONS, SLOTS
from .test_gpu_attention import TOLERANCES, forks
from .test_gpu_matmul import replayed

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("kv_heads", "heads", "key_dim", "value_dim"),
    [(8, 32, 128, 128), (4, 28, 80, 80), (1, 16, 96, 64), (8, 8, 192, 128), (2, 16, 256, 256)],
)
def test_shapes(kv_heads: int, heads: int, key_dim: int, value_dim: int) -> None:
    """Decodes below a long prefix, and long chunks, with the tuning of the shape."""
    from sgnb.engine.attention.triton_backend import TritonAttention

    from .triton_attention_check import error, plain_batch, pool

    torch.manual_seed(0)
    options, dtype = LayerOptions(key_dim**-0.5), torch.bfloat16
    batch, slots = forks(40, 700, 30)
    kv = pool(kv_heads, key_dim, value_dim, "cuda", dtype, slots + 1, "fp8")
    attention = TritonAttention(kv, {0: heads})
    assert error(attention, batch, heads, options) < TOLERANCES[dtype]
    order = np.random.default_rng(0).permutation(slots).astype(np.int32)
    batch = plain_batch([(900, 1), (5, 1), (0, 300), (170, 90)], order)
    for more in (options, options._replace(window=100)):
        assert error(attention, batch, heads, more) < TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_rotated_heads_are_stored(dtype: torch.dtype) -> None:
    from .fusion_kernel_check import check_fp8_rotation

    for heads in (Heads(32, 8, 128), Heads(5, 3, 24)):
        check_fp8_rotation(heads, dtype, "cuda")


def test_a_step_in_a_graph() -> None:
    from sgnb.engine.attention.triton_backend import TritonAttention

    from .triton_attention_check import plain_batch, pool

    torch.manual_seed(0)
    order = np.random.default_rng(1).permutation(SLOTS).astype(np.int32)
    attention = TritonAttention(pool(2, 64, 64, "cuda", torch.bfloat16, kv_dtype="fp8"), {0: 8})
    attention.plan(attention_input(plain_batch([(50, 1)] * 5, order)), padded=8)
    q = torch.randn(8, 8, 64, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(8, 2, 64, device="cuda", dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        attention.store(0, k, k)
        return attention.attend(0, q, OPTIONS["plain"])

    out, again = replayed(step, lambda: (q.normal_(), k.normal_()))
    assert torch.equal(out[:5], again[:5])
