"""Small random-weight models with recurrent layers, to compare sgnb's engine with transformers' own
`generate`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from .random_models import VOCAB

Settings = dict[str, Any]

COMMON: Settings = {
    "vocab_size": VOCAB, "hidden_size": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
DECODER = COMMON | {
    "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
MIXED = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
CONVOLUTIONS = {
    "layer_types": ["conv", "full_attention", "conv", "full_attention"], "num_hidden_layers": 4,
}  # fmt: skip
LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 10,
    "linear_value_head_dim": 14,
}  # fmt: skip
DELTA_NET = LINEAR | {"head_dim": 16}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SHARED_EXPERT = {"shared_expert_intermediate_size": 28}
MAMBA = COMMON | {"num_hidden_layers": 2, "state_size": 7, "time_step_rank": 11}
MAMBA_2 = {"mamba_n_heads": 4, "mamba_d_state": 7, "mamba_n_groups": 2, "mamba_chunk_size": 9}
LATENT = {
    "num_key_value_heads": 6, "kv_lora_rank": 18, "qk_rope_head_dim": 14, "qk_nope_head_dim": 12,
    "v_head_dim": 10, "n_group": 1, "topk_group": 1, "num_local_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24,
}  # fmt: skip

HYBRIDS: dict[str, Settings] = {
    "qwen3_next": DECODER | MIXED | DELTA_NET | EXPERTS | SHARED_EXPERT,
    "qwen3_5_text": DECODER | MIXED | DELTA_NET,
    "qwen3_5_moe_text": DECODER | MIXED | DELTA_NET | EXPERTS | SHARED_EXPERT,
    "olmo_hybrid": DECODER | MIXED | LINEAR,
    "kimi_linear": DECODER | MIXED | LATENT | {"linear_head_dim": 16, "linear_num_heads": 4},
    "bailing_hybrid": DECODER | MIXED | LATENT | {
        "kda_safe_gate": False, "linear_head_dim": 22, "linear_num_heads": 5,
        "layer_group_size": 9,
    },
    "minimax": DECODER | MIXED | {"head_dim": 10, "block_size": 9, "num_local_experts": 4},
    "jamba": DECODER | {
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2,
        "mamba_d_state": 7, "mamba_dt_rank": 11,
    },
    "bamba": DECODER | MAMBA_2 | {"attn_layer_indices": [1]},
    "granitemoehybrid": DECODER | MIXED | MAMBA_2 | {
        "num_local_experts": 4, "shared_intermediate_size": 28, "attention_multiplier": 0.35,
    },
    "falcon_h1": DECODER | MAMBA_2 | {"mamba_d_ssm": 72, "mamba_d_head": 18},
    "nemotron_h": COMMON | {
        "layers_block_type": ["linear_attention", "full_attention", "mlp", "linear_attention"],
        "intermediate_size": 56, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
        "ssm_state_size": 7, "mamba_num_heads": 4, "mamba_head_dim": 18, "n_groups": 2,
        "chunk_size": 9, "moe_intermediate_size": 40, "moe_shared_expert_intermediate_size": 44,
    },
    "zamba": DECODER | {
        "num_hidden_layers": 4, "mamba_d_state": 7,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "zamba2": DECODER | {
        "num_hidden_layers": 4, "mamba_d_state": 7, "n_mamba_heads": 4,
        "mamba_ngroups": 2, "chunk_size": 9, "use_mem_rope": True, "num_mem_blocks": 1,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "mamba": MAMBA,
    "falcon_mamba": MAMBA,
    "mamba2": MAMBA | {"num_heads": 4, "head_dim": 24, "n_groups": 2, "chunk_size": 9},
    "lfm2": DECODER | CONVOLUTIONS | {"block_multiple_of": 8},
    "lfm2_moe": DECODER | CONVOLUTIONS | EXPERTS | {"num_dense_layers": 1},
    "lfm3": DECODER | {
        "layer_types": ["conv", "sliding_attention", "conv", "full_attention"],
        "num_hidden_layers": 4, "head_dim": 10, "sliding_window": 8,
    },
    "zaya": DECODER | {
        "head_dim": 20, "num_experts": 4, "moe_intermediate_size": 24, "router_hidden_size": 16,
        "layer_types": ["hybrid"] * 3,
    },
    "recurrent_gemma": DECODER | {"attention_window_size": 9, "head_dim": 10, "lru_width": 48},
}  # fmt: skip
"""Family -> its config: at least one recurrent layer, and attention where the family has it."""

THREE = "qwen3_next", "granitemoehybrid", "mamba"
"""A gated delta net and a state space model, both with attention, and one without."""

GAIN = 2.0
SMALL_GAIN = {"lfm2": 1.0, "lfm2_moe": 1.0, "zamba2": 1.0}
"""Of the matrices: tokens then depend on the whole context. Less where only attention looks far,
which must not be sharp, and where rounding in bfloat16 would be all that is left."""

DECAY = 0.01
"""Of a state at each token: random layers forget within a few."""


def hybrid_config(family: str, **settings: Any) -> PreTrainedConfig:
    """Return the family's configuration, with `settings` in addition."""
    return CONFIG_MAPPING[family](**HYBRIDS[family] | settings)


def hybrid_model(family: str, **settings: Any) -> PreTrainedModel:
    """Return a new float32 model of `hybrid_config` on the CPU, with the same weights every
    time."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        hybrid_config(family, **settings), attn_implementation="eager"
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _widen(name, parameter, SMALL_GAIN.get(family, GAIN))
    return model.eval()


def _widen(name: str, parameter: Tensor, gain: float) -> None:
    if name.endswith("A_log"):
        parameter.fill_(math.log(DECAY))
    elif name.endswith(("dt_bias", "dt_proj.bias", "dt_proj_bias", "qk_norm.temp")):
        parameter.fill_(1.0)
    elif parameter.dim() > 1 and not name.endswith((".D", "_bias")):
        parameter.mul_(gain * parameter.shape[-1] ** -0.5 / parameter.std())
