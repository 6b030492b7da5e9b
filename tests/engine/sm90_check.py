"""Compiles kernels for compute capability 9.0 without a GPU: triton's compiler and ptxas. Run as a
program; the driver holds for the whole process. Nothing runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from sgnb.engine.attention import LayerOptions, device_plan, triton_backend
from sgnb.engine.attention.triton_backend import TritonAttention
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.fusion import kernels, moe, skinny
from sgnb.engine.fusion.module_patterns import ROTARIES
from sgnb.engine.fusion.types import AttentionPlan, Heads, Norm
from sgnb.engine.quantization.packed import Kind, PackedWeight, stack

compiled: list[str] = []
"""Names of the compiled kernels."""


def compile_only(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
    """`launch` that compiles the kernel to machine code."""
    binary = kernel.warmup(*args, grid=grid, **options)
    assert binary.asm["cubin"]
    compiled.append(kernel.__name__)


@contextmanager
def pretended_gpu(*modules: Any) -> Iterator[list[str]]:
    """Compile the launches of modules for a GPU of capability 9.0."""
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
    )
    driver.set_active(gpu)
    for module in modules:
        module.launch = compile_only
    compiled.clear()
    yield compiled


def check_fp8_pool() -> None:
    """Storing, rotation, and attention of all kinds, in bfloat16 and float16."""
    heads = Heads(32, 8, 128)
    with pretended_gpu(triton_backend, device_plan, kernels):
        for dtype in (torch.bfloat16, torch.float16):
            kv = KVCache({0: LayerShape(8, 128, 128)}, 8, dtype, torch.device("cpu"), "fp8")
            attention = TritonAttention(kv, {0: 32})
            attention.precompile(1)
            q, k = torch.empty(1, 32, 128, dtype=dtype), torch.empty(1, 8, 128, dtype=dtype)
            attention.store(0, k, k)
            attention.attend(0, q, LayerOptions(0.1))
            plan = AttentionPlan(0, heads, LayerOptions(0.1), ROTARIES[0], None, None)
            angles = torch.empty(2, 1, 128, dtype=dtype).unbind()
            kernels.rotate_and_store(torch.empty(1, 6144, dtype=dtype), plan, angles, attention)
        names = {"store_rows", "attend_tiles", "extend_tiles", "merge_states"}
        assert set(compiled) == names | {"_rotate_and_store_kernel"}


def check_packed() -> None:
    """Packed weights of each kind: a gated product with norm and a projection, at one and at two
    rows."""
    heads = Heads(8, 2, 128)
    plan = AttentionPlan(0, heads, LayerOptions(0.1), ROTARIES[0], None, None)
    kv = KVCache({0: LayerShape(2, 128, 128)}, 8, torch.bfloat16, torch.device("cpu"))
    attention = TritonAttention(kv, {0: 8})
    norm = Norm(torch.empty(2048), 1e-5, False)
    with pretended_gpu(skinny, kernels):
        for kind, wide in (("int4", 128), ("mxfp4", 32), ("fp8", 2048), ("fp8", 128)):
            weight = empty_weight(kind, sum(heads.widths), 2048, wide)
            for rows in (1, 2):
                x = torch.empty(rows, 2048, dtype=torch.bfloat16)
                angles = torch.empty(2, rows, 128, dtype=torch.bfloat16).unbind()
                skinny.skinny_linear(x, weight, norm=norm, gated="silu")
                skinny.skinny_project(x, weight, None, plan, angles, attention, norm=norm)
        products = [name for name in compiled if name in ("linear_kernel", "project_kernel")]
        assert products == ["linear_kernel", "project_kernel"] * 8


def check_dots() -> None:
    """Packed weights on tensor cores: a gated product with norm per height of tiles, and experts of
    gpt-oss's size with few and many pairs. All use warp-group instructions from registers."""
    norm = Norm(torch.empty(2880), 1e-5, False)
    with pretended_gpu(skinny, moe, kernels):
        skinny._sm_count = lambda device: 132
        for kind, wide in (("int4", 128), ("mxfp4", 32), ("fp8", 2880)):
            weight = empty_weight(kind, 2 * 2880, 2880, wide)
            for rows in (16, 64, 300) if kind == "int4" else (64,):
                x = torch.empty(rows, 2880, dtype=torch.bfloat16)
                skinny.skinny_linear(x, weight, norm=norm, gated="silu")
            experts = [stack([empty_weight(kind, n, 2880, wide)] * 4) for n in (2 * 2880, 2880)]
            for tokens in (2, 400):
                x, ids = torch.empty(tokens, 2880, dtype=torch.bfloat16), torch.zeros(tokens, 2)
                moe.fused_experts(x, *experts, ids.long(), ids, "silu")
    assert compiled.count("linear_kernel") == 5 and compiled.count("grouped_kernel") == 12


def empty_weight(kind: Kind, rows: int, columns: int, wide: int) -> PackedWeight:
    """A matrix without numbers; FP8 has blocks as high as wide, or a scale per row."""
    high = wide if kind == "fp8" and wide < columns else 1
    size = columns if kind == "fp8" else columns // 2
    values = torch.empty(rows, size, dtype=torch.float8_e4m3fn if kind == "fp8" else torch.uint8)
    scales = torch.empty(rows // high, -(-columns // wide), dtype=torch.bfloat16)
    if kind == "mxfp4":
        scales = scales.to(torch.uint8)
    zeros = torch.empty(scales.shape, dtype=torch.uint8) if kind == "int4" else None
    return PackedWeight(kind, values, scales, zeros, None, (high, wide))


if __name__ == "__main__":
    {"packed": check_packed, "dots": check_dots, "fp8": check_fp8_pool}[sys.argv[1]]()
    print("all compiled")
