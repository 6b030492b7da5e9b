"""Interface of the contents of radix tree nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Storage(Protocol):
    """Tensors with one row per unit of a payload."""

    @property
    def unit_bytes(self) -> int:
        """Size of a unit."""

    def copy(self, ids: NDArray[np.int32], destination: Any) -> None:
        """Copy the content of units.

        Args:
            ids: Units to copy, int32[n].
            destination: Tensor uint8[n, unit_bytes] on any device.
        """

    def take(self, ids: NDArray[np.int32]) -> Callable[[Any], None]:
        """Take the present content of units in host memory, without packing.

        Args:
            ids: Units to take, int32[n].

        Returns:
            A function that writes the content to a tensor, as `copy` does, on any thread.
        """

    def restore(self, ids: NDArray[np.int32], source: Any) -> None:
        """Write the content of units.

        Args:
            ids: Units to write, int32[n].
            source: Tensor uint8[n, unit_bytes] on the units' device, as written by `copy`.
        """


class Payload(Storage, Protocol):
    """A kind of content in units of fixed size, each with an integer id.

    KV slots have one unit per token of a node (`RadixNode.slots`). Other payloads, such as states
    of recurrent layers, are attached to a node (`RadixTree.attach`) with any number of units.
    """

    @property
    def available(self) -> int:
        """Number of units available to `allocate`."""

    def allocate(self, count: int) -> NDArray[np.int32]:
        """Take `count` units.

        Raises:
            MemoryError: If fewer units are available.
        """

    def free(self, ids: NDArray[np.int32]) -> None:
        """Give units back. Each unit must be allocated and without a user."""
