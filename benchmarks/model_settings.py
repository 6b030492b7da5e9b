"""Names of the sizes in transformers' configurations, and settings that single model types need.
Knows no values: `model_shapes` draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Settings = dict[str, Any]
Sizes = dict[str, int]
"""Drawn sizes by the keys of `NAMES`."""

VOCAB, CONTEXT = 97, 250
"""The tokens that every drawn vocabulary has, and the positions of every model."""

NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "embedding_dim"),
    "inner": (
        "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "decoder_ffn_dim", "dff",
        "dim_ff", "dense_intermediate_size",
    ),
    "encoder_inner": ("encoder_ffn_dim",),
    "layers": (
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers",
        "num_decoder_layers",
    ),
    "encoder_layers": ("encoder_layers", "num_encoder_layers"),
    "heads": (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
        "num_decoder_attention_heads", "attention_heads",
    ),
    "encoder_heads": ("encoder_attention_heads", "num_encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "kv_n_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "vocab": ("vocab_size", "vocab_size_per_layer_input", "unpadded_vocab_size"),
    "context": (
        "max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions",
        "max_source_positions", "model_max_length",
    ),
    "window": (
        "sliding_window", "window_size", "attention_window_size", "sliding_window_size",
        "keep_window_size", "local_attention",
    ),
    "chunk": ("attention_chunk_size", "chunk_size", "mamba_chunk_size"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "chosen": (
        "num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_experts_per_token",
    ),
    "expert_inner": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared_inner": (
        "shared_expert_intermediate_size", "shared_intermediate_size",
        "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size",
    ),
    "kv_rank": ("kv_lora_rank",),
    "q_rank": ("q_lora_rank",),
    "rotary_dim": ("rotary_dim", "qk_rope_head_dim"),
    "plain_dim": ("qk_nope_head_dim",),
    "value_dim": ("v_head_dim",),
    "layer_width": ("hidden_size_per_layer_input",),
    "linear_key_heads": ("linear_num_key_heads",),
    "linear_value_heads": ("linear_num_value_heads", "linear_num_heads"),
    "linear_key_dim": ("linear_key_head_dim", "linear_head_dim"),
    "linear_value_dim": ("linear_value_head_dim",),
    "kernel": (
        "linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", "conv_kernel_size",
        "conv1d_width", "short_conv_kernel_size",
    ),
    "state": ("mamba_d_state", "ssm_state_size", "state_size"),
    "mamba_groups": ("mamba_n_groups", "mamba_ngroups"),
    "mamba_heads": ("mamba_n_heads",),
    "index_heads": ("index_n_heads",),
    "index_dim": ("index_head_dim",),
    "time_rank": ("time_step_rank", "mamba_dt_rank"),
    "router": ("router_hidden_size",),
    "embedding": ("word_embed_proj_dim",),
}  # fmt: skip
"""Size -> settings of this meaning."""

CONSTANTS: Settings = (
    dict.fromkeys(("pad_token_id", "decoder_start_token_id"), 0)
    | dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1)
    | {
        "bos_token_id": 1, "eos_token_id": 2, "use_sliding_window": True, "max_window_layers": 2,
        "tie_word_embeddings": False, "is_decoder": True, "forced_eos_token_id": None, "depth": 1,
    }
)  # fmt: skip
"""Settings with the same value in every shape."""

KINDS = "sliding_attention", "full_attention"

Special = Callable[[Sizes, int], Settings]


def _cohere_compass(sizes: Sizes, draw: int) -> Settings:
    quarter = sizes["head_dim"] // 4
    sections = [quarter, quarter // 2, quarter // 2]
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    return {"rope_parameters": dict.fromkeys(KINDS, rope)}


def _mimo(sizes: Sizes, draw: int) -> Settings:
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    heads = 4 * sizes["kv_heads"]  # sliding layers have twice the KV heads
    return {"rope_parameters": dict.fromkeys(KINDS, rope), "num_attention_heads": heads}


def _dbrx(sizes: Sizes, draw: int) -> Settings:
    return {
        "attn_config": {"kv_n_heads": sizes["kv_heads"], "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {
            "hidden_size": sizes["hidden"], "ffn_hidden_size": sizes["inner"],
            "moe_num_experts": sizes["experts"], "moe_top_k": sizes["chosen"],
        },
    }  # fmt: skip


def _gpt_neo(sizes: Sizes, draw: int) -> Settings:
    half = sizes["layers"] // 2
    kinds = ["global", "local"]
    return {"attention_types": [[kinds, half]], "attention_layers": kinds * half}


def _gemma4(sizes: Sizes, draw: int) -> Settings:
    """Share KV between layers, use experts, or use keys as values, by draw."""
    settings: Settings = {
        "global_head_dim": sizes["global head_dim"], "num_kv_shared_layers": 2 * (draw % 2),
        "use_double_wide_mlp": draw == 1, "enable_moe_block": draw == 2,
    }  # fmt: skip
    if draw == 3:
        settings |= {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    return settings


def _recurrent_blocks(sizes: Sizes, draw: int) -> Settings:
    kinds = ["linear_attention", "hybrid"] * (sizes["layers"] // 2)
    blocks = range(1, sizes["layers"], 2)
    return {"layers_block_type": kinds, "layer_types": kinds, "hybrid_layer_ids": [*blocks]}


def _mamba2(sizes: Sizes, draw: int) -> Settings:
    heads, groups = sizes["mamba_heads"], sizes["mamba_groups"]
    return {"num_heads": heads, "head_dim": sizes["mamba per head"], "n_groups": groups}


def _nemotron_h(sizes: Sizes, draw: int) -> Settings:
    kinds = ["linear_attention", "full_attention", "mlp", "linear_attention"]
    kinds += ["mlp", "full_attention"][: sizes["layers"] - len(kinds)]
    return {
        "layers_block_type": kinds, "mamba_num_heads": sizes["mamba_heads"], "mamba_head_dim": 18,
        "n_groups": sizes["mamba_groups"],
    }  # fmt: skip


def _alternating(first: str, second: str) -> Special:
    def special(sizes: Sizes, draw: int) -> Settings:
        kinds = [first, second] * (sizes["layers"] // 2)
        return {"layer_types": kinds, "layers_block_type": ...}

    return special


def _fixed(**settings: Any) -> Special:
    return lambda sizes, draw: settings


SPECIAL: dict[str, Special] = {
    "bailing_hybrid": _alternating("linear_attention", "full_attention"),
    "bamba": _fixed(attn_layer_indices=[1, 3], layer_types=...),
    "codegen": _fixed(n_head=4, num_attention_heads=4, rotary_dim=4),
    "cohere_compass_text": _cohere_compass,
    "cpmant": _fixed(prompt_length=33, prompt_types=34, segment_types=35),
    "dbrx": _dbrx,
    "diffllama": lambda sizes, draw: {
        "num_key_value_heads": 2 * sizes["kv_heads"], "num_attention_heads": 4 * sizes["kv_heads"],
        "hidden_size": 32 * sizes["kv_heads"],
    },
    "falcon": _fixed(new_decoder_architecture=True),
    "falcon_h1": lambda sizes, draw: {
        "mamba_d_ssm": sizes["mamba"], "mamba_d_head": sizes["mamba per head"],
        "layers_block_type": ..., "layer_types": ...,
    },
    "gemma3n_text": lambda sizes, draw: {"num_kv_shared_layers": 2 * (draw % 2)},
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
    "gpt_neo": _gpt_neo,
    "gptj": _fixed(rotary_dim=4),
    "granitemoehybrid": _alternating("linear_attention", "full_attention"),
    "helium": lambda sizes, draw: {"head_dim": sizes["hidden per head"]},
    "inkling2_text": _fixed(d_rel=34),
    "inkling_text": _fixed(d_rel=34),
    "jamba": _fixed(attn_layer_period=2, attn_layer_offset=1),
    "kimi_linear": _alternating("linear_attention", "full_attention"),
    "lfm2": _alternating("conv", "full_attention"),
    "lfm2_moe": _alternating("conv", "full_attention"),
    "longcat_flash": lambda sizes, draw: {"head_dim": sizes["rotary_dim"]},
    "mamba2": _mamba2,
    "mimo_v2_flash": _mimo,
    "minimax": _fixed(block_size=8),
    "moshi": lambda sizes, draw: {"sliding_window": sizes["context"]},
    "nemotron_h": _nemotron_h,
    "qwen4_exp_text": _fixed(
        indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=256, indexer_budget=34,
        indexer_compress_ratio=2, ngram_vocab_size_base=101, split_ngram_parts=1,
    ),
    "recurrent_gemma": lambda sizes, draw: {
        "lru_width": sizes["hidden"], "layers_block_type": ..., "layer_types": ...
    },
    "reformer": lambda sizes, draw: {
        "axial_pos_embds_dim": [sizes["hidden"] // 2] * 2, "axial_pos_shape": [16, 16],
        "max_position_embeddings": 256, "num_hidden_layers": 6,
    },
    "xmod": _fixed(default_language="en_XX"),
    "zamba": _recurrent_blocks,
    "zamba2": _recurrent_blocks,
    "zaya": _fixed(num_experts_per_tok=1),
}  # fmt: skip
"""Settings of single model types, from the drawn sizes and the number of the draw."""
