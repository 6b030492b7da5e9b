"""Asynchronous copies between host and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: Sequence[float] | NDArray, device: torch.device) -> Tensor:
    """Return a new tensor on `device` with the numbers of a list or an array. Integers become
    int64."""
    array = np.asarray(values)
    return pinned(
        array.astype(np.int64, copy=False) if array.dtype.kind in "iu" else array, device
    ).to(device, non_blocking=True)


def pinned(array: NDArray, device: torch.device) -> Tensor:
    """Return a pinned tensor for asynchronous copies to `device`.

    The tensor may be dropped immediately: the pinned allocator reuses memory only after the copy.
    """
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if device.type == "cuda" else tensor


def to_host(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Copy tensors to the host asynchronously; read after an event recorded after this call. On a
    CPU, return the tensors unchanged."""
    if not tensors or tensors[0].device.type != "cuda":
        return tensors
    return tuple(
        torch.empty(t.shape, dtype=t.dtype, pin_memory=True).copy_(t, non_blocking=True)
        for t in tensors
    )


def mark(device: torch.device) -> Callable[[], None]:
    """Return a function that waits for all work launched on the current stream up to now."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event.synchronize
