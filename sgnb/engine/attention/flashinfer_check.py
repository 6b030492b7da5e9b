"""Check of newly compiled FlashInfer kernels: small steps compared with plain torch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..cache.radix import Ints
from ..step_input import NO_KEY, AttentionInput
from .flashinfer_backend import FlashInferAttention, LayerKind
from .protocol import LayerOptions

STEPS = (
    ((40, 1), (300, 129), (70, 33), (200, 200), (9, 9)),
    ((600, 40), (100, 1), (400, 130), (33, 33)),
)
"""(total tokens, new tokens) of the requests of two steps: with and without cached tokens, of one
and of several row tiles. KV of the first step is gathered if gathering is enabled; KV of the second
step is not."""

TOLERANCE = 0.02
"""Maximum error relative to the largest output; bfloat16 rounds to 0.004 of a number."""


def verify(kinds: Iterable[LayerKind], dtype: torch.dtype, device: torch.device) -> None:
    """Compare FlashInfer with plain torch for `kinds` of layers with `dtype` on `device`.

    Takes milliseconds, and waits for the device.

    Raises:
        ArithmeticError: FlashInfer's result is wrong. Errors of FlashInfer also propagate.
    """
    for kind in kinds:
        error = largest_error(kind, dtype, device)
        if not error < TOLERANCE:
            raise ArithmeticError(
                f"FlashInfer is off by {error:.3g} of the largest output for {kind}"
            )


def largest_error(kind: LayerKind, dtype: torch.dtype, device: torch.device) -> float:
    """Largest error of `kind` for random q, k and v, relative to the largest reference output."""
    generator = torch.Generator(device).manual_seed(0)
    slots = max(sum(total for total, _ in lengths) for lengths in STEPS)

    kv = KVCache({0: LayerShape(kind.kv_heads, kind.dim, kind.dim)}, slots, dtype, device)
    kv.keys[0].normal_(generator=generator)
    kv.values[0].normal_(generator=generator)
    backend = FlashInferAttention(kv)

    errors = []
    for lengths in STEPS:
        totals, new = np.array(lengths).T
        order = np.random.default_rng(0).permutation(slots).astype(np.int32)
        spans = np.split(order[: totals.sum()], totals.cumsum()[:-1])
        new_slots = [slots[-count:] for slots, count in zip(spans, new.tolist(), strict=True)]
        step = AttentionInput(
            starts=totals - new,
            lengths=new,
            new_slots=np.concatenate(new_slots),
            kv_slots=spans,
            keys=[NO_KEY] * len(spans),
        )
        shape = step.num_tokens, kind.heads, kind.dim
        q = torch.randn(shape, dtype=dtype, device=device, generator=generator)
        backend.plan(step)
        got = torch.empty_like(q)
        backend.attend(0, q, LayerOptions(kind.scaling, kind.window, kind.softcap), got)
        rows = zip(q.split(new.tolist()), spans, strict=True)
        expected = torch.cat([_attend(queries, kv, kv_slots, kind) for queries, kv_slots in rows])
        errors.append(float((got.float() - expected).abs().max() / expected.abs().max()))

    return max(errors)


def _attend(q: Tensor, kv: KVCache, slots: Ints, kind: LayerKind) -> Tensor:
    """Attention of the last rows of a request with KV in `slots`, in float32."""
    index = torch.from_numpy(slots.astype(np.int64)).to(q.device)
    group = kind.heads // kind.kv_heads
    k, v = (pool[0][index].float().repeat_interleave(group, 1) for pool in (kv.keys, kv.values))
    scores = torch.einsum("rhd,thd->hrt", q.float(), k) * kind.scaling
    if kind.softcap is not None:
        scores = kind.softcap * torch.tanh(scores / kind.softcap)
    positions = torch.arange(len(slots), device=q.device)
    back = positions[-len(q) :, None] - positions
    hidden = back < 0 if kind.window is None else (back < 0) | (back >= kind.window)
    return torch.einsum("hrt,thd->rhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)
