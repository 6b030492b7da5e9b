"""Reading a checkpoint of safetensors to the device: GB/s of sgnb and of transformers. Toy-sized
without a GPU.

The folder is written first, so its files lie in the system's page cache: this is no measure of a
disk.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..common import Report
from .model import random_model
from .shapes import LLAMA_8B, TOY

SHAPE = replace(LLAMA_8B, layers=12, vocab=32_000)
"""5.8 GB in bfloat16."""

SHARD = "2GB"


def run() -> Report:
    import torch

    gpu = torch.cuda.is_available()
    report = Report(
        f"Reading a checkpoint ({'GPU' if gpu else 'CPU, toy size'})",
        ("way", "seconds", "GB/s"),
        note="Files in the page cache; of three times the best.",
    )
    with tempfile.TemporaryDirectory() as folder:
        size = _write(Path(folder), gpu)
        for name, load in _ways(folder, torch.device("cuda" if gpu else "cpu"), gpu).items():
            took = _best(name, load)
            cells = ("-", "-") if took is None else (f"{took:.2f}", f"{size / took / 1e9:.2f}")
            report.rows.append((name, *cells))
            print(*report.rows[-1], sep=" | ", flush=True)
    return report


def _write(folder: Path, gpu: bool) -> int:
    """Bytes of all weights."""
    model = random_model(SHAPE if gpu else TOY, "cuda" if gpu else "cpu", "bfloat16")
    model.cpu().save_pretrained(folder, max_shard_size=SHARD)
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def _ways(folder: str, device: Any, gpu: bool) -> dict[str, Callable[[], Any]]:
    import torch
    from transformers import AutoModelForCausalLM

    from sgnb.engine.model.loading import load_module

    def transformers_own(**options: Any) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **options)

    ways: dict[str, Callable[[], Any]] = {
        "sgnb": lambda: load_module(folder, device, torch.bfloat16),
        "sgnb, cast to float16": lambda: load_module(folder, device, torch.float16),
        "transformers, then to the device": lambda: transformers_own().to(device),
    }
    if gpu:
        ways["transformers, device_map"] = lambda: transformers_own(device_map={"": device})
    return ways


def _best(name: str, load: Callable[[], Any]) -> float | None:
    try:
        return min(load_seconds(load) for _ in range(3))
    except Exception as error:
        print(f"loading, {name}: failed: {type(error).__name__}: {error}", flush=True)
        return None


def load_seconds(load: Callable[[], Any]) -> float:
    """Return the seconds until the weights are on the device, without their release."""
    import torch

    gc.collect()
    began = time.perf_counter()
    model = load()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    del model
    return took
