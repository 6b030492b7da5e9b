"""`python -m benchmarks.gpu.quantized`: quantized weights and FP8 keys and values at the shapes of
Llama 8B and 70B, compared with bfloat16 in the same run. Weights are random.

`--toy` runs small sizes on a CPU, which shows that the benchmark runs, not how fast.
"""

from __future__ import annotations

import argparse
import gc
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from ..common import Report
from . import packed
from .clock import attempt, copies, microseconds
from .few_rows import way_of
from .limits import H200_BYTES
from .playing import REPETITIONS, measure
from .quantized_model import KINDS, quantized_model, random_packed
from .results import Results
from .shapes import LLAMA_8B, TOY, Shape
from .sizes import FULL, Place
from .workloads import BASIC

LLAMA_70B = Shape(
    "Llama-70B", "llama", hidden=8192, intermediate=28672, layers=80, heads=64, kv_heads=8,
    head_dim=128, vocab=131072,
)  # fmt: skip

WORKLOADS = "decode 1", "batch 64", "batch 256", "prefill"

PRODUCTS, EXPERTS, TILINGS, LOADS, SMALL, LARGE = TABLES = (
    "products", "experts", "tilings", "loads", "8B", "70B",
)  # fmt: skip
"""Names of the tables."""

ROWS = (1, 2, 4, 16, 64, 256, 1024)
TOKENS = (1, 4, 64, 1024)
LAYER_BAR = 44.0
"""Microseconds of the products of a layer of 8B with int4 at one row."""


class Line(NamedTuple):
    """Options of an engine. kind: format of the weights; None for dense weights."""

    kind: str | None
    kv_dtype: str = "auto"

    @property
    def name(self) -> str:
        weights = self.kind or "bfloat16"
        return weights if self.kv_dtype == "auto" else f"{weights}, KV {self.kv_dtype}"


DENSE = Line(None)
LINES = (DENSE, Line("fp8"), Line("fp8", "fp8"), Line("int4"), Line("int4", "fp8"))
LINES_70B = (Line("int4"), Line("fp8"))

BARS = {
    ("int4", "decode 1"): 560.0,
    ("fp8", "decode 1"): 390.0,
    ("fp8", "batch 256"): 13_000.0,
    ("fp8, KV fp8", "batch 256"): 14_500.0,
    ("fp8", "prefill"): 50_000.0,
    ("int4", "prefill"): 36_000.0,
}
RELATIVE_BARS = {
    ("int4", "batch 64"): 1.5,
    ("fp8", "batch 64"): 1.5,
    ("int4", "batch 256"): 0.95,
}
"""Of the figure of dense weights."""

OF_PEERS = {"decode 1": 1.2}
"""Least multiple of the faster peer with the same format; 1 for other workloads."""

BARS_70B = {("int4", "decode 1"): 80.0, ("fp8", "decode 1"): 48.0}


def run() -> list[Report]:
    """All tables; toy sizes without a GPU."""
    import torch

    return list(tables(toy=not torch.cuda.is_available()))


def tables(
    toy: bool,
    only: str | None = None,
    repetitions: int = REPETITIONS,
    peers: Results | None = None,
) -> Iterator[Report]:
    """Measure the tables, or one of them. Kernels need a GPU.

    peers: figures of vLLM and SGLang for the table 8B, by `benchmarks.gpu.peers --format`.
    """
    options: dict[str, Any] = {"toy": toy, "repetitions": repetitions}
    if only in (None, PRODUCTS) and not toy:
        yield products(Place())
    if only in (None, EXPERTS) and not toy:
        yield packed.experts(Place(), FULL.mixtures | packed.GPT_OSS, TOKENS)
    if only in (None, SMALL):
        shape = replace(TOY, layers=1) if toy else LLAMA_8B
        yield served(shape, LINES, WORKLOADS, BARS, RELATIVE_BARS, peers=peers, **options)
    if only in (None, LARGE):
        shape = replace(TOY, layers=1, title=LLAMA_70B.title) if toy else LLAMA_70B
        yield served(shape, LINES_70B, ("decode 1",), BARS_70B, {}, **options)
    if only in (None, LOADS):
        yield packed.loads(TOY, "cpu") if toy else packed.loads()
    if only in (None, TILINGS) and not toy:
        yield packed.tilings(Place())


def products(place: Place, counts: Sequence[int] = ROWS) -> Report:
    """Measure the products of a layer of 8B in each format."""
    import torch

    from sgnb.engine.fusion.operations import pick_operations

    operations = pick_operations(torch.device("cuda"), torch.bfloat16, None)
    report = Report(
        "Products of a layer with packed weights, us (GPU)",
        ("format", "rows", *place.sizes.products, "layer", f"of {H200_BYTES / 1e12:.1f} TB/s"),
        bar=f"int4, one row: a layer in at most {LAYER_BAR:.0f} us",
        note="Each product with its fused parts: norm, gate, residual, rotation and KV store.",
    )
    measured = list(place.sizes.products.values())
    in_layer = [name != "logits" for name in place.sizes.products]
    for kind in (None, *KINDS):
        first = [
            place.normal(p.columns, p.size, width=p.size**-0.5)
            if kind is None
            else random_packed(kind, p.columns, p.size, place.device, p.size**-0.5)
            for p in measured
        ]
        sizes = [w.numel() * w.element_size() if kind is None else w.size for w in first]
        size = sum(compress(sizes, in_layer))
        layers = [first, *([_copy(w) for w in first] for _ in range(copies(size) - 1))]
        for rows in counts:
            ways = [way_of(place, product, rows) for product in measured]

            def multiply(weights: list[Any], ways: list[Any] = ways) -> Any:
                pairs = compress(zip(ways, weights, strict=True), in_layer)
                return [way(operations, weight) for way, weight in pairs][-1]

            name = f"{kind or 'bfloat16'}, {rows}"
            each = [
                attempt(name, place.graph, [partial(way, operations, w[i]) for w in layers])
                for i, way in enumerate(ways)
            ]
            total = attempt(name, place.graph, [partial(multiply, weights) for weights in layers])
            share = "-" if total is None else f"{size / total * 1e6 / H200_BYTES:.0%}"
            cells = [*map(microseconds, each), microseconds(total), share]
            report.rows.append((kind or "bfloat16", rows, *cells))
            print(*report.rows[-1], sep=" | ", flush=True)
            if (kind, rows) == ("int4", 1):
                report.met = total is not None and total <= LAYER_BAR
        del layers, first
    return report


