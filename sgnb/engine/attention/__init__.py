"""Attention over the KV pool: planned once a step, run once a layer. A backend is one class and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from ..kv import KVCache
    from ..request import Chunk


class LayerOptions(NamedTuple):
    """What a layer asks of its attention besides q, k and v.

    scaling: factor of the scores. window: a token sees itself and the `window` - 1 before it. softcap: scores become
    softcap * tanh(score / softcap). sinks: float[heads], a score of each head that is in the softmax and has no value.
    """

    scaling: float
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class AttentionBackend(Protocol):
    """`plan` fixes which tokens are computed and where their KV lies; then `run` is called for every layer."""

    name: str

    def plan(self, chunks: list[Chunk]) -> None: ...

    def run(self, layer: int, q: Tensor, k: Tensor, v: Tensor, options: LayerOptions) -> Tensor:
        """Write k and v of the step's T new tokens to the pool; attend.

        q: [1, heads, T, dim]; k, v: [1, kv heads, T, dim]; returns [1, T, heads, v's dim].
        """
        ...


BACKENDS = ("auto", "torch")


def make_backend(name: str, kv: KVCache, *, fork_attention: bool) -> AttentionBackend:
    """The backend called `name`, one of `BACKENDS`; "auto" is the best that works on the pool's device."""
    from .torch_backend import TorchAttention

    return TorchAttention(kv, fork_attention=fork_attention)
