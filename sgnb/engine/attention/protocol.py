"""Interface of the attention backends."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from ..cache.kv_cache import KVCache
    from ..step_input import AttentionInput


class LayerOptions(NamedTuple):
    """Attention options of a layer, besides q, k and v."""

    scaling: float  # factor of the scores
    window: int | None = None  # a token sees itself and the `window` - 1 before it
    softcap: float | None = None  # scores become softcap * tanh(score / softcap)
    sinks: Tensor | None = None  # float[heads], a score in the softmax that has no value


class AttentionBackend(Protocol):
    """Interface of the attention backends.

    `plan` fixes the new tokens of a step and their KV slots; each layer then calls `store` and
    `attend`. Rows are the T new tokens of the step.
    """

    name: str  # display name
    kv: KVCache
    # int64[T], KV slots of the new rows, for callers that write to the pool directly
    new_slots: Tensor

    @property
    def has_cascade(self) -> bool:
        """True if the last step read a shared prefix once for several sequences."""
        ...

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        """Prepare a step.

        Args:
            step: The new tokens and the KV of their sequences.
            padded: Number of rows after padding, only for causal sequences. The launches of `store`
                and `attend` then depend only on `padded` and `graph_key`, so a CUDA graph of them
                can be replayed after later plans.
        """
        ...

    def precompile(self, rows: int) -> None:
        """Plan `rows` padding rows and every kernel that a step may need. Call instead of `plan`
        within a `precompiling` block."""
        ...

    @property
    def graph_key(self) -> Hashable:
        """Key of the kernels that the planned step launches, besides the number of rows."""
        ...

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write k and v, [T, kv heads, dim] with a contiguous last dimension, to the pool of
        `layer`."""
        ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        """Return the attention of q, [T, heads, dim] with a contiguous last dimension, to the
        visible tokens: [T, heads, v's dim]."""
        ...
