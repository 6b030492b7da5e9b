"""Diagnosis of machine and front end, with hints for missing parts. Loads no model."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from typing import Any

from .table import Table


def check() -> Table:
    """Return a table with a row per component: status, and a hint for missing components."""
    checks = (
        _python, _torch, _gpu, _transformers, _quantized_weights, _packed_kernels, _front_end,
        _widgets, _graphviz, _model,
    )  # fmt: skip
    return Table({"part": each.__name__.strip("_").replace("_", " "), **each()} for each in checks)


def _row(ok: bool, status: str, hint: str = "") -> dict[str, Any]:
    return {"ok": "yes" if ok else "no", "found": status, "cure": "" if ok else hint}


def _version(package: str) -> str:
    return importlib.metadata.version(package) if importlib.util.find_spec(package) else ""


def _python() -> dict[str, Any]:
    status = f"{platform.python_version()} on {platform.system()}"
    return _row(sys.version_info >= (3, 11), status, "install Python 3.11 or later")


def _torch() -> dict[str, Any]:
    version = _version("torch")
    return _row(bool(version), version or "not installed", "pip install torch")


def _gpu() -> dict[str, Any]:
    if not _version("torch"):
        return _row(False, "unknown without torch", "pip install torch")
    import torch

    if torch.cuda.is_available():
        from ..engine.attention import FP8_CAPABILITY

        old = torch.cuda.get_device_capability() < FP8_CAPABILITY
        return _row(
            True, torch.cuda.get_device_name() + (", without kv_dtype='fp8'" if old else "")
        )
    if shutil.which("nvidia-smi"):
        hint = "install a CUDA build of torch (pytorch.org)"
        return _row(False, "a GPU that torch cannot use", hint)
    threads = torch.get_num_threads()
    return _row(True, f"none; the CPU with {threads} thread{'s' * (threads != 1)}")


def _transformers() -> dict[str, Any]:
    version = _version("transformers")
    new_enough = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= (5, 17)
    return _row(new_enough, version or "not installed", "pip install 'transformers>=5.17'")


def _quantized_weights() -> dict[str, Any]:
    if not _version("torch") or not _version("transformers"):
        return _row(False, "unknown without torch and transformers", "pip install sgnb")
    from ..engine.model import QUANTIZE
    from ..engine.quantization.schemes import METHODS

    return _row(True, f"checkpoints: {', '.join(METHODS)}; at load: {', '.join(QUANTIZE)}")


def _packed_kernels() -> dict[str, Any]:
    """Kernels that multiply quantized weights. The check of FP8 inputs computes a small product."""
    if not _version("torch"):
        return _row(False, "unknown without torch", "pip install torch")
    import torch

    if not torch.cuda.is_available():
        return _row(True, "none: a CPU decodes quantized weights in each step")
    if not importlib.util.find_spec("triton"):
        return _row(True, "none without triton: the GPU decodes quantized weights in each step")
    from ..engine.fusion import scaled_products

    try:
        has_fp8 = scaled_products.is_supported(torch.device("cuda"))
    except RuntimeError as error:
        hint = "free memory of the GPU, or restart the kernel"
        return _row(False, f"Triton; FP8 inputs unknown: {str(error).splitlines()[0]}", hint)
    return _row(True, f"Triton; FP8 inputs {'on tensor cores' if has_fp8 else 'not supported'}")


def _front_end() -> dict[str, Any]:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return _row(True, "plain Python: sgnb.function and sgnb.load work, magics need IPython")
    kernel = getattr(shell, "kernel", None) is not None
    return _row(True, "Jupyter kernel" if kernel else "terminal IPython: views are text")


def _widgets() -> dict[str, Any]:
    if os.environ.get("SGNB_STATIC") == "1":
        return _row(True, "off, because SGNB_STATIC=1: static pictures")
    version = _version("anywidget")
    status = f"anywidget {version}" if version else "not installed"
    return _row(bool(version), status, "pip install anywidget")


def _graphviz() -> dict[str, Any]:
    missing = "no dot program: only exporting a view as SVG through graphviz needs it"
    return _row(True, "dot" if shutil.which("dot") else missing)


def _model() -> dict[str, Any]:
    from .. import models

    names = models.names()
    status = f"bundled: {', '.join(names)}" if names else "no bundled model"
    hint = "reinstall sgnb, or load a folder: %sglang load ./model"
    return _row("tiny" in names, status, hint)
