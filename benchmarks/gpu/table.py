"""The table of all systems beside the limits and the bars. Pure: figures in, rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..common import Report
from .limits import H200_BYTES, H200_OPERATIONS, limit_seconds
from .more_workloads import WORKLOADS
from .naming import NAMES
from .ready import READY
from .results import Results
from .shapes import LLAMA_8B, QWEN3_06B, Shape


class Bar(NamedTuple):
    """Results of peers on one H200 in bf16, and targets.

    `times`: target as a multiple of the better peer in the same run.
    """

    sglang: float | None = None
    vllm: float | None = None
    reach: float | None = None
    times: float | None = None


KNOWN_VERSIONS = {"sglang": "0.5.11", "vllm": "0.20.0"}
BARS: dict[str, dict[str, Bar]] = {
    LLAMA_8B.name: {
        "decode 1": Bar(204, 201, 240),
        "batch 256": Bar(9945, 9698, 11500),
        "prefill": Bar(34900, 38100, 42000),
        "few-shot": Bar(248, 292, 330),
        "tree of thought": Bar(14100, 15300, 26000),
        "mixed lengths": Bar(3482, 3692, 4000),
        "chat": Bar(4320, 4340, 5200),
        "JSON, 128 requests": Bar(times=75 / 37.0),
        "JSON, one at a time": Bar(times=1.30 / 0.65),
        READY: Bar(115, 59, 10),
    },
    QWEN3_06B.name: {
        "decode 1": Bar(vllm=614, reach=1200),
        "batch 256": Bar(vllm=29925, reach=33000),
        "tree of thought": Bar(vllm=20571, reach=65000),
        "mixed lengths": Bar(vllm=13894, reach=15500),
    },
}
"""By the shape's name; there is none of the other shapes."""

COLUMNS = (
    "workload", "unit", "sgnb", "SGLang", "vLLM", "times the better peer", "limit",
    "share of the limit", "to reach", "met", "MHz",
)  # fmt: skip
JUDGED = COLUMNS.index("met")


def make_table(results: Results, *, toy: bool = False, shape: Shape = LLAMA_8B) -> Report:
    """A row for each workload that any system was measured on. Peers' figures of an earlier day are
    marked with *. toy: of small sizes, which have neither bars nor limits."""
    names = [name for name in (*WORKLOADS, READY) if _measured(results, name)]
    bars = {} if toy else BARS.get(shape.name, {})
    rows = [_row(name, results, bars.get(name), toy, shape) for name in names]
    judged = [row[JUDGED] for row in rows if row[JUDGED]]
    return Report(
        f"Serving, {shape.title} (GPU)" + (", toy sizes" if toy else ""),
        COLUMNS,
        rows,
        bar="the column `to reach`",
        met=all(verdict == "yes" for verdict in judged) if judged else None,
        note=_note(results, command(shape, names, toy), _earlier(names, bars)),
    )


def _measured(results: Results, name: str) -> bool:
    return any(results.figure(system, name) for system in results.systems)


def _note(results: Results, made_by: str, earlier: str) -> str:
    """How it was made, and what the columns mean."""
    versions = ", ".join(f"{name} {entry['version']}" for name, entry in results.systems.items())
    return (
        f"`{made_by}`. Measured: {versions}. {earlier}Random "
        "weights and token ids, greedy. Median of the repetitions after a warm-up; the prefix "
        "cache is flushed before each, and each JSON run has a schema that was never compiled "
        "before, which counts. The better of two ways to hand the requests to a peer: as those "
        "before them end, or level by level. MHz: the GPU's median clock while sgnb ran; it falls "
        "with heat and power. "
        f"Limits: {H200_BYTES / 1e12:g} TB/s, {H200_OPERATIONS / 1e12:g} TFLOP/s."
    )


def command(shape: Shape, names: Sequence[str], toy: bool = False) -> str:
    """What measures these workloads at this shape."""
    only = "" if set(names) == set(NAMES) else f' --only "{"; ".join(names)}"'
    return f"python -m benchmarks.gpu.serving --shape {shape.name}{only}{' --toy' * toy}"


def _earlier(names: Sequence[str], bars: Mapping[str, Bar]) -> str:
    """Return the sources of figures that replace missing figures of a peer, or ""."""
    known = [bars[name] for name in names if name in bars]
    peers = [peer for peer in KNOWN_VERSIONS if any(getattr(bar, peer) for bar in known)]
    if not peers:
        return ""
    versions = ", ".join(f"{peer} {KNOWN_VERSIONS[peer]}" for peer in peers)
    schemas = ", whose JSON schema was another one: there the bar is that run's ratio"
    ratios = schemas if any(bar.times for bar in known) else ""
    return f"*: an earlier run on one H200 with {versions}{ratios}. "


def _row(name: str, results: Results, bar: Bar | None, toy: bool, shape: Shape) -> tuple[str, ...]:
    unit = "s" if name == READY else WORKLOADS[name].make(0, shape.token_ids, toy).unit
    ours = results.figure("sgnb", name)
    measured = {peer: results.figure(peer, name) for peer in KNOWN_VERSIONS}
    peers = {
        peer: figure or (getattr(bar, peer) if bar else None) for peer, figure in measured.items()
    }
    there = [figure for figure in peers.values() if figure]
    better = (min if unit == "s" else max)(there) if there else None
    limit = None if toy else limit_figure(name, shape)
    reach = _reach(bar, better, unit)
    return (
        name,
        unit,
        number(ours),
        *(
            number(figure) + ("*" if figure and not measured[peer] else "")
            for peer, figure in peers.items()
        ),
        f"{_ratio(ours, better, unit):.2f}" if ours and better else "",
        number(limit),
        f"{ours / limit:.0%}" if ours and limit else "",
        number(reach),
        "" if not reach or not ours else "yes" if _ratio(ours, reach, unit) >= 1 else "NO",
        number(results.value("sgnb", name, "mhz")),
    )


def _reach(bar: Bar | None, better: float | None, unit: str) -> float | None:
    """The figure to reach, where there is one."""
    if bar is None or bar.times is None:
        return bar.reach if bar else None
    if better is None:
        return None
    return better / bar.times if unit == "s" else better * bar.times


def limit_figure(name: str, shape: Shape = LLAMA_8B) -> float | None:
    """Return the figure at the hardware limit; None if unknown, or if smaller is better."""
    if name == READY:
        return None
    workload = WORKLOADS[name].make(0, shape.token_ids)
    seconds = limit_seconds(workload, shape)
    return None if seconds is None or workload.unit == "s" else workload.figure(seconds)


def _ratio(ours: float, other: float, unit: str) -> float:
    """How many times better ours is."""
    return other / ours if unit == "s" else ours / other


def number(value: float | None) -> str:
    """Three or four digits, no more."""
    if not value:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
