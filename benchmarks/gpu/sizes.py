"""What the benchmark of single kernels measures, and where: mixtures of experts, Llama-8B's products, its logits."""

from __future__ import annotations

from typing import Any, NamedTuple

from .clock import Clock, eagerly, in_a_graph
from .limits import LLAMA_8B

HIDDEN, INNER = LLAMA_8B.hidden, LLAMA_8B.intermediate
HEADS = LLAMA_8B.heads, LLAMA_8B.kv_heads, LLAMA_8B.head_dim
QKV = LLAMA_8B.head_dim * (LLAMA_8B.heads + 2 * LLAMA_8B.kv_heads)


class Mixture(NamedTuple):
    experts: int
    choices: int
    hidden: int
    inner: int


class Product(NamedTuple):
    """A weight [columns, size]. norm: its input is normed; gated: its halves are gate and up; added: to a residual.
    heads: of queries, of keys, and their size: the product is rotated, and keys and values are stored."""

    columns: int
    size: int
    norm: bool = False
    gated: bool = False
    added: bool = False
    heads: tuple[int, int, int] | None = None


class Sizes(NamedTuple):
    """What is measured: tokens of mixtures, rows of products and of products of few rows, rows of logits."""

    mixtures: dict[str, Mixture]
    tokens: tuple[int, ...]
    products: dict[str, Product]
    rows: tuple[int, ...]
    few_rows: tuple[int, ...]
    sampled: tuple[int, ...]
    vocab: int


FULL = Sizes(
    {"Mixtral 8x7B": Mixture(8, 2, 4096, 14336), "Qwen3 30B-A3B": Mixture(128, 8, 2048, 768)},
    (1, 8, 64, 256, 4096),
    {
        "q, k, v": Product(QKV, HIDDEN, norm=True, heads=HEADS),
        "o": Product(HIDDEN, HIDDEN, added=True),
        "gate, up": Product(2 * INNER, HIDDEN, norm=True, gated=True),
        "down": Product(HIDDEN, INNER, added=True),
        "logits": Product(LLAMA_8B.vocab, HIDDEN, norm=True),
    },
    (1, 8, 64, 256, 1024, 8192),
    (1, 2, 4, 8),
    (1, 64, 256, 1024),
    LLAMA_8B.vocab,
)

MOST_LOGITS = 1 << 26
"""No larger products are measured: a step makes logits of its last tokens only."""


class Place(NamedTuple):
    """Where and what to measure. graph, eager: the clocks."""

    device: str = "cuda"
    dtype: str = "bfloat16"
    sizes: Sizes = FULL
    graph: Clock = in_a_graph
    eager: Clock = eagerly

    def normal(self, *shape: int, width: float = 1.0) -> Any:
        import torch

        return torch.randn(*shape, device=self.device).mul_(width).to(getattr(torch, self.dtype))
