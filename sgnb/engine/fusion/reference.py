"""Operations between GEMMs in plain torch: for CPUs, and the reference of the Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ..quantization.quantize import FP8_MAX
from .types import Activation, Angles, AttentionPlan, Backend, GatedNorm, Norm, Rotary

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


def norm(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """Return RMSNorm of x [..., n], plus `residual` of equal shape, as a new tensor."""
    if x.dtype == torch.float32:
        y = F.rms_norm(x, norm.factor.shape, norm.factor, norm.eps)
    else:
        y = F.rms_norm(x.float(), norm.factor.shape, None, norm.eps)
        y = ((y.to(x.dtype) if norm.early else y) * norm.factor).to(x.dtype)
    return y if residual is None else y.add_(residual)


def add_norm(x: Tensor, y: Tensor, factors: Norm, scale: float) -> Tensor:
    """Add scale * y to x [T, n] in place. Returns RMSNorm of x as a new tensor."""
    return norm(x.add_(y, alpha=scale), factors)


def quantize_rows(x: Tensor, norm_of: Norm | None = None) -> tuple[Tensor, Tensor]:
    """Return x [T, n], normed if asked, in FP8 [T, n], and the float32 scale of each row [T, 1]."""
    numbers = (x if norm_of is None else norm(x, norm_of)).float()
    largest = numbers.abs().amax(1, keepdim=True)
    largest = torch.where(largest == 0, FP8_MAX, largest)
    return (numbers * (FP8_MAX / largest)).to(torch.float8_e4m3fn), largest / FP8_MAX


def gated_norm(x: Tensor, gate: Tensor, plan: GatedNorm) -> Tensor:
    """Return the gated RMSNorm of x [..., n] by `gate` of equal shape, as a new tensor."""
    factor, eps, early = plan.norm
    opened = F.silu(gate.float())
    numbers = x.float() * opened if plan.gate_first else x.float()
    numbers = F.rms_norm(numbers.unflatten(-1, (-1, plan.group)), (plan.group,), None, eps)
    numbers = numbers.flatten(-2)
    y = ((numbers.to(x.dtype) if early else numbers) * factor).to(x.dtype)
    return y if plan.gate_first else (y * opened).to(x.dtype)


def gate(x: Tensor, activation: Activation) -> Tensor:
    """Return activation(gate) * up, [T, n], for x [T, 2n] with gate and up side by side."""
    first, up = x.chunk(2, -1)
    return ACTIVATIONS[activation](first).mul_(up)


def rotate_and_store(
    qkv: Tensor, plan: AttentionPlan, angles: Angles | None, backend: Backend
) -> Tensor:
    """Norm and rotate the heads of qkv [T, sum of widths], and store k and v. Returns q
    [T, heads, dim].

    angles: None if the plan has no rotary embedding.
    """
    query, kv, dim = plan.heads
    heads = qkv.view(len(qkv), query + 2 * kv, dim)
    v = heads[:, query + kv :]
    if plan.q_norm is None or plan.k_norm is None:
        q, k = rotate(heads[:, : query + kv], angles, plan.rotary).split([query, kv], 1)
    else:
        q = rotate(norm(heads[:, :query], plan.q_norm), angles, plan.rotary)
        k = rotate(norm(heads[:, query : query + kv], plan.k_norm), angles, plan.rotary)
    backend.store(plan.layer, k, v)
    return q


def rotate(x: Tensor, angles: Angles | None, rotary: Rotary | None) -> Tensor:
    """Return x [T, heads, dim] rotated, as a new tensor; x itself without a rotary embedding."""
    if rotary is None or angles is None:
        return x
    pairs = rotary.pairs(angles[0].shape[-1])
    c, s = (part[:, None, : pairs * rotary.step : rotary.step] for part in angles)
    out = torch.empty_like(x) if 2 * pairs == x.shape[-1] else x.clone()
    a, b = _halves(x, pairs, rotary)
    out_a, out_b = _halves(out, pairs, rotary)
    torch.mul(a, c, out=out_a).addcmul_(b, s, value=-1)
    torch.mul(b, c, out=out_b).addcmul_(a, s)
    return out


def _halves(x: Tensor, pairs: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
    if rotary.interleaved:
        return x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return x[..., :pairs], x[..., pairs : 2 * pairs]


def activation_name(function: Callable[[Tensor], Tensor]) -> Activation | None:
    """Return the name of the activation equal to `function` on [-8, 8]."""
    x = torch.linspace(-8, 8, 401)
    with torch.inference_mode():
        y = function(x)
        same = (name for name, f in ACTIVATIONS.items() if torch.allclose(f(x), y, 1e-5, 1e-6))
        return next(same, None)
