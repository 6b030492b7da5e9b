"""Memory for blocks in the process, pinned for a GPU or not."""

from __future__ import annotations

import weakref
from mmap import PAGESIZE

import numpy as np
import torch

from .blocks import Bytes


def allocate(size: int) -> Bytes:
    """Allocate memory. The pages are taken at the first write."""
    return np.empty(size, np.uint8)


def allocate_pinned(device: torch.device, size: int) -> Bytes:
    """Allocate pinned memory. The pages are taken before CUDA pins them: CUDA's own allocation
    stops all launches for half a second per GiB.

    Raises:
        MemoryError: CUDA cannot pin the memory.
    """
    # Whole pages: CUDA refuses a copy of other memory that begins on a pinned page and ends behind.
    pages = -(-size // PAGESIZE) * PAGESIZE
    memory = allocate(pages + PAGESIZE)
    memory[::PAGESIZE] = 0
    begin = -memory.ctypes.data % PAGESIZE
    pinned = memory[begin : begin + pages]
    pin(device, pinned)
    weakref.finalize(memory, unpin, pinned.ctypes.data).atexit = False
    return pinned[:size]


def pin(device: torch.device, memory: Bytes) -> None:
    """Pin whole pages for copies by a GPU until `unpin`.

    Raises:
        MemoryError: CUDA cannot pin the memory.
    """
    runtime, address = torch.cuda.cudart(), memory.ctypes.data
    with torch.cuda.device(device):  # otherwise a context on the first GPU
        status = int(runtime.cudaHostRegister(address, memory.nbytes, 0))
    if status:
        message = f"CUDA cannot pin {memory.nbytes:,} bytes of host memory: error {status}"
        raise MemoryError(message)


def unpin(address: int) -> None:
    """Undo `pin` of memory at an address."""
    torch.cuda.cudart().cudaHostUnregister(address)
