"""Device memory: weight-size checks, release after an engine, and garbage collection meanwhile."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ...errors import ModelError
from .faults import is_device_lost

GIB = 1 << 30

pools: weakref.WeakSet[Any] = weakref.WeakSet()
"""Existing KV caches, one or more per open engine."""

CONTROL_GROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", ""),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
"""For cgroup versions 2 and 1: folder, files of limit and usage, and prefix of totals in
memory.stat."""

_frozen = threading.Event()  # by `freeze_heap`
_frozen_by_user = threading.Event()  # found by `freeze_heap`, which then never freezes


def weight_bytes(module: torch.nn.Module) -> int:
    """Return the size in bytes of a module's parameters and buffers; tied weights count once."""
    tensors = {t.data_ptr() or id(t): t for t in [*module.parameters(), *module.buffers()]}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def check_weights_fit(
    name: str,
    needed: int,
    dtype: torch.dtype | None,
    device: torch.device,
    memory_limit: float | None,
) -> None:
    """Raise ModelError if `needed` bytes of weights exceed the free memory, or on a GPU
    `memory_limit` GiB. dtype: None for the stored dtype."""
    on_gpu = device.type == "cuda"
    free = free_bytes(device) if on_gpu else free_host_bytes()
    limit = int(memory_limit * GIB) if on_gpu and memory_limit is not None else free
    if needed <= min(free, limit):
        return

    kind = "" if dtype is None else f" in {str(dtype).removeprefix('torch.')}"
    if needed <= free:
        room, hint = f"memory_limit is {memory_limit} GiB", "load with a larger memory_limit"
    else:
        place = str(device) if on_gpu else "this machine"
        room = f"{gib(free)} are free on {place}"
        hint = "unload another engine (`%sglang engine unload NAME`)"
    hint += ", or load a smaller model"
    if dtype == torch.float32:
        hint += ', or load with dtype="bfloat16" for half of the size'
    raise ModelError(f"the weights of {name!r} take {gib(needed)}{kind}, and {room}", hint)


def freeze_heap() -> None:
    """Exclude present objects from garbage collection until `release_device_memory`. Leaves a heap
    frozen by the user alone.

    A full collection visits all objects of transformers and torch: 0.2 s with all requests waiting.
    """
    if _frozen_by_user.is_set():
        return
    # The count visits each frozen object: up to 0.1 s.
    if not _frozen.is_set() and gc.get_freeze_count():
        _frozen_by_user.set()
        return
    gc.collect()
    gc.freeze()
    _frozen.set()


def peak_bytes(device: torch.device, run: Callable[[], object]) -> int:
    """Return the most memory that `run` takes on a GPU at once, in bytes; 0 on a CPU, where this is
    not measured."""
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    at_rest = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - at_rest


def release_device_memory() -> None:
    """Release unused memory at the end of an engine, after its model, pool, graphs and workspaces
    are dropped.

    cuBLAS keeps a workspace per stream with pointers from graphs: freed only with the last engine.
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
        # Pinned buffers; requires a newer torch.
        if empty_host_cache := getattr(torch.accelerator, "empty_host_cache", None):
            empty_host_cache()
    except RuntimeError as error:
        if not is_device_lost(error):
            raise


def free_bytes(device: torch.device) -> int:
    """Return the number of free bytes on a GPU."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return int(free)


def free_host_bytes() -> int:
    """Return the available host memory in bytes within cgroup limits; exceeding the limit may kill
    the process."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(dict(line.split(":") for line in lines)["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError):  # not Linux
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    for folder, limit, usage, total in CONTROL_GROUPS:
        with suppress(OSError, ValueError):  # "max" is not a number
            room = int((folder / limit).read_text()) - int((folder / usage).read_text())
            lines = (folder / "memory.stat").read_text().splitlines()
            stat = {name: int(size) for name, size in map(str.split, lines)}
            # The page cache counts as used but is reclaimable.
            files = (stat.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive"))
            free = min(free, room + sum(files))
    return max(0, free)


def gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
