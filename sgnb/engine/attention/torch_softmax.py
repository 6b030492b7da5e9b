"""Attention of a few rows to a few slots with log-sum-exps, in plain torch. Knows no pool and no
requests.

On a CPU, torch's fused kernel computes supported cases. Otherwise the score matrix is materialized
for a group of rows at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .protocol import LayerOptions

SCORE_ELEMENTS = 1 << 24
"""Maximum number of elements of a score matrix in the slow path."""

_flash_attention_for_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
"""CPU kernel of `scaled_dot_product_attention`, called directly for the log-sum-exp."""


class Mask(NamedTuple):
    """Visibility of a task's KV per row."""

    add: Tensor | None = None  # float[N, 1, T, L], added to scores; None: every row sees all
    # bool[N, 1, T], rows without visible tokens; None without blind rows
    blind: Tensor | None = None
    causal: bool = False  # T equals L, and the triangle is the whole mask: no `add`


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, options: LayerOptions
) -> tuple[Tensor, Tensor]:
    """Attention with its log-sum-exp: q [N, H, T, dim], k and v [N, H, L, dim].

    Returns [N, H, T, v's dim] and float32 [N, H, T]; a row that sees nothing gives zeros and minus
    infinity.
    """
    if options.softcap is not None or q.device.type != "cpu" or q.shape[-1] != v.shape[-1]:
        return attend_slowly(q, k, v, mask, options)
    out, lse = _flash_attention_for_cpu(
        q, k, v, 0.0, mask.causal, attn_mask=mask.add, scale=options.scaling
    )
    return out, lse if mask.blind is None else lse.masked_fill(mask.blind, -torch.inf)


def attend_slowly(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, options: LayerOptions
) -> tuple[Tensor, Tensor]:
    """`attend` with the scores written out, a stretch of rows at a time."""
    n, heads, t, _ = q.shape
    length = k.shape[2]
    stride = max(1, SCORE_ELEMENTS // (n * heads * length))
    parts = []

    for first in range(0, t, stride):
        scores = (q[:, :, first : first + stride] @ k.transpose(2, 3)).float() * options.scaling
        if options.softcap is not None:
            scores = options.softcap * torch.tanh(scores / options.softcap)
        if mask.causal:
            last = torch.arange(first, first + scores.shape[2], device=q.device)
            scores.masked_fill_(torch.arange(length, device=q.device) > last[:, None], -torch.inf)
        elif mask.add is not None:
            scores = scores + mask.add[:, :, first : first + stride]
        lse = scores.logsumexp(-1)
        weights = torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[..., None])
        parts.append((weights.to(v.dtype) @ v, lse))
    return torch.cat([out for out, _ in parts], 2), torch.cat([lse for _, lse in parts], 2)
