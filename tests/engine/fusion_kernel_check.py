"""Compares the fusion pass's kernels with float64, and whole models. Run as a program: in triton's
interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import itertools
import sys

import torch
from torch import Tensor

from sgnb.engine import fusion
from sgnb.engine.attention import LayerOptions
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.fusion import kernels, module_trace, reference
from sgnb.engine.fusion.module_patterns import ROTARIES
from sgnb.engine.fusion.module_trace import TracingBackend
from sgnb.engine.fusion.operations import pick_operations
from sgnb.engine.fusion.types import Angles, AttentionPlan, GatedNorm, Heads, Norm

from .fusion_models import Pooled, own_logits, reduce_outputs, varied_model

ROUNDINGS = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}
"""Relative error of a number that is rounded three times, or cut off, as the interpreter does, to
the coarser dtypes; in float32 that of a long sum."""


def close(mine: Tensor, exact: Tensor, terms: Tensor | None = None) -> None:
    """Each number within a few roundings of the terms that it is the sum of, which may cancel.

    terms: the sum of their magnitudes, float64 of the same shape; by default |exact|, for a number
    that is no sum.
    """
    kind = torch.finfo(mine.dtype)
    bound = (
        ROUNDINGS[mine.dtype] * (exact.abs() if terms is None else terms)
        + kind.eps * kind.smallest_normal
    )
    error = (mine.double() - exact).abs() / bound
    assert float(error.max()) <= 1, (
        f"{mine.dtype}: {float(error.max()):.2f} times the error that rounding makes"
    )


def check_norm(sizes: list[int], rows: list[int], dtype: torch.dtype, device: str) -> None:
    for size, count, early, add, strided in itertools.product(sizes, rows, *[(False, True)] * 3):
        wide = torch.randn(count, size + 24, device=device).to(dtype)
        x = wide[:, 8 : 8 + size] if strided else wide[:, :size].contiguous()
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, early)
        residual = torch.randn(count, size, device=device).to(dtype) if add else None
        exact = (
            x.double()
            * (x.double().square().mean(-1, keepdim=True) + norm.eps).rsqrt()
            * norm.factor.double()
        )
        before = x.clone()
        out = kernels.norm(x, norm, residual)
        added = torch.zeros_like(exact) if residual is None else residual.double()
        close(out, exact + added, exact.abs() + added.abs())
        assert torch.equal(x, before)
    heads = torch.randn(1, 3, 5, 16, device=device).to(dtype).transpose(1, 2)
    norm = Norm(torch.rand(16, device=device), 1e-6, False)
    close(kernels.norm(heads, norm), reference.norm(heads.double().float(), norm).double())


def check_add_norm(sizes: list[int], rows: list[int], dtype: torch.dtype, device: str) -> None:
    flags = (False, True), (1.0, 0.22)
    for size, count, early, scale in itertools.product(sizes, rows, *flags):
        x, y = (torch.randn(count, size, device=device).to(dtype) for _ in range(2))
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, early)
        total = x.double() + scale * y.double()
        terms = x.double().abs() + scale * y.double().abs()
        out = kernels.add_norm(x, y, norm, scale)
        close(x, total, terms)
        mean = x.double().square().mean(-1, keepdim=True)
        close(out, x.double() * (mean + norm.eps).rsqrt() * norm.factor.double())


def check_gated_norm(sizes: list[int], rows: list[int], dtype: torch.dtype, device: str) -> None:
    """One group and three groups, with the rows of x or of the gate apart in memory."""
    flags = [(False, True)] * 3
    for size, count, groups, early, first, strided in itertools.product(
        sizes, rows, (1, 3), *flags
    ):
        wide = torch.randn(count, 2, groups * size + 8, device=device).to(dtype)
        x, gate = (part[:, : groups * size] for part in wide.unbind(1))
        if strided:
            x = x.contiguous()
        norm = Norm(torch.rand(groups * size, device=device) + 0.5, 1e-5, early)
        before = x.clone()
        out = kernels.gated_norm(x[None], gate[None], GatedNorm(norm, size, first))
        opened = torch.nn.functional.silu(gate.double())
        exact = (x.double() * opened if first else x.double()).unflatten(-1, (groups, size))
        scale = (exact.square().mean(-1, keepdim=True) + norm.eps).rsqrt()
        exact = (exact * scale).flatten(-2) * norm.factor.double()
        close(out[0], exact if first else exact * opened)
        assert torch.equal(x, before)


def check_quantized_rows(
    sizes: list[int], rows: list[int], dtype: torch.dtype, device: str
) -> None:
    """FP8 rows with and without a norm: scales of the largest numbers, and numbers within half a
    step of FP8 and the rounding of the norm. A row of zeros stays zero."""
    for size, count, normed in itertools.product(sizes, rows, (False, True)):
        x = torch.randn(count, size + 8, device=device).to(dtype)[:, :size]
        x[0] = 0
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, False) if normed else None
        exact = (x if norm is None else reference.norm(x, norm)).double()
        values, scales = kernels.quantize_rows(x, norm)
        assert values.shape == x.shape and scales.shape == (count, 1)
        largest = exact.abs().amax(1, keepdim=True)
        torch.testing.assert_close(scales[1:], (largest / 448).float()[1:], rtol=2e-2, atol=0)
        found = values.double() * scales.double()
        bound = exact.abs() / 16 + scales.double() * 2**-10 + ROUNDINGS[dtype] * exact.abs()
        assert bool(((found - exact).abs() <= bound).all()), (size, count, normed, dtype)


def check_gate(sizes: list[int], rows: list[int], dtype: torch.dtype, device: str) -> None:
    for size, count, activation in itertools.product(sizes, rows, reference.ACTIVATIONS):
        x = 3 * torch.randn(count, 2 * size, device=device).to(dtype)
        first, up = x.double().chunk(2, -1)
        close(
            kernels.gate(x, activation), reference.gate(x.double(), activation), (first * up).abs()
        )


def check_rotate(shapes: list[Heads], rows: list[int], dtype: torch.dtype, device: str) -> None:
    """All ways to rotate, all of a head or a part of it, with norms and without; padding rows share
    the last slot."""
    options = LayerOptions(1.0)
    for heads, count, rotary, part, normed in itertools.product(
        shapes, rows, ROTARIES, (1, 2), (False, True)
    ):
        if (rotary is None and part == 2) or (heads.dim // part) % 2:
            continue
        factors = torch.rand(2, heads.dim, device=device) + 0.5
        norms = [Norm(factor, 1e-5, part == 1) if normed else None for factor in factors]
        plan = AttentionPlan(3, heads, options, rotary, *norms)
        width = 0 if rotary is None else heads.dim // part // (1 if rotary.twice else 2)
        turns = torch.rand(count, width, device=device) * 6
        angles = None if rotary is None else (turns.cos().to(dtype), turns.sin().to(dtype))
        qkv = torch.randn(count, sum(heads.widths), device=device).to(dtype)
        mine = backend(count, heads, dtype, device)
        q = kernels.rotate_and_store(qkv, plan, angles, mine)
        parts = [heads.query, heads.kv, heads.kv]
        exact, terms = (part.split(parts, 1) for part in exact_rotation(qkv.double(), plan, angles))
        pools = mine.kv.keys[3], mine.kv.values[3]
        for found, right, size in zip(
            (q, *(pool[mine.new_slots] for pool in pools)), exact, terms, strict=True
        ):
            close(found, right, size)
        assert not any(pool[-1].any() for pool in pools)
        if rotary is not None and angles is not None and not normed:
            q_rows = qkv.unflatten(1, (-1, heads.dim))[:, : heads.query]
            for x in (q_rows, q_rows.mT.contiguous().mT):
                close(kernels.rotate(x, angles, rotary), exact[0], terms[0])


def check_fp8_rotation(heads: Heads, dtype: torch.dtype, device: str) -> None:
    """Keys and values of an FP8 pool: e4m3 numbers with a scale per token and head."""
    for rotary, part, normed in itertools.product(ROTARIES[:-1], (1, 2), (False, True)):
        assert rotary is not None
        norm = Norm(torch.rand(heads.dim, device=device) + 0.5, 1e-5, False) if normed else None
        plan = AttentionPlan(3, heads, LayerOptions(1.0), rotary, norm, norm)
        turns = torch.rand(2, heads.dim // part // (1 if rotary.twice else 2), device=device) * 6
        angles = turns.cos().to(dtype), turns.sin().to(dtype)
        qkv = (torch.randn(2, sum(heads.widths), device=device) * 5).to(dtype)
        mine = backend(2, heads, dtype, device)
        mine.kv = KVCache({3: LayerShape(heads.kv, heads.dim, heads.dim)}, 2, dtype,
                          torch.device(device), "fp8")  # fmt: skip
        q = kernels.rotate_and_store(qkv, plan, angles, mine)
        parts = [heads.query, heads.kv, heads.kv]
        exact, terms = (part.split(parts, 1) for part in exact_rotation(qkv.double(), plan, angles))
        close(q, exact[0], terms[0])
        for rows, numbers, size in zip(mine.kv.rows(3), exact[1:], terms[1:], strict=True):
            assert rows.scales is not None and not rows.scales[-1].any()
            largest = numbers.abs().amax(-1)
            scales = rows.scales[mine.new_slots].double()
            assert (scales * 448 / largest - 1.004).abs().max() < 0.01
            error = (rows.read(mine.new_slots).double() - numbers).abs()
            # Half a unit of three bits, of the smallest numbers, and the rounding of the norm.
            least = largest[..., None] / 448 / 500 + size * ROUNDINGS[dtype]
            assert (error <= numbers.abs() / 14 + least).all()


def exact_rotation(
    qkv: Tensor, plan: AttentionPlan, angles: Angles | None
) -> tuple[Tensor, Tensor]:
    """One pair of numbers at a time, in float64, as a complex number. All heads, and the terms of
    each number.

    The terms of a pair's numbers are at most as large as the pair, |(a, b)|, which a rotation does
    not change.
    """
    query, kv, dim = plan.heads
    out = qkv.view(len(qkv), query + 2 * kv, dim).clone()
    for norm, part in ((plan.q_norm, slice(0, query)), (plan.k_norm, slice(query, query + kv))):
        if norm is not None:
            squares = out[:, part].square().mean(-1, keepdim=True)
            out[:, part] *= (squares + norm.eps).rsqrt() * norm.factor.double()
    terms = out.abs()
    if plan.rotary is not None and angles is not None:
        cos, sin = (part.double() for part in angles)
        pairs = plan.rotary.pairs(cos.shape[-1])
        for i in range(pairs):
            a, b = (2 * i, 2 * i + 1) if plan.rotary.interleaved else (i, i + pairs)
            turn = torch.complex(cos[:, i * plan.rotary.step], sin[:, i * plan.rotary.step])[
                :, None
            ]
            turned = torch.complex(out[:, : query + kv, a], out[:, : query + kv, b]) * turn
            out[:, : query + kv, a], out[:, : query + kv, b] = turned.real, turned.imag
            terms[:, : query + kv, a] = terms[:, : query + kv, b] = turned.abs()
    return out, terms


def backend(rows: int, heads: Heads, dtype: torch.dtype, device: str) -> TracingBackend:
    made = TracingBackend(rows, dtype, torch.device(device))
    for pool in (made.kv.keys, made.kv.values):
        pool[3] = torch.zeros(rows + 1, heads.kv, heads.dim, dtype=dtype, device=device)
    return made


def check_models(
    families: list[str], runs: tuple[int, int] = module_trace.ROWS, reduces: bool = False
) -> None:
    """The pass with a GPU's kernels in it, on models of the CPU. runs: rows of those that modules
    are matched by. reduces: with the sums of a single rank."""
    module_trace.ROWS = runs
    operations = pick_operations(torch.device("cuda"), torch.bfloat16, None)
    assert operations.skinny is not None
    fusion.pick_operations = lambda *_: operations  # type: ignore[assignment]
    for family in families:
        model = varied_model(family, num_hidden_layers=1)
        expected = {rows: own_logits(model, rows) for rows in (1, 2, 5)}
        if reduces:
            reduce_outputs(model)
        pooled = Pooled(model)
        kinds = {swap.kind for swap in pooled.fuse()}
        assert {"norm", "attention", "layer"} <= kinds, f"{family}: {kinds}"
        for rows, logits in expected.items():
            assert torch.allclose(pooled.logits(rows), logits, atol=2e-4, rtol=1e-4), (family, rows)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if sys.argv[1:] == ["models"]:
        check_models(["qwen3", "olmo2", "glm4"], (5, 2))
        check_models(["llama"], (5, 2), reduces=True)
    else:
        for kind in ROUNDINGS:
            check_norm([1, 24, 64, 100], [1, 3], kind, "cpu")
            check_add_norm([1, 24, 100], [3], kind, "cpu")
            check_gated_norm([1, 24], [2], kind, "cpu")
            check_gate([1, 24, 1030], [1, 2], kind, "cpu")
            check_quantized_rows([1, 24, 100], [3], kind, "cpu")
            if kind != torch.float16:
                check_rotate([Heads(4, 2, 16), Heads(5, 1, 24)], [2], kind, "cpu")
                check_fp8_rotation(Heads(5, 3, 24), kind, "cpu")
        check_models(["llama"])
    print("all agree")
