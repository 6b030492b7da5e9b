"""Selection, support check and compilation of FlashInfer kernels for a model.

Knows FlashInfer's versions and limits; knows nothing about steps. Imports neither FlashInfer nor
CUDA at module import.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from ..cache.kv_cache import LayerShape
from .background_compile import Job

OLDEST, TOO_NEW = (0, 6, 1), (0, 7)
"""Supported version range. Measured and tested with 0.6.8; the interface is the same since 0.6.1.
Version 0.7 changes the arguments of plans."""

DTYPES = torch.float16, torch.bfloat16
HEAD_DIMS = 64, 128, 256
"""Head dimensions supported by both kernel generations, Ampere (fa2) and Hopper (fa3)."""


class AttentionKernel(NamedTuple):
    """A module compiled by FlashInfer: generation "fa2" or "fa3", head dimension, two switches."""

    generation: str
    dtype: torch.dtype
    dim: int
    window: bool
    softcap: bool

    def job(self) -> Job:
        switches = [name for name in ("window", "softcap") if getattr(self, name)]
        return Job(
            " ".join([self.generation, str(self.dim), *switches]), partial(build_attention, self)
        )


def refusal(shapes: Iterable[LayerShape], dtype: torch.dtype, device: torch.device) -> str | None:
    """Return the reason why FlashInfer cannot serve layers of `shapes` and `dtype` on `device`, or
    None. Does not import FlashInfer."""
    return (
        _unfit(set(shapes), dtype) or _unfit_device(device) or _unfit_version() or _cannot_compile()
    )


def _unfit(shapes: set[LayerShape], dtype: torch.dtype) -> str | None:
    if dtype not in DTYPES:
        name = str(dtype).removeprefix("torch.")
        return f"FlashInfer computes in float16 and bfloat16, not in {name}"
    for shape in shapes:
        if shape.key_dim != shape.value_dim:
            widths = f"{shape.key_dim} and {shape.value_dim}"
            return f"FlashInfer needs keys and values of one width, not of {widths}"
        if shape.key_dim not in HEAD_DIMS:
            width = shape.key_dim
            return f"FlashInfer has no kernels for heads of width {width}, only for {HEAD_DIMS}"
    return None


def _unfit_device(device: torch.device) -> str | None:
    if device.type != "cuda" or torch.version.cuda is None:
        return f"FlashInfer needs an NVIDIA GPU; the device is {device}"
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):
        have = ".".join(map(str, capability))
        return f"FlashInfer needs compute capability 8.0 (Ampere) or later; {device} has {have}"
    return None


def _unfit_version() -> str | None:
    version = installed_version()
    if version is None:
        return "FlashInfer is not installed; it is in the extra `sgnb[cuda]`"
    numbers = tuple(int(x) for x in re.findall(r"\d+", version)[:3])
    if not OLDEST <= numbers < TOO_NEW:
        oldest, too_new = (".".join(map(str, x)) for x in (OLDEST, TOO_NEW))
        return f"FlashInfer {version} is not tested; install flashinfer-python>={oldest},<{too_new}"
    return None


def installed_version() -> str | None:
    try:
        return importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        return None


def _cannot_compile() -> str | None:
    if importlib.util.find_spec("flashinfer_jit_cache") is not None:
        return None  # the package with precompiled kernels
    if shutil.which("ninja") is None:
        return "FlashInfer compiles its kernels with ninja, which is not on the PATH"

    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    places = [os.environ.get("FLASHINFER_NVCC"), *(f"{home}/bin/nvcc" for home in homes if home)]
    places += [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"]
    if not any(place and Path(place).exists() for place in places):
        return (
            "FlashInfer compiles its kernels with CUDA's nvcc, which was not found "
            "(CUDA_HOME, PATH)"
        )

    return None


def extend_generation(device: torch.device) -> str:
    """Kernel generation for long chunks on `device`: Hopper has separate kernels."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
        return "fa2"
    toolkit = tuple(int(x) for x in re.findall(r"\d+", torch.version.cuda or "")[:2])
    return "fa3" if toolkit >= (12, 3) else "fa2"


def build_attention(kernel: AttentionKernel) -> None:
    """Compile the module of `kernel`, or reuse the compiled module, and load the module for
    FlashInfer's wrappers.

    Launches nothing and touches no stream. The first compilation takes a minute for fa3 and a
    quarter of a minute for fa2, on 16 cores; FlashInfer caches the result on disk. Compilation
    errors propagate.
    """
    _quiet()
    prefill = importlib.import_module("flashinfer.prefill")
    dtypes = [kernel.dtype] * 3  # queries, keys and values, outputs
    no_position_encoding, half_precision_scores = 0, False
    prefill.get_batch_prefill_module(
        kernel.generation,
        *dtypes,
        torch.int32,
        kernel.dim,
        kernel.dim,
        no_position_encoding,
        kernel.window,
        kernel.softcap,
        half_precision_scores,
    )


def _quiet() -> None:
    """Silence FlashInfer's compilation log, because a notebook shows stderr in the cell."""
    logger = getattr(importlib.import_module("flashinfer.jit.core"), "logger", None)
    if logger is not None and "FLASHINFER_LOGGING_LEVEL" not in os.environ:
        logger.setLevel(logging.WARNING)
