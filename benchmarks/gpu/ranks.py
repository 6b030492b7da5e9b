"""`python -m benchmarks gpu.ranks`: tokens per second of an engine with an NCCL group of one, and
of several GPUs, compared with one GPU without a group."""

from __future__ import annotations

import gc
import tempfile
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

from ..common import Report, alternate, median_ratio
from .memory_cycle import SHAPE
from .shapes import TOY

ROWS, NEW_TOKENS, ROUNDS = 64, 256, 9
SLOWER = 1.01
"""Time with a group of one, compared with no group, at most."""

PLAIN, GROUP = "one GPU", "one GPU, a group of one"


def run() -> Report:
    import torch

    from .model import random_model

    gpu = torch.cuda.is_available()
    sizes = [size for size in (2, 4, 8) if size <= torch.cuda.device_count()]
    report = Report(
        f"Tensor parallelism, {ROWS} rows, {NEW_TOKENS} tokens each ({'GPU' if gpu else 'CPU'})",
        ("engine", "tokens per second", "time, compared with one GPU"),
        bar=f"a group of one takes at most {SLOWER} of the time",
        note="Not measured: several GPUs." if not sizes else "",
    )
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(SHAPE if gpu else TOY, "cpu", "bfloat16" if gpu else "float32")
        model.save_pretrained(folder)
        del model
        gc.collect()
        engines = {PLAIN: _open(folder, 1), GROUP: _open(folder, 1, grouped=True)}
        engines |= {f"{size} GPUs": _open(folder, size) for size in sizes}
        try:
            work = {name: lambda e=engine: _generate(e) for name, engine in engines.items()}
            times = alternate(work, ROUNDS)
        finally:
            for engine in engines.values():
                engine.close()
    for name, seconds in times.items():
        ratio = median_ratio(seconds, times[PLAIN])
        rate = ROWS * NEW_TOKENS / sorted(seconds)[ROUNDS // 2]
        report.rows.append((name, f"{rate:,.0f}", f"{ratio:.3f}"))
        if name == GROUP and gpu:
            report.met = ratio <= SLOWER
    return report


def _open(folder: str, size: int, grouped: bool = False) -> Any:
    """Return an engine. grouped: with sums over a group of one."""
    import sgnb
    from sgnb.engine import assembly
    from sgnb.engine.parallel import Team

    options: dict[str, Any] = {"max_total_tokens": 1 << 16, "tensor_parallel": size}
    group: AbstractContextManager[Any] = nullcontext()
    if grouped:
        options["tensor_parallel"] = 2
        group = patch.object(assembly, "Team", lambda size, device, model: Team(1, device, {}))
    with group:
        return sgnb.Engine(folder, **options)


def _generate(engine: Any) -> None:
    prompts = [list(range(16 + i, 48 + i)) for i in range(ROWS)]
    engine.generate(prompts, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True)
    engine.flush_cache()
