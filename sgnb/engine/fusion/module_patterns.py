"""Fusion patterns as data: names of parts, rotary embeddings, orders of a layer's norms.

A matching name is a guess; fusion compares each guess with the module before a replacement.
"""

from __future__ import annotations

from .types import Rotary

ROTARY_SUFFIX = "RotaryEmbedding"
ROTARY_TYPES = {"default", "linear", "llama3", "yarn"}
"""Rotary types with frequencies independent of the text length."""

NORM_SUFFIX = "RMSNorm"
GATED_NORM_SUFFIXES = ("RMSNormGated", "GatedRMSNorm")
NORM_EPS = ("variance_epsilon", "eps")
NORM_VARIANTS = ((0.0, True), (0.0, False), (1.0, False))
"""(added to the weight, rounded before the weight is applied): Llama, OLMo2, Gemma."""

PROJECTIONS = (("q_proj", "k_proj", "v_proj"), ("qkv_proj",))
ATTENTION_OUTPUTS = ("o_proj", "dense", "out_proj")
QUERY_NORM, KEY_NORM = "q_norm", "k_norm"

HALVES = Rotary(interleaved=False, step=1, twice=True)
ROTARIES: tuple[Rotary | None, ...] = (
    HALVES,  # Llama and most others
    Rotary(interleaved=False, step=1, twice=False),  # gpt-oss
    Rotary(interleaved=True, step=1, twice=True),  # GLM4, ERNIE4.5
    Rotary(interleaved=True, step=2, twice=True),  # Cohere
    None,  # layers without positions in SmolLM3 and EXAONE4
)

ENCODER_ROTATION = "apply_rotary_pos_emb_vision"
"""Function of q, k, cos and sin, called by the attention of image encoders."""

GATES = (("gate_proj", "up_proj"), ("gate_up_proj",))
MLP_OUTPUT = "down_proj"
MLP_ACTIVATIONS = ("act_fn", "activation_fn", "act")

ATTENTION, MLP = "self_attn", "mlp"
RESIDUAL_MULTIPLIER = "residual_multiplier"

_INPUT, _POST = "input_layernorm", "post_attention_layernorm"
LAYERS: tuple[tuple[str | None, str | None, str | None, str | None], ...] = (
    (_INPUT, _POST, "pre_feedforward_layernorm", "post_feedforward_layernorm"),  # Gemma 2 and 3
    (_INPUT, "post_self_attn_layernorm", _POST, "post_mlp_layernorm"),  # GLM4
    (None, _POST, None, "post_feedforward_layernorm"),  # OLMo2, EXAONE4
    (_INPUT, None, _POST, None),  # Llama and most others
)
"""Norms before and after attention, before and after the MLP; None without a norm. Names alone are
ambiguous; the comparison with the layer decides."""
