"""Commands of rank 0 about blocks of all ranks, as arrays of integers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..radix import Ints


class CopyKind(IntEnum):
    """Work of a follower. Negative: steps begin with a number of 0 or more."""

    BEGIN_WRITES = -1  # see `BlockTransfer.begin_writes`
    END_WRITES = -2
    WRITE = -3  # from places to units
    READ = -4  # from units to places; the value is the list of blocks without finite values
    PIN = -5  # memory of places
    UNPIN = -6
    IDENTIFY = -7  # the value is the fingerprint of the follower's weights


NONE: Ints = np.empty(0, np.int32)


class CopyCommand(NamedTuple):
    """A command."""

    kind: CopyKind
    places: Ints = NONE  # of `SharedPlaces`
    units: Ints = NONE  # KV slots of all blocks
    number: int = 0  # of the confirmation; 0 for no confirmation

    def encode(self, number: int) -> list[Ints]:
        """Return the command with a number, as arrays of one dimension."""
        head = [self.kind, number, len(self.places), len(self.units)]
        return [np.array(head, np.int32), self.places, self.units]

    @classmethod
    def decode(cls, message: Ints) -> CopyCommand:
        """Return the command at the begin of a message, copied."""
        kind, number, places, units = message[:4].tolist()
        numbers = message[4 : 4 + places + units].copy()
        return cls(CopyKind(kind), numbers[:places], numbers[places:], number)


class CopyRanks(Protocol):
    """All ranks of an engine. Commands and steps reach the followers in the order of the calls, on
    any thread."""

    size: int  # number of ranks
    blocks: int  # descriptor of the file for `SharedPlaces`

    def tell(self, command: CopyCommand) -> None:
        """Send a command without a confirmation. Ignores a lost rank."""

    def ask(self, command: CopyCommand) -> Callable[[], list[Any]]:
        """Send a command. Returns a function to wait for the followers, with the values by rank.
        The function raises LostRankError for a lost rank, and RuntimeError if a follower failed."""
