"""Kernels of packed weights on a GPU: mixtures of experts, tilings of products on tensor cores, and
loads that quantize."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from ..common import Report
from .clock import attempt, copies, microseconds
from .loading import SHARD, load_seconds
from .model import random_model
from .quantized_model import KINDS, random_packed
from .shapes import LLAMA_8B, Shape
from .sizes import Mixture, Place, Product

GPT_OSS = {"gpt-oss 20b": Mixture(32, 4, 2880, 2880)}
ROUTES = 8
"""Routes of an experts layer, in turns: a call finds no cached weights."""

TILED_ROWS = (1, 4, 16, 64, 256)
SUMS = tuple(
    (columns, block, block // share, unroll)
    for columns in (2, 4, 8)
    for block in (512, 1024, 2048)
    for share in (256, 512)
    for unroll in (1, 2)
)
"""Columns, inputs, warps and unrolling of tilings without tensor cores to try."""

TILES = {
    16: ((32, 2, 4), (32, 4, 4), (64, 4, 4), (64, 4, 6), (64, 4, 8), (128, 4, 4), (128, 8, 4)),
    64: ((32, 2, 4), (32, 4, 4), (64, 4, 3), (64, 4, 5), (64, 8, 4), (128, 4, 3), (128, 8, 3)),
    128: ((64, 4, 3), (64, 8, 3), (64, 8, 4), (128, 8, 3)),
    256: ((64, 8, 2), (64, 8, 3), (128, 8, 2)),
}
"""Rows of a tile -> columns, warps and stages of tilings to try."""

MOST_SECONDS, MOST_BYTES = 3.0, 2e9
"""Bars of a load with `quantize`: added time, and peak memory above the packed model."""


def experts(place: Place, mixtures: dict[str, Mixture], tokens: tuple[int, ...]) -> Report:
    """Measure mixtures of dense and of packed experts."""
    report = Report(
        "Mixtures of packed experts, us (GPU)",
        ("model", "format", *(f"{count} tokens" for count in tokens), "GB/s at the first"),
        note="GB/s: distinct weights that are read, in their format.",
    )
    for name, mixture in mixtures.items():
        for kind in (None, *KINDS):
            weights = [
                _matrices(place, kind, mixture.experts, 2 * mixture.inner, mixture.hidden),
                _matrices(place, kind, mixture.experts, mixture.hidden, mixture.inner),
            ]
            found = [_experts_time(place, name, mixture, weights, count) for count in tokens]
            touched = min(1.0, tokens[0] * mixture.choices / mixture.experts)
            size = sum(weight.size for weight in weights) * touched
            speed = "-" if found[0] is None else f"{size / found[0] / 1e3:,.0f}"
            report.rows.append((name, kind or place.dtype, *map(microseconds, found), speed))
            print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _matrices(place: Place, kind: str | None, experts: int, rows: int, columns: int) -> Any:
    """Return random matrices [E, N, K]."""
    from sgnb.engine.fusion.weights import DenseWeight

    width = columns**-0.5
    if kind is None:
        return DenseWeight(place.normal(experts, rows, columns, width=width))
    flat = random_packed(kind, experts * rows, columns, place.device, width)
    return flat.with_parts(
        {name: t.unflatten(0, (experts, -1)) for name, t in flat.parts().items()}
    )


def _experts_time(
    place: Place, name: str, mixture: Mixture, weights: list[Any], tokens: int
) -> float | None:
    import torch

    from sgnb.engine.fusion.moe import fused_experts

    x = place.normal(tokens, mixture.hidden)
    scores = torch.rand(ROUTES, tokens, mixture.experts, device=place.device).softmax(-1)
    calls = [
        partial(fused_experts, x, *weights, route.indices, route.values, "silu")
        for route in (score.topk(mixture.choices, -1) for score in scores)
    ]
    return attempt(f"experts, {name}, {tokens}", place.graph, calls)


def tilings(place: Place, rows: tuple[int, ...] = TILED_ROWS) -> Report:
    """Time tilings of products, for a choice in `fusion.skinny.pick_sums` and `pick_dots`."""
    from sgnb.engine.device.precompile import precompiling

    report = Report(
        "Tilings of packed weights, us (GPU)",
        ("format", "product", "rows", "chosen", "best", "best tiling", "the next two"),
        note="Without the norm. A tiling: columns, inputs, warps, stages, unrolled, and its rows; "
        "rows 0: without tensor cores.",
    )
    for kind in KINDS:
        for name, product in place.sizes.products.items():
            weight = random_packed(kind, product.columns, product.size, place.device, 0.02)
            weights = [weight, *(_copy(weight) for _ in range(copies(weight.size) - 1))]
            for count in rows:
                calls = _tiled_calls(place, product, weights, count)
                with precompiling():
                    for some in calls.values():
                        some[0]()
                timed = {
                    t: attempt(f"{kind}, {name}, {t}", place.graph, c) for t, c in calls.items()
                }
                own = timed.pop(None)
                done = {tiling: time for tiling, time in timed.items() if time is not None}
                order: list[Any] = sorted(done, key=lambda tiling: done[tiling])[:3]
                words = [" ".join(map(str, tiling[1:])) for tiling in order]
                others = ", ".join(
                    f"{word}: {done[tiling]:.1f}"
                    for word, tiling in zip(words[1:], order[1:], strict=True)
                )
                best = microseconds(done[order[0]]) if order else "-"
                cells = microseconds(own), best, words[0] if words else "-", others
                report.rows.append((kind, name, count, *cells))
                print(*report.rows[-1], sep=" | ", flush=True)
            del weights
    return report


def _tiled_calls(
    place: Place, product: Product, weights: list[Any], rows: int
) -> dict[Any, list[Any]]:
    """Return the calls for each tiling, and for the choice of `skinny` under None."""
    from sgnb.engine.fusion.kernel_weights import DOT_CODES, PLACE_COLUMNS, dot_block
    from sgnb.engine.fusion.skinny import PACKED_ROWS, SkinnyTiling, skinny_linear

    x = place.normal(rows, product.size)
    residual = place.normal(rows, product.columns) if product.added else None
    gated = "silu" if product.gated else None
    narrow = DOT_CODES[weights[0].kind] * PLACE_COLUMNS <= 64
    blocks = {dot_block(weights[0]), *([64] if narrow else [])}
    heights = [128, 256] if rows > 128 else [min(h for h in TILES if rows <= h)]
    chosen: list[Any] = [
        SkinnyTiling(True, columns, block, warps, stages, block_t=height)
        for height in heights
        for columns, warps, stages in TILES[height]
        for block in sorted(blocks)
    ]
    if rows <= max(PACKED_ROWS.values()):
        chosen += [SkinnyTiling(False, *sums[:3], 1, sums[3]) for sums in SUMS]
    return {
        tiling: [
            partial(skinny_linear, x, weight, residual=residual, gated=gated, tiling=tiling)
            for weight in weights
        ]
        for tiling in (None, *chosen)
    }


def _copy(weight: Any) -> Any:
    return weight.with_parts({name: part.clone() for name, part in weight.parts().items()})


def loads(shape: Shape = LLAMA_8B, device: str = "cuda") -> Report:
    """Measure loads of a bfloat16 checkpoint with and without `quantize`."""
    import torch

    from sgnb.engine.model.loading import load_module

    gpu = device == "cuda"
    report = Report(
        f"Loads of {shape.title} that quantize ({'GPU' if gpu else 'CPU, toy size'})",
        ("quantize", "seconds", "added", "model, GB", "peak above, GB"),
        bar=f"at most {MOST_SECONDS:.0f} s and {MOST_BYTES / 1e9:.0f} GB more",
        note="Files in the page cache; of three times the best.",
    )
    dense, met = 0.0, True
    place = torch.device(device, torch.cuda.current_device()) if gpu else torch.device(device)
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(shape, device, "bfloat16").cpu()
        model.save_pretrained(Path(folder), max_shard_size=SHARD)
        del model
        for name in (None, "fp8", "int4"):
            load = partial(load_module, folder, place, torch.bfloat16, quantize=name)
            took = min(load_seconds(load) for _ in range(3))
            dense = took if name is None else dense
            size, peak = _memory(load) if gpu else (0, 0)
            if name is not None:
                met &= took - dense <= MOST_SECONDS and peak <= MOST_BYTES
            cells = f"{took:.2f}", f"{took - dense:+.2f}", f"{size / 1e9:.2f}", f"{peak / 1e9:.2f}"
            report.rows.append((name or "no", *cells))
            print(*report.rows[-1], sep=" | ", flush=True)
    report.met = met if gpu else None
    return report


def _memory(load: Any) -> tuple[int, int]:
    """Return the bytes of the loaded model, and the peak of the load above them."""
    import torch

    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model = load()
    torch.cuda.synchronize()
    size = torch.cuda.memory_allocated() - before
    del model
    return size, torch.cuda.max_memory_allocated() - before - size
