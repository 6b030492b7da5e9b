"""Triton's kernels on the CPU: what checks them runs in a process of its own, in which triton
interprets them.

`echo CHECK PART | python -m tests.engine.interpreter` runs `tests/engine/CHECK.py` by hand.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = (
    "torch",
    "triton.language",
    "transformers.modeling_utils",
    "sgnb.engine.engine",
    "tests.random_models",
)
"""What most checks import, which takes longer than most of them."""

needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="needs triton, which there is for Linux only"
)

quick_and_whole = pytest.mark.parametrize(
    "part", ["quick", pytest.param("whole", marks=pytest.mark.slow)]
)
"""Parts of a check that takes long: the quick one goes every way through each kernel once, the
whole has every size, dtype and model."""


def interpreted(check: str, part: str = "") -> list[str]:
    """Run `tests/engine/CHECK.py`, another module with a whole name, or a part of it; it raises
    where something is wrong. The words that it printed."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    try:
        print(f"{check} {part}", file=server.stdin, flush=True)
        answer = json.loads(server.stdout.readline())
    except BaseException:
        server.kill()
        server.communicate()
        _server.cache_clear()
        raise
    assert answer["code"] == 0, answer["errors"]
    words: list[str] = answer["printed"].split()
    return words


def run_check(check: str, *part: str) -> list[str]:
    """`interpreted` without the interpreter, and without a GPU."""
    command = [sys.executable, "-m", f"tests.engine.{check}", *part]
    run = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def _environment() -> dict[str, str]:
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


@cache
def _server() -> subprocess.Popen[str]:
    """It has imported what is shared, and forks for each check. It ends with this process, which
    closes its input."""
    command = [sys.executable, "-m", "tests.engine.interpreter"]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _serve(lines: Iterable[str]) -> None:
    for line in lines:
        with TemporaryFile("w+") as printed, TemporaryFile("w+") as errors:
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.dup2(printed.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                _run(*line.split())
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for file in (printed, errors):
                file.seek(0)
            print(
                json.dumps({"code": code, "printed": printed.read(), "errors": errors.read()}),
                flush=True,
            )


def _run(check: str, *part: str) -> None:
    """As a program of its own, and end."""
    code = 1
    sys.argv[1:] = part
    try:
        runpy.run_module(check if "." in check else f"tests.engine.{check}", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _dot(self: object, a: Any, b: Any, d: Any, *precision: object) -> Any:
    """One product after the other, by element: a row's bits are the same anywhere in a block, on
    any processor.

    The interpreter's own is numpy's matmul. BLAS sums a row in an order that depends on the row's
    place, in a way that differs between processors; no kernel could be shown to give a row the same
    bits beside any others.
    """
    from triton.runtime.interpreter import TensorHandle

    assert a.data.dtype.kind == b.data.dtype.kind == "f", "bfloat16 is interpreted as integers"
    out = d.data.copy()
    for column, row in zip(a.data.astype(out.dtype).T, b.data.astype(out.dtype), strict=True):
        out += column[:, None] * row
    return TensorHandle(out, d.dtype.scalar)


def _convert(numbers: Any, from_type: Any, to_type: Any, rounding: object) -> Any:
    """Round to nearest, as a GPU does. The interpreter's own conversion loses the carry of a
    mantissa that is rounded up, cuts bfloat16 off, and has no NaN in FP8."""
    import numpy as np
    import torch

    dtypes = {
        "fp8e4nv": torch.float8_e4m3fn,
        "fp8e5": torch.float8_e5m2,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
    }
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    to_dtype = dtypes[str(to_type)]
    raw = torch.from_numpy(np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).copy())
    rounded = raw.view(dtypes[str(from_type)]).to(to_dtype).view(integers[to_dtype.itemsize])
    bits = rounded.numpy()
    return bits.view(f"uint{8 * to_dtype.itemsize}").reshape(numbers.shape)


def _patch_once(interpreter: Any) -> None:
    """The interpreter puts its functions into triton.language anew for each call of a function;
    here they stay there, which saves almost half of the time."""
    patch, patched = interpreter._patch_lang, set[int]()

    def patch_lang(function: Any) -> Any:
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = patch_lang


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    for name in SHARED:
        import_module(name)
    from triton.runtime import interpreter

    interpreter.InterpreterBuilder.create_dot = _dot
    interpreter._convert_float = _convert
    if hasattr(interpreter, "_LangPatchScope"):  # since Triton 3.6
        _patch_once(interpreter)
    _serve(sys.stdin)
