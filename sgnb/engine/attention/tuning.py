"""Launch parameters of the Triton attention kernels by head geometry. Knows neither kernels nor
steps."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..cache.kv_cache import KVCache
from ..cache.kv_dtype import KVDtype
from .query_tiles import CostModel


class Launch(NamedTuple):
    """Launch parameters of a kernel."""

    block_m: int  # rows of a tile times query heads of a KV head
    block_n: int  # KV tokens of a block
    warps: int
    stages: int  # of the software pipeline
    ctas_per_sm: int = 1  # at a time


class Tuning(NamedTuple):
    """The kernels of a geometry: small and large query tiles, and prefill."""

    small: Launch
    large: Launch
    extend: Launch
    costs: CostModel = CostModel()


TUNINGS: dict[tuple[int, int], Tuning] = {
    (1, 64): Tuning(Launch(16, 64, 4, 4, 4), Launch(64, 64, 4, 3, 2), Launch(128, 64, 8, 3)),
    (1, 128): Tuning(Launch(16, 32, 4, 6, 3), Launch(64, 32, 4, 4, 2), Launch(128, 64, 8, 3)),
    (1, 256): Tuning(Launch(16, 16, 4, 3, 3), Launch(64, 16, 8, 2, 1), Launch(64, 16, 8, 2)),
    (1, 512): Tuning(Launch(16, 16, 4, 2, 1), Launch(64, 16, 8, 2, 1), Launch(64, 16, 8, 2)),
    (2, 64): Tuning(Launch(16, 64, 4, 4, 4), Launch(64, 64, 4, 3, 2), Launch(128, 128, 8, 3)),
    (2, 128): Tuning(Launch(16, 64, 4, 3, 3), Launch(64, 64, 4, 3, 2), Launch(128, 128, 8, 3)),
    (2, 256): Tuning(Launch(16, 32, 4, 3, 3), Launch(64, 32, 4, 2, 2), Launch(128, 32, 8, 2)),
    (2, 512): Tuning(Launch(16, 32, 4, 2, 1), Launch(64, 16, 8, 2, 1), Launch(64, 16, 8, 2)),
    (4, 64): Tuning(Launch(16, 32, 4, 2, 4), Launch(32, 32, 8, 2, 2), Launch(32, 32, 8, 2)),
    (4, 128): Tuning(Launch(16, 32, 4, 2, 3), Launch(32, 32, 8, 2, 2), Launch(32, 32, 8, 2)),
    (4, 256): Tuning(Launch(16, 16, 4, 2, 2), Launch(32, 16, 8, 2, 1), Launch(32, 16, 8, 2)),
    (4, 512): Tuning(Launch(16, 16, 4, 1, 1), Launch(32, 16, 8, 1, 1), Launch(32, 16, 8, 1)),
}
"""By bytes of a stored number and the larger head dimension, rounded up. (2, 128) has the best of 5
to 14 launches of each on an H200; the others are chosen by registers and shared memory. FP8 has
smaller blocks, because converted numbers take registers."""


class Geometry(NamedTuple):
    """Properties of layers that share a plan."""

    kv_heads: int
    groups: int  # query heads of a KV head
    key_dim: int
    value_dim: int


def geometry_of(kv: KVCache, layer: int, heads: int) -> Geometry:
    """Geometry of `layer` in the pool `kv`. heads: query heads. Raises ValueError if the number of
    KV heads does not divide `heads`."""
    _, kv_heads, key_dim = kv.keys[layer].shape
    if heads % kv_heads:
        raise ValueError(
            f"heads: {heads} query heads of layer {layer} cannot share "
            f"its {kv_heads} KV heads evenly"
        )
    return Geometry(kv_heads, heads // kv_heads, key_dim, kv.values[layer].shape[-1])


def tuning_of(geometry: Geometry, dtype: torch.dtype, kv_dtype: KVDtype = "auto") -> Tuning:
    """The table's entry, with tiles large enough for a row's query heads. dtype: of the queries."""
    dim = power(max(64, geometry.key_dim, geometry.value_dim))
    size = 1 if kv_dtype == "fp8" and dtype.itemsize == 2 else dtype.itemsize
    tuning = TUNINGS[size, min(dim, 512)]
    least = 1 << (geometry.groups - 1).bit_length()
    small, large, extend = (kind._replace(block_m=max(kind.block_m, least)) for kind in tuning[:3])
    return Tuning(small, large, extend, tuning.costs)


def power(n: int) -> int:
    """Smallest power of two >= max(n, 16), the minimum of matrix products."""
    return 1 << (max(16, n) - 1).bit_length()
