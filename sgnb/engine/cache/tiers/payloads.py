"""The contents that the stores keep: keys and values, and states of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..fp8 import FP8
from ..kv_cache import KVCache
from ..manager import CacheManager
from ..slot_allocator import SlotAllocator
from ..state_pool import StatePool, bytes_per_state
from .block_transfer import BlockTransfer
from .blocks import BlockStore
from .copies import MIN_TOKENS
from .copy_commands import CopyRanks
from .disk import DiskBlocks
from .host import HostBlocks
from .item_records import ItemRecords
from .load import READERS
from .rank_transfer import RankTransfer
from .stored_prefixes import Stores
from .transfers import Transfer

BLOCKS_PER_STATE = 8
"""Blocks per state of recurrent layers in host memory."""


class Payloads(NamedTuple):
    """Copies of each payload."""

    tokens: Transfer  # keys and values
    states: Transfer | None  # None without recurrent layers

    @property
    def least_bytes(self) -> int:
        """Size of the smallest store for a prefix."""
        if self.states is None:
            return MIN_TOKENS * self.tokens.unit_bytes
        return BLOCKS_PER_STATE * self.tokens.block_bytes + self.states.block_bytes

    def find_fault(self) -> str:
        """Write, read and compare each payload. Returns the difference as text, or ""."""
        return self.tokens.find_fault() or (self.states.find_fault() if self.states else "")

    def open_stores(
        self,
        root: bytes,
        identity: str,
        host_bytes: int | None,
        disk: tuple[Path, int] | None,
        free_bytes: Callable[[], int],
    ) -> Stores:
        """Open the stores of a model.

        Args:
            root: Key of the empty prompt.
            identity: Fingerprint of the model.
            host_bytes: Size of all stores in host memory; None for none.
            disk: Folder and size of the files; None for none.
            free_bytes: Returns the free host memory.
        """
        blocks, states = list[BlockStore](), list[BlockStore]()
        records: ItemRecords | None = None
        if host_bytes is not None:
            size = host_bytes
            if self.states is not None:
                size = host_bytes * BLOCKS_PER_STATE * self.tokens.block_bytes // self.least_bytes
                states.append(_host_blocks(host_bytes - size, self.states, free_bytes))
            blocks.append(_host_blocks(size, self.tokens, free_bytes))

        if disk is not None:
            files = DiskBlocks(disk[0], identity, self.tokens.row_bytes, disk[1])
            blocks.append(files)
            states += [] if self.states is None else [files.for_states(self.states.row_bytes)]
            records = files.records
        return Stores(root, blocks, states, records)


def _host_blocks(size: int, transfer: Transfer, free_bytes: Callable[[], int]) -> HostBlocks:
    return HostBlocks(size, transfer.row_bytes, transfer.allocate, free_bytes)


def token_transfer(slots: SlotAllocator, kv: KVCache) -> BlockTransfer:
    """Return the copies of the keys and values of a process."""
    return BlockTransfer(slots, kv.device, _finite_check(kv.columns))


def make_payloads(
    cache: CacheManager,
    kv: KVCache,
    states: StatePool | None,
    ranks: CopyRanks | None,
    host_bytes: int | None,
    has_disk: bool,
) -> Payloads:
    """Return the copies of an engine's payloads.

    Args:
        cache: Owner of the slots.
        kv: Keys and values; with several ranks of rank 0.
        states: States of recurrent layers, or None.
        ranks: All ranks, without recurrent layers; None for a single process.
        host_bytes: Size of all stores in host memory; None for none.
        has_disk: The engine has a disk cache.
    """
    own = token_transfer(cache.slots, kv)
    tokens: Transfer = own
    if ranks is not None:
        readers = READERS if has_disk else 1
        tokens = RankTransfer(own, cache.slots, ranks, host_bytes or 0, readers)
    if states is None or cache.checkpoints is None:
        return Payloads(tokens, None)

    columns = [
        (bytes_per_state({0: [shape]}), shape.dtype)
        for shapes in states.shapes.values()
        for shape in shapes
    ]
    pool = cache.checkpoints.pool
    return Payloads(tokens, BlockTransfer(pool, states.device, _finite_check(columns), 1))


def _finite_check(columns: Iterable[tuple[int, torch.dtype]]) -> Callable[[Tensor], Tensor]:
    """Return a function that checks the values of units: consecutive columns with sizes in bytes
    and types."""
    filled: Sequence[tuple[int, torch.dtype]] = [column for column in columns if column[0]]

    def is_finite(units: Tensor) -> Tensor:
        begin, finite = 0, torch.ones(len(units), dtype=torch.bool, device=units.device)
        for size, dtype in filled:
            values = units[:, begin : begin + size].contiguous().view(dtype)
            # The largest number is NaN if any is; `isfinite().all(1)` takes 30 times as long.
            if dtype == FP8:  # without infinite numbers
                finite &= values.view(torch.uint8).bitwise_and(0x7F).amax(1) < 0x7F
            else:
                finite &= values.abs().amax(1) < torch.inf
            begin += size

        return finite

    return is_finite
