"""Small steps through FlashInfer against plain torch: before anyone relies on kernels that were
just compiled."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..request.request import Chunk
from . import LayerOptions
from .flashinfer_backend import FlashInferAttention, LayerKind

STEPS = (
    ((40, 1), (300, 129), (70, 33), (200, 200), (9, 9)),
    ((600, 40), (100, 1), (400, 130), (33, 33)),
)
"""(tokens in all, new ones) of the requests of two steps: with and without cached tokens, of one
tile of rows and of several. Where keys and values are brought together at all, those of the first
are, and those of the second are not."""

TOLERANCE = 0.02
"""Of the largest output; bfloat16 rounds to 0.004 of a number."""


def verify(kinds: Iterable[LayerKind], dtype: torch.dtype, device: torch.device) -> None:
    """Raises ArithmeticError where FlashInfer's result is not attention; otherwise whatever
    FlashInfer raises.

    Takes milliseconds, and waits for the device.
    """
    for kind in kinds:
        error = largest_error(kind, dtype, device)
        if not error < TOLERANCE:
            raise ArithmeticError(
                f"FlashInfer is off by {error:.3g} of the largest output for {kind}"
            )


def largest_error(kind: LayerKind, dtype: torch.dtype, device: torch.device) -> float:
    """Over random queries, keys and values; relative to the largest number of the reference."""
    generator = torch.Generator(device).manual_seed(0)
    slots = max(sum(total for total, _ in lengths) for lengths in STEPS)
    kv = KVCache({0: LayerShape(kind.kv_heads, kind.dim, kind.dim)}, slots, dtype, device)
    kv.keys[0].normal_(generator=generator)
    kv.values[0].normal_(generator=generator)
    backend = FlashInferAttention(kv)
    errors = []
    for lengths in STEPS:
        chunks, free = [], np.random.default_rng(0).permutation(slots).astype(np.int32)
        for total, new in lengths:
            request: Any = SimpleNamespace(slots=free[:total])
            chunks.append(Chunk(request, total - new, new))
            free = free[total:]
        rows = sum(new for _, new in lengths)
        q = torch.randn(rows, kind.heads, kind.dim, dtype=dtype, device=device, generator=generator)
        backend.plan(chunks)
        got = torch.empty_like(q)
        backend.attend(0, q, LayerOptions(kind.scaling, kind.window, kind.softcap), got)
        expected = torch.cat(
            [_attend(q[first : first + c.length], kv, c, kind) for c, first in _with_rows(chunks)]
        )
        errors.append(float((got.float() - expected).abs().max() / expected.abs().max()))
    return max(errors)


def _with_rows(chunks: list[Chunk]) -> list[tuple[Chunk, int]]:
    firsts = np.cumsum([0, *(c.length for c in chunks[:-1])]).tolist()
    return list(zip(chunks, firsts, strict=True))


def _attend(q: Tensor, kv: KVCache, chunk: Chunk, kind: LayerKind) -> Tensor:
    """The rows of one chunk, in float32."""
    slots = torch.from_numpy(chunk.request.slots[: chunk.end].astype(np.int64)).to(q.device)
    group = kind.heads // kind.kv_heads
    k, v = (pool[0][slots].float().repeat_interleave(group, 1) for pool in (kv.keys, kv.values))
    scores = torch.einsum("rhd,thd->hrt", q.float(), k) * kind.scaling
    if kind.softcap is not None:
        scores = kind.softcap * torch.tanh(scores / kind.softcap)
    positions = torch.arange(chunk.end, device=q.device)
    back = positions[chunk.start :, None] - positions
    hidden = back < 0 if kind.window is None else (back < 0) | (back >= kind.window)
    return torch.einsum("hrt,thd->rhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)
