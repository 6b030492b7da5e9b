"""Matrix products with few rows compared with cuBLAS: the products of Llama-8B, and of one layer of
models of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ..common import Report
from .clock import attempt, microseconds, times
from .limits import H200_BYTES
from .sizes import Place, Product

Way = Callable[[Any, Any], Any]
"""(operations, weight) -> the product."""


def skinny(place: Place) -> Report:
    report = Report(
        "Products of few rows, us (GPU)",
        (
            "product",
            "rows",
            "ours",
            "GB/s",
            f"of {H200_BYTES / 1e12:.1f} TB/s",
            "cuBLAS",
            "cuBLAS / ours",
        ),
        note="Ours is what a step of these rows runs: cuBLAS too, for q, k, v from 3 rows on, the "
        "others from 17. It stands between kernels for the norm before, and after: of q, k, v the "
        "rotation and the pool, else the gate or the residual.",
    )
    for name, product in place.sizes.products.items():
        made = place.weights(product)
        size = made[0][0].numel() * made[0][0].element_size()
        for rows in place.sizes.few_rows:
            way = way_of(place, product, rows)
            ours, base = (
                attempt(
                    f"skinny, {name}, {rows}",
                    place.graph,
                    [partial(way, operations, *w) for w in made],
                )
                for operations in _both()
            )
            speed = None if ours is None else size / ours * 1e6
            shown = (
                ("-", "-")
                if speed is None
                else (f"{speed / 1e9:,.0f}", f"{speed / H200_BYTES:.0%}")
            )
            report.rows.append(
                (name, rows, microseconds(ours), *shown, microseconds(base), times(base, ours))
            )
            print(*report.rows[-1], sep=" | ", flush=True)
        del made
    return report


def layers(place: Place) -> Report:
    report = Report(
        "Products of a layer, few rows, us (GPU)",
        ("model", "rows", "ours", "cuBLAS", "cuBLAS / ours"),
        note="q, k, v; o; gate and up; down, one after the other, as in the table of products, "
        "without norms of heads. A shared expert has the last two.",
    )
    for name, model in place.sizes.models.items():
        made = place.weights(*model.values())
        for rows in place.sizes.few_rows:
            ways = [way_of(place, product, rows) for product in model.values()]

            def layer(operations: Any, own: list[Any], ways: list[Way] = ways) -> Any:
                return [way(operations, weight) for way, weight in zip(ways, own, strict=True)][-1]

            ours, base = (
                attempt(
                    f"layers, {name}, {rows}",
                    place.graph,
                    [partial(layer, operations, own) for own in made],
                )
                for operations in _both()
            )
            report.rows.append(
                (name, rows, microseconds(ours), microseconds(base), times(base, ours))
            )
            print(*report.rows[-1], sep=" | ", flush=True)
        del made
    return report


def _both() -> tuple[Any, Any]:
    """A GPU's operations for 16-bit models, and those without kernels for few rows."""
    import torch

    from sgnb.engine.fusion.operations import pick_operations

    few = pick_operations(torch.device("cuda"), torch.bfloat16, None)
    return few, replace(few, skinny=None)


def way_of(place: Place, product: Product, rows: int) -> Way:
    """Return the product of random rows with a dense or packed weight."""
    import torch

    from sgnb.engine.fusion.types import Norm
    from sgnb.engine.fusion.weights import DenseWeight, PackedWeight

    x = place.normal(rows, product.size)
    residual = place.normal(rows, product.columns) if product.added else None
    norm = (
        Norm(torch.ones(product.size, device=place.device), 1e-5, False) if product.norm else None
    )
    gated = "silu" if product.gated else None
    heads = None if product.heads is None else _heads(place, product.heads, rows)

    def through(operations: Any, matrix: Any) -> Any:
        weight = matrix if isinstance(matrix, PackedWeight) else DenseWeight(matrix)
        if heads is not None:
            return operations.project(x, weight, None, *heads, norm=norm)
        return operations.linear(x, weight, norm=norm, residual=residual, gated=gated)

    return through


def _heads(place: Place, sizes: tuple[int, int, int], rows: int) -> tuple[Any, ...]:
    """A plan of attention with Llama's rotation, angles, and a backend whose pool has room for the
    rows."""
    import torch

    from sgnb.engine.attention import LayerOptions
    from sgnb.engine.fusion.module_patterns import ROTARIES
    from sgnb.engine.fusion.module_trace import TracingBackend
    from sgnb.engine.fusion.types import AttentionPlan, Heads

    heads = Heads(*sizes)
    turns = place.normal(rows, heads.dim)
    backend = TracingBackend(rows, turns.dtype, torch.device(place.device))
    for pool in (backend.kv.keys, backend.kv.values):
        pool[0] = place.normal(rows + 1, heads.kv, heads.dim)
    return (
        AttentionPlan(0, heads, LayerOptions(1.0), ROTARIES[0], None, None),
        (turns.cos(), turns.sin()),
        backend,
    )
