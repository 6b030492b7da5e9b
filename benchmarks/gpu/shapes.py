"""The models that the GPU benchmarks run, as data: their sizes, and what follows from them: bytes,
operations, a config.json. Knows neither torch nor transformers; `model` makes the models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

TYPE_BYTES = 2
"""Of a weight, key or value: all are bfloat16."""

TOKENIZER_SIZE = 131_072
"""Tokens of the large tokenizer. No prompt has token ids beyond, whatever the vocabulary."""

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6,
    },
    "gemma3_text": {
        "architectures": ["Gemma3ForCausalLM"],
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "qwen3_moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
}
"""transformers' model_type -> what a config.json of the family says besides sizes."""


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes. Biases and norms are too small to count."""

    title: str
    family: str  # a key of FAMILIES
    hidden: int
    intermediate: int  # of an expert, where there are several
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int = 32768  # what the engines are told that it was made for
    tied: bool = False  # the embedding is the last product's weight too
    window: int | None = None  # tokens that a layer with a sliding window sees
    full_every: int = 1  # every so many layers, the last has no window
    experts: int = 1
    active: int = 1  # experts that a token is sent to

    @property
    def name(self) -> str:
        """As --shape takes it."""
        return self.title.lower()

    @property
    def token_ids(self) -> int:
        """The workloads draw token ids below this."""
        return min(self.vocab, TOKENIZER_SIZE)

    @property
    def windows(self) -> tuple[tuple[int, float], ...]:
        """Return pairs (number of layers, maximum visible tokens): layers without and with a
        window."""
        if self.window is None:
            return ((self.layers, math.inf),)
        full = self.layers // self.full_every
        return (full, math.inf), (self.layers - full, self.window)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of a token in one layer."""
        return 2 * self.kv_heads * self.head_dim * TYPE_BYTES

    def step_bytes(self, tokens: int) -> float:
        """Weights that a step of so many tokens reads: all but the embedding, and of the experts
        as many as tokens meet that choose independently and evenly."""
        missed = self.experts * (1 - self.active / self.experts) ** tokens
        layers = self.layers * self._layer_parameters(self.experts - missed)
        return TYPE_BYTES * (layers + self.hidden * self.vocab)

    def operations(self, tokens: int, pairs: float, logits: int) -> float:
        """Return the cost of a step, by numbers of tokens, attention `pairs` and logit rows."""
        products = self.layers * self._layer_parameters(self.active) * tokens
        attention = 2 * self.heads * self.head_dim * pairs
        return 2 * (products + attention + self.hidden * self.vocab * logits)

    def pairs(self, begin: int, end: int) -> float:
        """Keys that the tokens at positions [begin, end) see, themselves included, summed over
        tokens and layers."""
        total = 0.0
        for layers, window in self.windows:
            most = min(window, end)
            turn = max(begin, most)  # from here on the window is full
            total += layers * ((turn - begin) * (begin + turn + 1) / 2 + (end - turn) * most)
        return total

    def _layer_parameters(self, experts: float) -> float:
        """Return the bytes of a layer's matrices with this number of experts."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        router = self.hidden * self.experts if self.experts > 1 else 0
        return attention + router + experts * 3 * self.hidden * self.intermediate

    def config(self) -> dict[str, Any]:
        """As a config.json says it."""
        return FAMILIES[self.family] | self._window_config() | self._expert_config() | {
            "model_type": self.family,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate * self.active,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.positions,
            "tie_word_embeddings": self.tied,
            "torch_dtype": "bfloat16",
            "bos_token_id": 1,
            "eos_token_id": 2,
        }  # fmt: skip

    def _window_config(self) -> dict[str, Any]:
        if self.window is None:
            return {}
        return {
            "sliding_window": self.window,
            "sliding_window_pattern": self.full_every,
            "query_pre_attn_scalar": self.head_dim,
        }

    def _expert_config(self) -> dict[str, Any]:
        if self.experts == 1:
            return {}
        return {
            "num_experts": self.experts,
            "num_experts_per_tok": self.active,
            "moe_intermediate_size": self.intermediate,
        }


LLAMA_8B = Shape(
    "Llama-8B", "llama", hidden=4096, intermediate=14336, layers=32, heads=32, kv_heads=8,
    head_dim=128, vocab=131072,
)  # fmt: skip
QWEN3_06B = Shape(
    "Qwen3-0.6B", "qwen3", hidden=1024, intermediate=3072, layers=28, heads=16, kv_heads=8,
    head_dim=128, vocab=151936, tied=True,
)  # fmt: skip
GEMMA_3_4B = Shape(
    "Gemma-3-4B", "gemma3_text", hidden=2560, intermediate=10240, layers=34, heads=8, kv_heads=4,
    head_dim=256, vocab=262144, tied=True, window=1024, full_every=6,
)  # fmt: skip
QWEN3_30B_A3B = Shape(
    "Qwen3-30B-A3B", "qwen3_moe", hidden=2048, intermediate=768, layers=48, heads=32, kv_heads=4,
    head_dim=128, vocab=151936, experts=128, active=8,
)  # fmt: skip
SHAPES = {shape.name: shape for shape in (LLAMA_8B, QWEN3_06B, GEMMA_3_4B, QWEN3_30B_A3B)}

TOY = replace(
    LLAMA_8B, hidden=64, intermediate=96, layers=2, heads=4, kv_heads=2, head_dim=16, vocab=512,
    positions=2048,
)  # fmt: skip
_TOY_SIZES: dict[str, Any] = {
    "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32, "vocab": 512,
    "positions": 2048,
}  # fmt: skip
TOYS = {
    toy.name: toy
    for toy in (
        TOY,
        replace(QWEN3_06B, **_TOY_SIZES, intermediate=96),
        replace(GEMMA_3_4B, **_TOY_SIZES | {"layers": 6}, intermediate=96, window=8),
        replace(QWEN3_30B_A3B, **_TOY_SIZES, intermediate=32, experts=8, active=2),
    )
}
"""The same names, with sizes for a CPU."""
