"""Decode of one token of a single request in plain torch, with few operations."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..cache.kv_cache import KVRows
from .protocol import LayerOptions
from .torch_softmax import Mask, attend

MOST_RUNS = 8
"""Maximum number of runs of consecutive slots to concatenate instead of gathering each slot."""


class Solo(NamedTuple):
    """A single token of a single request, the most frequent step of a notebook."""

    slots: Tensor  # int64[L]
    runs: list[tuple[int, int]]  # slots as (first, length) of consecutive runs, or empty

    def read(self, rows: KVRows, window: int | None) -> Tensor:
        """[1, heads, L, dim] of the visible slots."""
        if self.runs:
            parts = [rows.read(run) for run in self.runs]
            visible = parts[0] if len(parts) == 1 else torch.cat(parts)
        else:
            visible = rows.read(self.slots)
        if window is not None and window < len(visible):
            visible = visible[-window:]
        return visible.transpose(0, 1)[None]


def decode_solo(
    solo: Solo, q: Tensor, pools: tuple[KVRows, KVRows], options: LayerOptions
) -> Tensor:
    """Decode without mask and merge, for few operations."""
    k, v = (solo.read(pool, options.window) for pool in pools)
    if options.softcap is None and options.sinks is None:
        out = F.scaled_dot_product_attention(
            q[:, :, None], k, v, scale=options.scaling, enable_gqa=True
        )
        return out[:, :, 0]
    heads = q.shape[1]
    out, lse = attend(q.reshape(1, k.shape[1], -1, q.shape[-1]), k, v, Mask(), options)
    return with_sinks(out.reshape(1, heads, -1), lse.reshape(1, heads), options.sinks)


def with_sinks(out: Tensor, lse: Tensor, sinks: Tensor | None) -> Tensor:
    return (
        out if sinks is None else out * torch.sigmoid(lse - sinks.float())[..., None].to(out.dtype)
    )


def runs_of(slots: np.ndarray) -> list[tuple[int, int]]:
    """Runs of consecutive slots; empty if gathering slot by slot is cheaper."""
    starts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(slots)]
    if len(starts) > MOST_RUNS + 1:
        return []
    return [(int(slots[i]), j - i) for i, j in itertools.pairwise(starts)]


def consecutive(slots: np.ndarray) -> tuple[int, int] | None:
    """(first, length) when all slots are one run."""
    runs = runs_of(slots)
    return runs[0] if len(runs) == 1 else None
