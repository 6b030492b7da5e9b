"""Copies between the host and the device that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: Sequence[float] | NDArray, device: torch.device) -> Tensor:
    """A new tensor on `device` with the numbers of a list or an array. Integers become int64."""
    array = np.asarray(values)
    return pinned(
        array.astype(np.int64, copy=False) if array.dtype.kind in "iu" else array, device
    ).to(device, non_blocking=True)


def pinned(array: NDArray, device: torch.device) -> Tensor:
    """The array as a tensor from which copies to `device` need no waiting.

    It may be dropped at once: the allocator of pinned memory gives it to nobody else before the
    copy is done.
    """
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if device.type == "cuda" else tensor


def to_host(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors on the host, for reading once an event recorded after this call has come; on a
    CPU the tensors themselves."""
    if not tensors or tensors[0].device.type != "cuda":
        return tensors
    return tuple(
        torch.empty(t.shape, dtype=t.dtype, pin_memory=True).copy_(t, non_blocking=True)
        for t in tensors
    )


def mark(device: torch.device) -> Callable[[], None]:
    """A function that waits until the device has done what was launched on the current stream up to
    now."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event.synchronize
