"""`python -m benchmarks.gpu.ready`: from nothing to the first token, with no kernel ever compiled
before.

In a fresh process whose caches of compiled kernels are empty folders. The weights are random and
made on the device, so that reading them from a disk does not count. Counted from before sgnb is
imported; torch's own import is given apart. Python's bytecode, which an installation writes and
some machines lack, is there: a process before this one has made it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..common import Report
from .shapes import LLAMA_8B, Shape

READY = "ready"
"""The name of this line of the table."""

CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "FLASHINFER_WORKSPACE_BASE",
    "FLASHINFER_CUBIN_DIR",
    "TVM_FFI_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "SGNB_CACHE",
)
"""Where the engines and their libraries keep what they compile."""

SCRIPT = """
import sys, time
began = time.perf_counter()
import torch
marks = {"import torch": time.perf_counter() - began}
from benchmarks.gpu.shapes import SHAPES, TOYS
from benchmarks.gpu.model import random_model
began = time.perf_counter()
import sgnb
sgnb.Engine
marks["import sgnb"] = time.perf_counter() - began
gpu = torch.cuda.is_available()
began = time.perf_counter()
shape = (SHAPES if gpu else TOYS)[sys.argv[1]]
model = random_model(shape, "cuda" if gpu else "cpu", "bfloat16" if gpu else "float32")
if gpu:
    torch.cuda.synchronize()
marks["random weights"] = time.perf_counter() - began
began = time.perf_counter()
engine = sgnb.Engine(model)
marks["engine"] = time.perf_counter() - began
began = time.perf_counter()
engine.generate(list(range(16, 32)), temperature=0, max_new_tokens=1, ignore_eos=True)
marks["first token"] = time.perf_counter() - began
began = time.perf_counter()
engine.generate(list(range(32, 48)), temperature=0, max_new_tokens=8, ignore_eos=True)
marks["8 more tokens"] = time.perf_counter() - began
engine.close()
import json
print("RESULT", json.dumps(marks), flush=True)
import os
os._exit(0)
"""


def cold_environment(folder: str | Path) -> dict[str, str]:
    """Variables that point all caches of compiled kernels to new folders under `folder`."""
    return {name: str(Path(folder) / name.lower()) for name in CACHES}


def first_token(shape: Shape = LLAMA_8B) -> dict[str, Any]:
    """{"figure": seconds to the first token, "unit": "s", "parts": {part: seconds}}; torch's import
    does not count.

    "before": the same of the process that made the bytecode, where there was none.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        runs = [_run_cold(bytecode, shape.name) for _ in range(2)]
    before, figure = (
        sum(
            seconds
            for name, seconds in parts.items()
            if name not in ("import torch", "8 more tokens")
        )
        for parts in runs
    )
    return {"figure": figure, "unit": "s", "seconds": [figure], "parts": runs[1], "before": before}


def _run_cold(bytecode: str, shape: str) -> dict[str, float]:
    """Return the parts of one run. `bytecode`: folder for compiled Python files. `shape`: name of
    the shape."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | cold_environment(folder) | {"PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, shape],
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(f"the process ended with {done.returncode}: {done.stderr[-2000:]}")
    parts: dict[str, float] = json.loads(lines[0].removeprefix("RESULT "))
    return parts


def run() -> Report:
    result = first_token()
    report = Report(
        "Engine ready and first token, kernels never compiled before",
        ("part", "seconds"),
        [(name, f"{seconds:.2f}") for name, seconds in result["parts"].items()],
        bar="at most 10 s, less the import of torch",
        met=result["figure"] <= 10,
    )
    report.rows.append(("to the first token, less the import of torch", f"{result['figure']:.2f}"))
    report.rows.append(("the same where Python had no bytecode", f"{result['before']:.2f}"))
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.ready", description=__doc__)
    parser.parse_args()
    print(run().markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
