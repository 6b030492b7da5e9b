"""Tensors of recurrent states: a row per state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .kv_cache import zeros
from .packed_rows import PackedRows
from .radix import Ints


class StateShape(NamedTuple):
    """Shape of a layer's state tensor, for a single sequence."""

    kind: str  # "conv" (last inputs of a convolution) or "recurrent"
    number: int  # among the layer's tensors of the same kind
    shape: tuple[int, ...]
    dtype: torch.dtype


States = dict[int, list[StateShape]]
"""Layer -> tensors of its state."""


class StatePool:
    """States of all recurrent layers.

    Row `states` is zeros, the state before the first token. The last row is scratch: padding rows
    of a batch read and write there.

    Attributes:
        tensors: Layer -> tensors [states + 2, *shape], in the order of `shapes[layer]`.
        unit_bytes: Bytes of a state, all layers together.
    """

    def __init__(self, shapes: States, states: int, device: torch.device) -> None:
        self.shapes, self.states, self.device = shapes, states, device
        self.unit_bytes = bytes_per_state(shapes)
        self.scratch = states + 1
        self.tensors: dict[int, list[Tensor]] = {
            layer: [zeros((states + 2, *each.shape), each.dtype, device) for each in parts]
            for layer, parts in shapes.items()
        }
        self._packed = PackedRows([each for parts in self.tensors.values() for each in parts])

    def copy(self, ids: Ints, destination: Tensor) -> None:
        """Copy states to `destination`, uint8[len(ids), unit_bytes], in the order of `tensors`."""
        self._packed.copy(ids, destination)

    def take(self, ids: Ints) -> Callable[[Tensor], None]:
        """See `PackedRows.take`."""
        return self._packed.take(ids)

    def restore(self, ids: Ints, source: Tensor) -> None:
        """Write states, uint8[len(ids), unit_bytes] as written by `copy`."""
        self._packed.restore(ids, source)


def bytes_per_state(shapes: States) -> int:
    """Return the bytes of one state, all layers together."""
    return sum(
        math.prod(each.shape) * each.dtype.itemsize for parts in shapes.values() for each in parts
    )
