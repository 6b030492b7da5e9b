"""`python -m benchmarks.gpu.memory_cycle`: load, run, unload, again and again in one process; the memory after each."""

from __future__ import annotations

import argparse
import gc
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..common import Report
from .shapes import LLAMA_8B, TOY, Shape

CYCLES = 10
ALLOWED_MB = 200
SHAPE = replace(
    LLAMA_8B, hidden=2048, intermediate=5632, layers=16, heads=16, kv_heads=4, vocab=32000
)
"""About 1.3 GB in bf16, and a pool that takes most of the memory."""


class Memory(NamedTuple):
    """MB: used on the device by this and other processes, reserved by torch, and resident on the host."""

    used: float
    reserved: float
    host: float


def memory() -> Memory:
    import torch

    host = 0.0
    status = Path("/proc/self/status")
    if status.exists():
        host = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS")) / 1e3
    if not torch.cuda.is_available():
        return Memory(0.0, 0.0, host)
    free, total = torch.cuda.mem_get_info()
    return Memory((total - free) / 1e6, torch.cuda.memory_reserved() / 1e6, host)


def run() -> Report:
    return measure_cycles(CYCLES)


def measure_cycles(cycles: int, **options: Any) -> Report:
    """options: of the engine."""
    import torch

    gpu = torch.cuda.is_available()
    report = Report(
        f"Load, run, unload, {cycles} times ({'GPU' if gpu else 'CPU'})",
        ("after", "device, MB", "torch's share, MB", "host, MB"),
        bar=f"back to within {ALLOWED_MB} MB of the first unload each time, no growth",
    )
    with tempfile.TemporaryDirectory() as folder:
        _save(Path(folder), SHAPE if gpu else TOY, gpu)
        after: list[Memory] = []
        _add(report, "start", memory())
        for cycle in range(cycles):
            inside = _cycle(folder, **options)
            if cycle == 0:
                _add(report, "running", inside)
            gc.collect()
            after.append(memory())
            _add(report, f"unload {cycle + 1}", after[-1])
    if gpu:
        first, rest = after[0], after[1:]
        back = all(abs(one.used - first.used) <= ALLOWED_MB and one.reserved <= ALLOWED_MB for one in after)
        grows = len(rest) > 2 and rest[-1].used - rest[0].used > ALLOWED_MB / 4
        report.met = back and not grows
    return report


def _add(report: Report, name: str, now: Memory) -> None:
    report.rows.append((name, *(f"{value:,.0f}" for value in now)))
    print(name, *report.rows[-1][1:], flush=True)


def _save(folder: Path, shape: Shape, gpu: bool) -> None:
    from .model import random_model

    model = random_model(shape, "cuda" if gpu else "cpu", "bfloat16" if gpu else "float32")
    model.cpu().save_pretrained(folder)
    del model
    gc.collect()
    if gpu:
        import torch

        torch.cuda.empty_cache()


def _cycle(folder: str, **options: Any) -> Memory:
    """Load the folder, run a batch with shared prefixes, and close. The memory while it runs."""
    import sgnb

    with sgnb.Engine(folder, **options) as engine:
        shared = list(range(16, 200))
        prompts = [[*shared, 200 + i, 201] for i in range(64)]
        for _ in range(2):
            outputs = engine.generate(prompts, temperature=0, max_new_tokens=32, ignore_eos=True)
        assert all(len(output.token_ids) == 32 for output in outputs)
        return memory()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.memory_cycle", description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES)
    print(measure_cycles(parser.parse_args().cycles).markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
