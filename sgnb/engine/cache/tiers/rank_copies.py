"""Copies of a follower: the part of the follower's KV heads, on command of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np

from ....errors import first_line
from ..radix import Ints
from .block_transfer import BlockTransfer
from .copy_commands import CopyCommand, CopyKind
from .shared_places import SharedPlaces
from .transfers import ReadBlocks


class RankCopies:
    """Runs commands in the order of the steps, on the thread of the steps. A further thread waits
    for the end of copies, and confirms the end.

    Args:
        transfer: Copies of this rank.
        identify: Returns the fingerprint of this rank's weights.
        rank: Number of this rank.
        size: Number of ranks.
        blocks: Descriptor of the file for `SharedPlaces`.
        confirm: Sends the number of a command, the value, and an error or "".
    """

    def __init__(
        self,
        transfer: BlockTransfer,
        identify: Callable[[], str],
        rank: int,
        size: int,
        blocks: int,
        confirm: Callable[[int, Any, str], object],
    ) -> None:
        self._transfer, self._identify = transfer, identify
        self._rank, self._size, self._blocks, self._confirm = rank, size, blocks, confirm
        self._waiter = ThreadPoolExecutor(1, "sgnb-rank-copies")

    def run(self, message: Ints) -> None:
        """Run a command. After an error the copy has failed for all ranks."""
        command = CopyCommand.decode(message)
        try:
            finish = self._start(command)
        except Exception as error:
            if not command.number:
                raise
            finish = partial(_raise, error)
        if finish is not None:
            self._waiter.submit(self._finish, command.number, finish)

    def _start(self, command: CopyCommand) -> Callable[[], Any] | None:
        """Launch a copy. Returns the rest of the work, for the further thread."""
        match command.kind:
            case CopyKind.BEGIN_WRITES:
                self._transfer.begin_writes()
            case CopyKind.END_WRITES:
                self._transfer.end_writes()
            case CopyKind.WRITE:
                parts = self._places.parts(command.places, self._rank)
                return self._transfer.write(command.units, parts)
            case CopyKind.READ:
                parts = self._places.parts(command.places, self._rank)
                return partial(_find_not_finite, self._transfer.read(command.units, parts))
            case CopyKind.PIN:
                return partial(self._places.pin, self._transfer.device, *command.places.tolist())
            case CopyKind.UNPIN:
                return partial(self._places.unpin, *command.places.tolist())
            case CopyKind.IDENTIFY:
                return self._identify
        return None

    @cached_property
    def _places(self) -> SharedPlaces:
        """The memory. Rank 0 sets the size before the first command."""
        return SharedPlaces(self._blocks, self._transfer.block_bytes, self._size)

    def _finish(self, number: int, finish: Callable[[], Any]) -> None:
        value, message = None, ""
        try:
            value = finish()
        except Exception as error:
            message = f"{type(error).__name__}: {first_line(error)}"
        if number:
            self._confirm(number, value, message)


def _find_not_finite(wait: Callable[[], ReadBlocks]) -> list[int]:
    """Wait for a copy. Returns the numbers of the blocks without finite values."""
    numbers: list[int] = np.flatnonzero(~wait().finite).tolist()
    return numbers


def _raise(error: Exception) -> NoReturn:
    raise error
