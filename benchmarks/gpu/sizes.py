"""Sizes in the benchmark of single kernels: mixtures of experts, products of Llama-8B and of other
models, logits."""

from __future__ import annotations

from typing import Any, NamedTuple

from .clock import Clock, copies, eagerly, in_a_graph
from .shapes import LLAMA_8B


class Mixture(NamedTuple):
    experts: int
    choices: int
    hidden: int
    inner: int


class Product(NamedTuple):
    """A weight [columns, size]. norm: its input is normed; gated: its halves are gate and up;
    added: to a residual. heads: of queries, of keys, and their size: the product is rotated, and
    keys and values are stored."""

    columns: int
    size: int
    norm: bool = False
    gated: bool = False
    added: bool = False
    heads: tuple[int, int, int] | None = None


def layer(heads: tuple[int, int, int], hidden: int, inner: int) -> dict[str, Product]:
    """The products of a layer of a Llama."""
    query, kv, dim = heads
    return {
        "q, k, v": Product((query + 2 * kv) * dim, hidden, norm=True, heads=heads),
        "o": Product(hidden, query * dim, added=True),
        "gate, up": Product(2 * inner, hidden, norm=True, gated=True),
        "down": Product(hidden, inner, added=True),
    }


class Sizes(NamedTuple):
    """What is measured: tokens of mixtures, rows of products, and of products of few rows, of
    `models` too, rows of logits."""

    mixtures: dict[str, Mixture]
    tokens: tuple[int, ...]
    products: dict[str, Product]
    rows: tuple[int, ...]
    few_rows: tuple[int, ...]
    models: dict[str, dict[str, Product]]
    sampled: tuple[int, ...]
    vocab: int


HEADS_8B = LLAMA_8B.heads, LLAMA_8B.kv_heads, LLAMA_8B.head_dim
PRODUCTS_8B = layer(HEADS_8B, LLAMA_8B.hidden, LLAMA_8B.intermediate)

FULL = Sizes(
    {"Mixtral 8x7B": Mixture(8, 2, 4096, 14336), "Qwen3 30B-A3B": Mixture(128, 8, 2048, 768)},
    (1, 8, 64, 256, 4096),
    PRODUCTS_8B | {"logits": Product(LLAMA_8B.vocab, LLAMA_8B.hidden)},
    (1, 8, 64, 256, 1024, 8192),
    (1, 2, 4, 8, 16, 32, 64),
    {
        "0.5B": layer((14, 2, 64), 896, 4864),
        "1B": layer((32, 8, 64), 2048, 8192),
        "4B": layer((32, 8, 128), 2560, 9728),
        "8B": PRODUCTS_8B,
        "14B": layer((40, 8, 128), 5120, 17408),
        "shared expert": {
            "gate, up": Product(2 * 1408, 2048, norm=True, gated=True),
            "down": Product(2048, 1408, added=True),
        },
    },
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

    def weights(self, *products: Product) -> list[list[Any]]:
        """Return copies of a weight per product, enough to exceed the cache."""
        first = [
            self.normal(product.columns, product.size, width=product.size**-0.5)
            for product in products
        ]
        size = sum(weight.numel() * weight.element_size() for weight in first)
        return [first, *([weight.clone() for weight in first] for _ in range(copies(size) - 1))]
