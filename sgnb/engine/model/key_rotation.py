"""Rotation of cached keys to other positions, verified per layer against computed keys.

The keys of a text at positions p + n are the keys at positions p, rotated by n times the rotary
frequencies, if all layers see relative positions only. `find_rotation` computes a random text at
two distant places and accepts a model only if rotated keys equal computed keys, and values
do not depend on positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..attention.torch_backend import TorchAttention
from ..cache.kv_cache import KVCache, LayerShape
from ..step_input import NO_KEY, AttentionInput
from .layer_probe import LayerProbe
from .logit_check import relative_error

TOKENS = 16
"""Length of the probed text."""

MAX_SHIFT = 8192
"""Largest probed distance: in float32, angles of later positions are rounded by more than 0.0005
radians."""

TOLERANCE = 1e-3
HALF_TOLERANCE = 0.1
"""Accepted relative error of keys and values: worst token, or median token in half precision."""

FREQUENCIES = "inv_freq"
"""End of the name of a buffer with rotary frequencies, in radians per position."""


class LayerRotation(NamedTuple):
    """Rotation of the keys of one layer.

    Attributes:
        frequencies: Radians per position, float64[pairs]. The first 2 * pairs dimensions rotate.
        neighbours: Dimensions 2i and 2i + 1 are a pair; otherwise i and i + pairs.
    """

    frequencies: Tensor
    neighbours: bool

    def apply(self, keys: Tensor, shift: int) -> Tensor:
        """Return keys [tokens, heads, dim] rotated by `shift` positions."""
        angles = shift * self.frequencies
        cos, sin = angles.cos().float(), angles.sin().float()
        size = 2 * len(angles)
        if self.neighbours:
            first, second = slice(0, size, 2), slice(1, size, 2)
        else:
            first, second = slice(0, size // 2), slice(size // 2, size)

        result, a, b = keys.clone(), keys[..., first].float(), keys[..., second].float()
        result[..., first] = (a * cos - b * sin).to(keys.dtype)
        result[..., second] = (b * cos + a * sin).to(keys.dtype)
        return result


class KeyRotation:
    """Rotation of the keys of all layers.

    Args:
        shapes: KV shape of each layer.
        dtype: Dtype of keys and values.
        layers: Rotation of each layer; None for keys that do not depend on the position.
    """

    def __init__(
        self,
        shapes: dict[int, LayerShape],
        dtype: torch.dtype,
        layers: dict[int, LayerRotation | None],
    ) -> None:
        self._shapes, self._dtype, self._layers = shapes, dtype, layers

    def rotate(self, content: Tensor, shift: int) -> None:
        """Rotate the keys of slots in place.

        Args:
            content: uint8[tokens, unit_bytes], as written by `KVCache.copy`.
            shift: New position minus old position.
        """
        for layer, columns in self._columns():
            rotation = self._layers[layer]
            if rotation is not None:
                keys = self._keys(content, layer, columns)
                rotated = rotation.apply(keys, shift).flatten(1)
                content[:, columns] = rotated.view(torch.uint8)

    def errors(self, content: Tensor, expected: Tensor) -> tuple[float, float]:
        """Return the relative error of the keys of slots, median over the tokens, in the first
        layer and in the worst layer. Keys of the first layer depend on token and position only.

        Args:
            content, expected: uint8[tokens, unit_bytes], as written by `KVCache.copy`.
        """
        errors = []
        for layer, columns in self._columns():
            keys, exact = (self._keys(x, layer, columns).flatten(1) for x in (content, expected))
            size = exact.float().norm(dim=1).clamp(min=1e-6)
            errors.append(((keys.float() - exact.float()).norm(dim=1) / size).median())
        return float(errors[0]), float(torch.stack(errors).max())

    def _columns(self) -> Iterator[tuple[int, slice]]:
        """Yield each layer with the bytes of its keys in a slot."""
        begin = 0
        for layer, shape in self._shapes.items():
            end = begin + shape.heads * shape.key_dim * self._dtype.itemsize
            yield layer, slice(begin, end)
            begin = end

    def _keys(self, content: Tensor, layer: int, columns: slice) -> Tensor:
        shape = self._shapes[layer]
        keys = content[:, columns].contiguous().view(self._dtype)
        return keys.view(len(content), shape.heads, shape.key_dim)


def find_rotation(model: PreTrainedModel, probe: LayerProbe, context_length: int) -> KeyRotation:
    """Return the rotation of a model's keys.

    Args:
        model: Model with sgnb's attention.
        probe: KV shapes of the layers.
        context_length: Maximum number of positions.

    Raises:
        ValueError: The keys or values of a layer depend on positions in another way.
    """
    shift = min(context_length, MAX_SHIFT) - TOKENS
    if shift < TOKENS:
        raise ValueError(f"its context of {context_length} tokens is too short")
    kv, near, far = _probe(model, probe, shift)
    candidates = list(_candidates(model))
    tolerance = HALF_TOLERANCE if probe.dtype.itemsize < 4 else TOLERANCE
    layers: dict[int, LayerRotation | None] = {}
    for layer in probe.shapes:
        values = kv.values[layer]
        if not _error(values[near], values[far]) <= tolerance:
            raise ValueError(f"the values of layer {layer} depend on absolute positions")

        old, new = kv.keys[layer][near], kv.keys[layer][far]
        size = old.shape[-1]
        fits = (r for r in candidates if 2 * len(r.frequencies) <= size)
        errors: dict[LayerRotation | None, float] = {None: _error(old, new)}
        errors |= {rotation: _error(rotation.apply(old, shift), new) for rotation in fits}
        layers[layer] = best = min(errors, key=lambda rotation: errors[rotation])
        if not errors[best] <= tolerance:
            raise ValueError(f"rotated keys of layer {layer} differ from computed keys")
    return KeyRotation(probe.shapes, probe.dtype, layers)


def _probe(model: PreTrainedModel, probe: LayerProbe, shift: int) -> tuple[KVCache, Tensor, Tensor]:
    """Compute a random text at positions 0 .. and `shift` .. Returns the cache with the slots of
    both."""
    generator = torch.Generator().manual_seed(0)
    vocab: int = model.get_input_embeddings().weight.shape[0]  # type: ignore[index, assignment]
    tokens = torch.randint(vocab, (TOKENS,), generator=generator)
    kv = KVCache(probe.shapes, 2 * TOKENS, probe.dtype, model.device)
    backend = TorchAttention(kv)
    slots = np.arange(2 * TOKENS, dtype=np.int32)
    backend.plan(
        AttentionInput(
            starts=np.zeros(2, np.int64),
            lengths=np.full(2, TOKENS),
            new_slots=slots,
            kv_slots=[slots[:TOKENS], slots[TOKENS:]],
            keys=[NO_KEY] * 2,
        )
    )
    positions = torch.arange(TOKENS)
    model(
        input_ids=tokens.repeat(2)[None].to(model.device),
        position_ids=torch.cat([positions, positions + shift])[None].to(model.device),
        use_cache=False,
        attention_mask=torch.zeros(1, 1, 1, 1, device=model.device),
        sgnb=backend,
    )
    places = positions.to(model.device)
    return kv, places, places + TOKENS


def _candidates(model: PreTrainedModel) -> Iterator[LayerRotation]:
    """Yield a rotation for each kind of frequencies in the model, and each pairing."""
    found: dict[bytes, Tensor] = {}
    for name, buffer in model.named_buffers():
        if name.endswith(FREQUENCIES) and buffer.dim() == 1:
            found.setdefault(buffer.double().cpu().numpy().tobytes(), buffer.double())
    for frequencies in found.values():
        yield LayerRotation(frequencies, neighbours=False)
        yield LayerRotation(frequencies, neighbours=True)


def _error(rows: Tensor, expected: Tensor) -> float:
    """Return the relative error of keys or values [tokens, heads, dim]."""
    return relative_error(rows.flatten(1), expected.flatten(1))
