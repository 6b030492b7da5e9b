"""Copies of blocks between KV slots and host memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ..radix import Ints
from ..slot_allocator import SlotAllocator
from .blocks import BLOCK, Bytes

PART_BYTES = 32 * 2**20
"""Largest copy at once."""


class BlockTransfer:
    """Copies between the slots of a device and host memory. On the engine's thread and stream.

    Args:
        slots: KV slots with content.
        device: Device of the content.
    """

    def __init__(self, slots: SlotAllocator, device: torch.device) -> None:
        self._slots, self._device = slots, device
        self._on_gpu = device.type == "cuda"

    def read(self, ids: Ints) -> Callable[[], Bytes]:
        """Copy the content of slots, which may change after the call.

        Returns:
            A function that waits for the copy and returns uint8[len(ids), unit_bytes], on any
            thread. On a GPU the copy follows the launched kernels, and this call does not wait.
        """
        size = len(ids), self._slots.unit_bytes
        staged = torch.empty(size, dtype=torch.uint8, device=self._device)
        self._slots.copy(ids, staged)
        if not self._on_gpu:
            return staged.numpy

        content = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        content.copy_(staged, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()

        def wait() -> Bytes:
            copied.synchronize()
            return content.numpy()

        return wait

    def write(self, ids: Ints, content: Bytes) -> None:
        """Write content to slots, uint8[len(ids), unit_bytes], in parts: a part takes memory of the
        device."""
        count = max(1, PART_BYTES // self._slots.unit_bytes)
        for begin in range(0, len(ids), count):
            part = torch.from_numpy(content[begin : begin + count]).to(self._device)
            self._slots.restore(ids[begin : begin + count], part)

    def find_fault(self) -> str:
        """Write random content to slots and read it back. Returns the difference as text, or ""."""
        if self._slots.available < BLOCK:
            return f"the KV pool of {self._slots.total} tokens is smaller than a block of {BLOCK}"
        content = np.random.default_rng(0).integers(
            0, 256, (BLOCK, self._slots.unit_bytes), np.uint8
        )
        ids = self._slots.allocate(BLOCK)
        try:
            self.write(ids, content)
            wrong = np.flatnonzero((self.read(ids)() != content).any(axis=0))
            self.write(ids, np.zeros_like(content))  # unused slots stay finite
        finally:
            self._slots.free(ids)

        return f"byte {wrong[0]} of a token is not restored" if len(wrong) else ""
