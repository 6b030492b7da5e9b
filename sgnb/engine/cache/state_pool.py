"""The states of recurrent layers themselves: for each tensor that a layer carries from token to
token one tensor here, one row a state."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .kv_cache import zeros


class StateShape(NamedTuple):
    """One tensor of a layer's state, after one token of one text."""

    kind: str  # "conv": the last inputs of a convolution; "recurrent"
    number: int  # among the layer's tensors of that kind
    shape: tuple[int, ...]
    dtype: torch.dtype


States = dict[int, list[StateShape]]
"""Layer -> what it carries."""


class StatePool:
    """tensors[layer][i]: [states + 2, *shapes[layer][i].shape].

    Row `states` is zeros, what a text begins with, and the last is scratch: rows that only pad a
    batch read and write there.
    """

    def __init__(self, shapes: States, states: int, device: torch.device) -> None:
        self.shapes, self.states, self.device = shapes, states, device
        self.scratch = states + 1
        self.tensors: dict[int, list[Tensor]] = {
            layer: [zeros((states + 2, *each.shape), each.dtype, device) for each in parts]
            for layer, parts in shapes.items()
        }


def bytes_per_state(shapes: States) -> int:
    """All layers' together."""
    return sum(
        math.prod(each.shape) * each.dtype.itemsize for parts in shapes.values() for each in parts
    )
