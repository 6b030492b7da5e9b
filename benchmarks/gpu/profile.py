"""`python -m benchmarks.gpu.profile [--only WORKLOAD;...]`: where the GPU's time goes in a
workload, from a profiler's trace: by kinds of kernels, and the kernels that take longest. The
profiler itself costs a little."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..common import Report
from .gaps import Piece, device_work, idle_of
from .playing import WARM_UP_SEED, play
from .shapes import LLAMA_8B
from .workloads import BASIC

KINDS = {
    "attention": r"attend_tiles|extend_tiles|merge_states|store_rows|flashinfer",
    "products": r"gemm|nvjet|cutlass|xmma|cublas|splitK"
    r"|linear_kernel|project_kernel|grouped_kernel",
    "norms, rotary, activations": r"_norm_kernel|_gate_kernel|_rotate_and_store_kernel",
    "choosing": r"_sum_blocks|_pass|_choose|allow|advance|_resume",
    "copies": r"Memcpy|Memset",
}
"""Patterns of kernels' names; the first kind that has one of them."""

OTHER = "other"
LONGEST = 4
"""So many kernels are named."""


def run() -> Report:
    return measure(list(BASIC))


def measure(names: Sequence[str]) -> Report:
    """Profile all workloads on one engine, and JSON on an engine with the large tokenizer. Needs an
    NVIDIA GPU."""
    import torch

    from .model import random_model
    from .ours import SgnbServer, await_kernels, no_compiled_grammars, sgnb
    from .serving import make_tokenizer

    kinds = [*KINDS, OTHER]
    report = Report(
        "Where the GPU's time goes",
        ("workload", "ms", *kinds, "idle", "longest kernels, ms (calls)"),
    )
    if not torch.cuda.is_available():
        report.note = "Needs an NVIDIA GPU."
        return report
    tokenizer = (
        make_tokenizer(toy=False) if any(name.startswith("JSON") for name in names) else None
    )
    model = random_model(LLAMA_8B, "cuda")
    with no_compiled_grammars(), sgnb.Engine(model, tokenizer=tokenizer) as engine:
        await_kernels(engine)
        server = SgnbServer(engine)
        for name in names:
            pieces = _trace(server, name)
            report.rows.append((name, *shares(pieces), longest(pieces)))
            print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _trace(server: Any, name: str) -> list[Piece]:
    """Return the kernels of a run after a warm-up run."""
    from torch.profiler import ProfilerActivity, profile

    play(server, BASIC[name].make(WARM_UP_SEED, LLAMA_8B.vocab))
    workload = BASIC[name].make(0, LLAMA_8B.vocab)
    server.flush()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        play(server, workload)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return device_work(path)


def shares(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """Milliseconds from the first kernel to the last; each kind's share of the kernels' time; the
    share without any."""
    spent = Counter[str]()
    for piece in pieces:
        spent[kind_of(piece.name)] += piece.end - piece.begin
    span = max(p.end for p in pieces) - min(p.begin for p in pieces)
    idle = sum(idle_of(pieces, 0.0))
    parts = (f"{spent[kind] / spent.total():.1%}" for kind in (*KINDS, OTHER))
    return f"{span / 1000:,.1f}", *parts, f"{idle:.1%}"


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name)), OTHER)


def longest(pieces: Iterable[Piece]) -> str:
    times, calls = Counter[str](), Counter[str]()
    for piece in pieces:
        times[piece.name] += piece.end - piece.begin
        calls[piece.name] += 1
    return "; ".join(
        f"{_short(name)} {time / 1000:.1f} ({calls[name]})"
        for name, time in times.most_common(LONGEST)
    )


def _short(name: str) -> str:
    """Without template arguments and signature."""
    return re.sub(r"[<(].*", "", name.removeprefix("void ").replace("(anonymous namespace)::", ""))[
        :60
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.profile", description=__doc__)
    parser.add_argument("--only", help="with semicolons between: " + "; ".join(BASIC))
    only = parser.parse_args().only
    names = only.split(";") if only else list(BASIC)
    for name in names:
        if name not in BASIC:
            parser.error(f"no {name!r}; there are {'; '.join(BASIC)}")
    print(measure(names).markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
