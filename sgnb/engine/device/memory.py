"""Memory that is given back when an engine ends, and the garbage collector while one lives."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import torch

from .errors import is_device_lost

pools: weakref.WeakSet[Any] = weakref.WeakSet()
"""The KV caches that there are: while there is one, so is an engine."""

_frozen = threading.Event()


def freeze_heap() -> None:
    """Keep Python's garbage collector from looking at all that there is now, until
    `release_device_memory`.

    A full collection visits all that transformers and torch have made, for 0.2 s, while the GPU
    waits.
    """
    gc.collect()
    gc.freeze()
    _frozen.set()


def release_device_memory() -> None:
    """Give back what is not in use. For the end of an engine, after it let go of model, pool,
    graphs and workspaces.

    The matrix library keeps a workspace for each stream, which graphs point into: they go with the
    last engine only.
    """
    if _frozen.is_set():
        _frozen.clear()
        gc.unfreeze()
    gc.collect()
    if not torch.cuda.is_initialized():
        return
    try:
        if not pools:
            torch.cuda.synchronize()
            torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        if empty_host_cache := getattr(
            torch.accelerator, "empty_host_cache", None
        ):  # of newer torch: pinned buffers
            empty_host_cache()
    except RuntimeError as error:
        if not is_device_lost(error):
            raise