def _copy(weight: Any) -> Any:
    from sgnb.engine.quantization.packed import PackedWeight

    if not isinstance(weight, PackedWeight):
        return weight.clone()
    return weight.with_parts({name: part.clone() for name, part in weight.parts().items()})


def served(
    shape: Shape,
    lines: Sequence[Line],
    workloads: Sequence[str],
    bars: dict[tuple[str, str], float],
    relative: dict[tuple[str, str], float],
    *,
    toy: bool,
    repetitions: int,
    peers: Results | None = None,
) -> Report:
    """Measure an engine for each line. The last rows have the figures of `peers`."""
    figures: dict[tuple[str, str], float] = {}
    report = Report(
        f"Quantized {shape.title}: tokens per second (GPU)" + (", toy sizes" if toy else ""),
        ("weights", *workloads, "tokens in the pool"),
    )
    for line in lines:
        found, pool = _figures(line, shape, workloads, toy, repetitions)
        figures |= {(line.name, workload): figure for workload, figure in found.items()}
        cells = [f"{found[name]:,.0f}" if name in found else "-" for name in workloads]
        report.rows.append((line.name, *cells, f"{pool:,}" if pool else "-"))
        print(*report.rows[-1], sep=" | ", flush=True)
    dense = {name: figures.get((DENSE.name, name), 0.0) for name in workloads}
    targets = bars | {key: part * dense[key[1]] for key, part in relative.items()}
    if peers:
        _compare_with_peers(report, targets, peers, workloads)
    if not toy:
        report.met = all(figures.get(key, 0.0) >= target for key, target in targets.items())
    words = [f"{name}, {workload}: {target:,.0f}" for (name, workload), target in targets.items()]
    report.bar = "at least " + "; ".join(words)
    return report


def _compare_with_peers(
    report: Report,
    targets: dict[tuple[str, str], float],
    peers: Results,
    workloads: Sequence[str],
) -> None:
    """Add a row per peer and format, and raise the targets of the format to the faster peer."""
    for system, entry in peers.systems.items():
        kind = system.partition(", ")[0]
        figures = {name: figure for name in workloads if (figure := peers.figure(system, name))}
        cells = [f"{figures[name]:,.0f}" if name in figures else "-" for name in workloads]
        report.rows.append((f"{system} {entry['version']}", *cells, "-"))
        for name, figure in figures.items():
            target = OF_PEERS.get(name, 1.0) * figure
            targets[kind, name] = max(target, targets.get((kind, name), 0.0))


def _figures(
    line: Line, shape: Shape, workloads: Sequence[str], toy: bool, repetitions: int
) -> tuple[dict[str, float], int]:
    """Return the figure of each workload that ran, and the size of the pool."""
    import torch

    from .model import random_model
    from .ours import SgnbServer, await_kernels, sgnb

    device, dtype = ("cpu", "float32") if toy else ("cuda", "bfloat16")
    found: dict[str, float] = {}
    pool = 0
    try:
        if line.kind is None:
            model = random_model(shape, device, dtype)
        else:
            model = quantized_model(shape, line.kind, device, dtype)
        with sgnb.Engine(model, device=device, kv_dtype=line.kv_dtype) as engine:
            pool = engine.pool_tokens
            await_kernels(engine)
            server = SgnbServer(engine)
            for name in workloads:
                sizes: dict[str, Any] = {"toy": toy, "repetitions": repetitions}
                result = measure(server, BASIC[name], shape.token_ids, **sizes)
                found[name] = result["figure"]
    except Exception:
        traceback.print_exc()
        print(f"{line.name}: failed", flush=True)
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU
    return found, pool


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.quantized", description=__doc__)
    parser.add_argument("--toy", action="store_true", help="small sizes, on a CPU too")
    parser.add_argument("--only", choices=TABLES, help="one of the tables")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument(
        "--measured", nargs="*", default=[], help="JSON files of peers, for the table 8B"
    )
    arguments = parser.parse_args()
    peers = Results(model=LLAMA_8B.name)
    try:
        peers.read(arguments.measured)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not torch.cuda.is_available() and not arguments.toy:
        parser.error("this needs an NVIDIA GPU; --toy shows that it runs, on a CPU too")
    for report in tables(arguments.toy, arguments.only, arguments.repetitions, peers):
        print(report.markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
