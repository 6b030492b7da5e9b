"""`python -m benchmarks.gpu.kernels [--only PART,...]`: single kernels against what they take the
place of.

experts: mixtures of experts against transformers' grouped product and its loop. invariant: products
whose rows do not feel each other against cuBLAS, the price of deterministic mode. skinny, layers:
products of few rows against cuBLAS. sampling: against torch and, where it can be imported,
FlashInfer. loading: reading a checkpoint, against transformers. All but loading need an NVIDIA GPU;
times are those of bfloat16 with cold caches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from ..common import Report
from . import loading
from .clock import Clock, attempt, copies, microseconds, times
from .few_rows import layers, skinny
from .limits import H200_BYTES
from .sizes import MOST_LOGITS, Mixture, Place


def experts(place: Place) -> Report:
    report = Report(
        "Mixtures of experts, us (GPU)",
        ("model", "tokens", "ours", "ours, deterministic", "GB/s", "grouped_mm, graph",
         "grouped_mm, launched", "loop, launched", "grouped_mm, graph / ours",
         "deterministic / ours"),
        note="GB/s: distinct weights that ours reads. "
        "The loop reads the device, and is in no graph.",
    )  # fmt: skip
    for name, mixture in place.sizes.mixtures.items():
        module = _experts_module(place, mixture)
        for tokens in place.sizes.tokens:
            report.rows.append(
                (name, tokens, *_experts_row(place, f"{name}, {tokens}", module, mixture, tokens))
            )
            print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _experts_module(place: Place, mixture: Mixture) -> Any:
    import torch
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    config = SimpleNamespace(
        num_local_experts=mixture.experts, hidden_size=mixture.hidden,
        intermediate_size=mixture.inner, hidden_act="silu", _experts_implementation="eager",
    )  # fmt: skip
    with torch.device("meta"):
        module = MixtralExperts(config)  # type: ignore[arg-type]
    module = module.to(getattr(torch, place.dtype)).to_empty(device=place.device)
    for parameter in module.parameters():
        parameter.data.normal_(std=parameter.shape[-1] ** -0.5)
    return module.eval()


def _experts_row(
    place: Place, name: str, module: Any, mixture: Mixture, tokens: int
) -> tuple[str, ...]:
    """Use different routes in each call, so that no call finds cached expert weights."""
    import torch

    from sgnb.engine.fusion.moe import FusedExperts

    x = place.normal(tokens, mixture.hidden)
    scores = [
        torch.rand(tokens, mixture.experts, device=place.device).softmax(-1) for _ in range(8)
    ]
    routes = [score.topk(mixture.choices, -1) for score in scores]

    def measure(way: str, clock: Clock, forward: Any) -> float | None:
        calls = [partial(forward, x, route.indices, route.values) for route in routes]
        return attempt(f"experts, {name}, {way}", clock, calls)

    def measure_own(implementation: str, clock: Clock) -> float | None:
        module.config._experts_implementation = implementation
        return measure(implementation, clock, module)

    fast, even = (
        measure(
            "ours", place.graph, FusedExperts(module, "silu", batch_invariant=invariant).forward
        )
        for invariant in (False, True)
    )
    grouped, launched = (measure_own("grouped_mm", clock) for clock in (place.graph, place.eager))
    loop = measure_own("eager", place.eager)
    touched = sum(len(r.indices.unique()) for r in routes) / len(routes)
    size = touched * 3 * mixture.hidden * mixture.inner * x.element_size()
    speed = "-" if fast is None else f"{size / fast / 1e3:,.0f}"
    shown = [microseconds(value) for value in (grouped, launched, loop)]
    return (
        microseconds(fast),
        microseconds(even),
        speed,
        *shown,
        times(grouped, fast),
        times(even, fast),
    )


def invariant(place: Place) -> Report:
    """The last rows, for each number of rows: all products of a layer together."""
    import torch.nn.functional as F

    from sgnb.engine.fusion.invariant import invariant_linear

    report = Report(
        "Batch-invariant products, us (GPU)",
        ("product", "rows", "invariant", "cuBLAS", "invariant / cuBLAS"),
        note="The price of deterministic mode, product by product; a layer is all but the logits.",
    )
    whole: dict[int, list[tuple[float | None, float | None]]] = {
        rows: [] for rows in place.sizes.rows
    }
    for name, product in place.sizes.products.items():
        weights = [weight for (weight,) in place.weights(product)]
        for rows in place.sizes.rows:
            if rows * product.columns > MOST_LOGITS and name == "logits":
                continue
            x = place.normal(rows, product.size)
            ours, base = (
                attempt(
                    f"invariant, {name}, {rows}",
                    place.graph,
                    [partial(linear, x, weight) for weight in weights],
                )
                for linear in (invariant_linear, F.linear)
            )
            if name != "logits":
                whole[rows].append((ours, base))
            report.rows.append(
                (name, rows, microseconds(ours), microseconds(base), times(ours, base))
            )
            print(*report.rows[-1], sep=" | ", flush=True)
        del weights
    for rows, found in whole.items():
        ours, base = (_sum(values) for values in zip(*found, strict=True))
        report.rows.append(
            ("a layer", rows, microseconds(ours), microseconds(base), times(ours, base))
        )
    return report


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sampling(place: Place) -> Report:
    report = Report(
        "From logits to tokens, us (GPU)",
        ("rows", "ours", "ours, greedy", f"of {H200_BYTES / 1e12:.1f} TB/s", "torch",
         "torch, greedy", "FlashInfer", "torch / ours", "FlashInfer / ours"),
        note="Ours gives log-probabilities too. torch: softmax and multinomial; argmax. "
        "FlashInfer: softmax and sampling_from_probs.",
    )  # fmt: skip
    for rows in place.sizes.sampled:
        report.rows.append((rows, *_sampling_row(place, rows)))
        print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _sampling_row(place: Place, rows: int) -> tuple[str, ...]:
    import torch

    from sgnb.engine.sampling.sample_kernel import DeviceSampler

    vocab = place.sizes.vocab
    first = place.normal(rows, vocab, width=3.0)
    size = first.numel() * first.element_size()
    logits = [first, *(first.clone() for _ in range(copies(size) - 1))]
    sampler, draws = DeviceSampler(vocab, rows, place.device), torch.rand(rows, device=place.device)
    one, greedy = (torch.full((rows,), t, device=place.device) for t in (1.0, 0.0))
    ways: dict[str, Callable[[Any], Any]] = {
        "ours": lambda x: sampler(x, one, draws),
        "ours, greedy": lambda x: sampler(x, greedy, draws),
        "torch": lambda x: torch.multinomial(x.float().softmax(-1), 1),
        "torch, greedy": lambda x: x.argmax(-1),
    }
    try:
        from flashinfer import sampling as peer

        ways["FlashInfer"] = lambda x: peer.sampling_from_probs(torch.softmax(x.float(), -1))
    except Exception as error:  # its import compiles, reads and looks for much
        print(f"sampling, {rows}: no FlashInfer: {type(error).__name__}", flush=True)
    found = {
        name: attempt(f"sampling, {rows}, {name}", place.graph, [partial(way, x) for x in logits])
        for name, way in ways.items()
    }
    ours, peers = found["ours"], found.get("FlashInfer")
    share = "-" if ours is None else f"{size / ours * 1e6 / H200_BYTES:.0%}"
    return (
        microseconds(ours), microseconds(found["ours, greedy"]), share,
        microseconds(found["torch"]), microseconds(found["torch, greedy"]), microseconds(peers),
        times(found["torch"], ours), times(peers, ours),
    )  # fmt: skip


KERNELS: dict[str, Callable[[Place], Report]] = {
    "experts": experts,
    "invariant": invariant,
    "skinny": skinny,
    "layers": layers,
    "sampling": sampling,
}
LOADING = "loading"
PARTS = (*KERNELS, LOADING)


def measure(part: str) -> Report:
    """Return the table of a part. A failure gives an empty table with a message, and the next part
    runs."""
    import torch

    gpu = torch.cuda.is_available()
    if part in KERNELS and not gpu:
        return Report(part, ("part", "state"), [(part, "not run")], note="Needs an NVIDIA GPU.")
    try:
        if part == LOADING:
            return loading.run()
        with torch.inference_mode():
            return KERNELS[part](Place())
    except Exception as error:
        return Report(part, ("part", "state"), [(part, f"failed: {type(error).__name__}: {error}")])
    finally:
        if gpu:
            torch.cuda.empty_cache()


def run() -> list[Report]:
    """The tables of all parts."""
    return [measure(part) for part in PARTS]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.kernels", description=__doc__)
    parser.add_argument("--only", help="with commas between: " + ", ".join(PARTS))
    only = parser.parse_args(arguments).only
    parts = only.split(",") if only else list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"no {part!r}; there are {', '.join(PARTS)}")
    for part in parts:
        print(measure(part).markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
