"""Recurrent layers of transformers' models, and their part of transformers' cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, LinearAttentionLayer

from ..cache.state_pool import States, StateShape


@dataclass(frozen=True)
class Mixer:
    """Module with a recurrent state."""

    module: nn.Module
    layer: int
    cache_name: str
    shapes: list[StateShape]
    continues: bool  # supports several tokens at once after a state
    mask_name: str  # argument for a mask of padded texts; empty without support


def shapes_of(mixers: list[Mixer]) -> States:
    return {mixer.layer: mixer.shapes for mixer in mixers}


def support_padding(mixers: list[Mixer]) -> bool:
    """Return whether all mixers support padded texts."""
    return all(mixer.mask_name for mixer in mixers)


class LayerStates(LinearAttentionLayer):
    """States of several texts in one layer, in the form of transformers' cache."""

    conv_states: dict[int, Any]
    recurrent_states: dict[int, Any]

    def __init__(self, shapes: list[StateShape], states: list[Tensor], has_previous: bool) -> None:
        super().__init__(1 + max(shape.number for shape in shapes))
        for shape, state in zip(shapes, states, strict=True):
            if shape.kind == "conv":
                self.conv_states[shape.number] = state
                self.is_conv_states_initialized[shape.number] = True
                self.conv_kernel_size[shape.number] = state.shape[-1]
            else:
                self.recurrent_states[shape.number] = state
                self.is_recurrent_states_initialized[shape.number] = True
            self.has_previous_state[shape.number] = has_previous

    def update_recurrent_state(
        self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any
    ) -> Tensor:
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states

    def now(self, shapes: list[StateShape]) -> list[Tensor]:
        """Return the current states in the order of `shapes`."""
        kinds = {"conv": self.conv_states, "recurrent": self.recurrent_states}
        return [kinds[shape.kind][shape.number] for shape in shapes]


class _Everywhere(list[LinearAttentionLayer]):
    """List with the same layer at every index."""

    def __init__(self, layer: LinearAttentionLayer) -> None:
        super().__init__([layer])

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(0)

    def __len__(self) -> int:
        return 1 << 20


class OneLayerCache(Cache):
    """Cache of the running layer only."""

    def __init__(self, layer: LinearAttentionLayer) -> None:
        self.layers: Any = _Everywhere(layer)


def joined(outputs: list[Any]) -> Any:
    """Concatenate the outputs of single tokens."""
    if isinstance(outputs[0], tuple):
        return tuple(joined(list(column)) for column in zip(*outputs, strict=True))
    return torch.cat(outputs, 1) if isinstance(outputs[0], Tensor) else outputs[0]
