"""Content of blocks on the way to the stores: read on the engine's thread, written by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import numpy as np

from ..radix import Ints, RadixNode
from .blocks import Block, BlockStore, Bytes, CopyChange, Reservation
from .pending_copies import PendingCopies
from .transfers import MAX_PENDING_BYTES, ReadBlocks, Transfer


class NodeBlock(NamedTuple):
    """A computed block of the tree, or the states at the end of the block."""

    node: RadixNode  # the block ends here
    key: bytes
    parent: bytes
    tokens: Ints
    units: Ints  # slots, or a state
    seconds: float
    stores: Sequence[BlockStore]  # without the block


class CopyWriter:
    """Copies of blocks to the stores. On the engine's thread, except `_write`.

    Copies go straight to reserved memory of the first store. Without a reservation they go through
    other memory, of limited size.

    Args:
        thread: Thread that writes to the stores.
        run: Runs a function on the engine's thread soon.
        ended: Receives blocks whose copies have ended, and which are stored.

    Attributes:
        pending: Copies that have not ended.
    """

    def __init__(
        self,
        thread: Executor,
        run: Callable[[Callable[[], object]], None],
        ended: Callable[[Sequence[NodeBlock], Sequence[bool]], None],
    ) -> None:
        self._thread, self._run, self._ended = thread, run, ended
        self.pending = PendingCopies()
        self._passing_bytes = self._flushes = 0  # bytes: in other memory

    def drop_host(self) -> None:
        """Drop the copies on the way to host memory."""
        self._flushes += 1

    def submit(self, blocks: Sequence[NodeBlock], transfer: Transfer) -> int:
        """Copy the content of blocks in parts, and let the thread store the content.

        Returns:
            Number of leading blocks on the way: fewer if too many copies wait, or no thread can
            start.
        """
        done = 0
        while done < len(blocks):
            part, reserved = blocks[done : done + transfer.part_blocks], list[Reservation]()
            for block in part:
                place = block.stores[0].reserve(block.key, block.parent, block.seconds)
                if place is None:
                    break
                reserved.append(place)

            part = part[: len(reserved) or None]
            started = False
            try:
                started = self._start(part, reserved, transfer)
            finally:
                for place in () if started else reserved:
                    place.cancel()
            if not started:
                break
            done += len(part)
        return done

    def _start(
        self, blocks: Sequence[NodeBlock], reserved: Sequence[Reservation], transfer: Transfer
    ) -> bool:
        """Start the copy of a part to reserved places, or to other memory. Returns False if the
        copy cannot start."""
        size = len(blocks) * transfer.block_bytes
        passing, waiting = 0 if reserved else size, self._passing_bytes
        if passing and waiting and waiting + passing > MAX_PENDING_BYTES:
            return False
        units = np.concatenate([block.units for block in blocks])
        content = transfer.read(units, [place.data for place in reserved])
        if content is None:
            return False
        given_up, flushes = threading.Event(), self._flushes
        try:
            self._thread.submit(self._write, given_up, flushes, content, blocks, reserved, size)
        except RuntimeError:  # also if the interpreter ends
            given_up.set()  # a thread that starts later finds the work in the queue
            content()  # the places are given up
            return False

        self._passing_bytes += passing
        self.pending.add([block.key for block in blocks], size)
        return True

    def _write(
        self,
        given_up: threading.Event,
        flushes: int,
        content: Callable[[], ReadBlocks],
        blocks: Sequence[NodeBlock],
        reserved: Sequence[Reservation],
        size: int,
    ) -> None:
        """Write copies to their stores, on the writer's thread."""
        if given_up.is_set():
            return
        stored = [False] * len(blocks)
        try:
            rows, flags = content()
            places: Sequence[Reservation | None] = reserved or [None] * len(blocks)
            contents = zip(blocks, rows, flags, places, strict=True)
            for i, (block, data, is_finite, place) in enumerate(contents):
                if is_finite:
                    stored[i] = self._store(block, data, place, flushes)
                else:
                    for store in block.stores:
                        store.changes.append(CopyChange(block.key, "not finite"))
        finally:
            for place in reserved:
                place.cancel()
            self._run(partial(self._finish, blocks, stored, size, 0 if reserved else size))

    def _store(
        self, copied: NodeBlock, data: Bytes, place: Reservation | None, flushes: int
    ) -> bool:
        """Write a block to the lacking stores. Returns whether a store keeps the block."""
        block = Block(copied.key, copied.parent, copied.tokens, copied.seconds, data)
        written = [
            store.write(block)
            for store in copied.stores[place is not None :]
            if store.name != "host" or flushes == self._flushes
        ]
        # Last: the store may evict the block while others still read the data.
        written += [] if place is None else [place.store(block)]
        return any(written)

    def _finish(
        self, blocks: Sequence[NodeBlock], stored: Sequence[bool], size: int, passing: int
    ) -> None:
        self._passing_bytes -= passing
        self.pending.remove([block.key for block in blocks], size)
        self._ended(blocks, stored)
