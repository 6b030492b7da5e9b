"""Handover of a cached prefix to another engine with the same weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ...errors import OptionError, nearest
from .manager import CacheManager
from .radix import Ints


class AnyPrefix(Protocol):
    """A prefix in this process or in another process; attributes as in `CachedPrefix`."""

    @property
    def tokens(self) -> Ints: ...

    @property
    def content(self) -> Tensor: ...

    @property
    def layout(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, eq=False)
class CachedPrefix:
    """Keys and values of a prefix.

    Attributes:
        tokens: Token ids, int32[n].
        content: uint8[n, unit_bytes], as written by `Storage.copy`.
        layout: Fingerprint of the weights, dtype and storage format.
    """

    tokens: Ints
    content: Tensor
    layout: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return self.content.nbytes


def export_prefix(
    cache: CacheManager,
    tokens: Ints,
    namespace: str,
    device: torch.device,
    layout: tuple[str, ...],
) -> CachedPrefix:
    """Copy the longest cached prefix of `tokens` to new memory of the device. Call on the engine's
    thread.

    Raises:
        OptionError: The model has recurrent layers.
    """
    _check_payloads(cache)
    prefix = cache.tree.peek(tokens, namespace)
    slots = prefix.node.path_slots()
    if prefix.child is not None:
        slots = np.concatenate([slots, prefix.child.slots])[: prefix.length]
    staged = torch.empty((len(slots), cache.slots.unit_bytes), dtype=torch.uint8, device=device)
    cache.slots.copy(slots, staged)
    if device.type == "cuda":  # other threads read the copy
        torch.cuda.current_stream(device).synchronize()
    return CachedPrefix(tokens[: prefix.length].copy(), staged, layout)


def adopt_prefix(
    cache: CacheManager,
    prefix: CachedPrefix,
    namespace: str,
    device: torch.device,
    layout: tuple[str, ...],
) -> int:
    """Insert a prefix of another engine into the tree. Call on the engine's thread.

    Evicts less valuable nodes if needed. Without room the tree stays as before.

    Returns:
        Number of new cached tokens.

    Raises:
        OptionError: The layouts differ, the content does not fit the tokens, or the model has
            recurrent layers.
    """
    _check_payloads(cache)
    content, size = prefix.content, len(prefix.tokens)
    if content.dtype != torch.uint8 or content.ndim != 2 or len(content) != size:
        message = f"a prefix of {size} tokens has content of {tuple(content.shape)}"
        raise OptionError(f"{message} in {content.dtype}", "give the result of export_prefix")
    if prefix.layout != layout or content.shape[1] != cache.slots.unit_bytes:
        message = f"a prefix of weights {' '.join(prefix.layout)} does not fit {' '.join(layout)}"
        raise OptionError(message, "hand over between engines with the same model and options")

    tree = cache.tree
    node = tree.match(prefix.tokens, namespace)
    begin, count = node.end, size - node.end
    if not count:
        return 0
    tree.lock(node)
    try:
        has_room = cache.slots.available + tree.evictable >= count
        slots = cache.allocate(count) if has_room else None
        if slots is None:
            return 0
        try:
            with torch.inference_mode():
                cache.slots.restore(slots, content[begin:].to(device))
        except BaseException:  # for example out of memory
            cache.slots.free(slots)
            raise
        all_slots = np.concatenate([node.path_slots(), slots])
        tree.insert(prefix.tokens, all_slots, namespace, node)
    finally:
        tree.unlock(node)
    return count


def check_transport(name: str, names: Collection[str]) -> None:
    """Raise OptionError for a transport not in `names`."""
    if name not in names:
        message = f"no transport of prefixes is called {name[:40]!r}"
        raise OptionError(message, nearest(name, list(names)))


def _check_payloads(cache: CacheManager) -> None:
    if cache.checkpoints is not None:
        message = "a prefix of a model with recurrent layers cannot be handed over"
        raise OptionError(message, "let the other engine compute the prefix")
