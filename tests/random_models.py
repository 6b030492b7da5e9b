"""Small random-weight models of many families, to compare sgnb's engine with transformers' own
`generate`."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

VOCAB = 97
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 96, "intermediate_size": 112, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
    "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
NO_HEAD_DIM = ("head_dim",)
MULTI_HEAD = ("head_dim", "num_key_value_heads")

FAMILIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "llama": ({}, ()),
    "qwen2": ({}, ()),
    "qwen3": ({}, ()),
    "mistral": ({"sliding_window": 8}, ()),
    "gemma": ({}, ()),
    "gemma2": ({"sliding_window": 8}, ()),
    "gemma3_text": ({"sliding_window": 8, "num_hidden_layers": 7}, ()),
    "mixtral": ({"num_local_experts": 4}, ()),
    "qwen3_moe": ({"num_experts": 4, "moe_intermediate_size": 40, "num_experts_per_tok": 2}, ()),
    "phi": ({}, NO_HEAD_DIM),
    "phi3": ({}, ()),
    "olmo2": ({}, ()),
    "granite": ({}, ()),
    "gpt2": ({}, MULTI_HEAD),
    "gpt_neox": ({}, NO_HEAD_DIM),
    "opt": ({"ffn_dim": 112, "word_embed_proj_dim": 80}, (*MULTI_HEAD, "intermediate_size")),
    "smollm3": ({}, ()),
    "gpt_oss": ({"num_local_experts": 4, "sliding_window": 8}, ()),
    "starcoder2": ({}, ()),
    "deepseek_v3": (
        {"num_key_value_heads": 6, "q_lora_rank": 40, "kv_lora_rank": 24, "qk_rope_head_dim": 8,
         "qk_nope_head_dim": 56, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "n_group": 1, "topk_group": 1, "moe_intermediate_size": 72, "first_k_dense_replace": 1},
        NO_HEAD_DIM,
    ),
    "glm4": ({}, ()),
    "cohere": ({}, ()),
    "exaone4": ({"sliding_window": 8}, ()),
    "ernie4_5": ({}, ()),
    "qwen2_moe": (
        {"num_experts": 4, "moe_intermediate_size": 40, "shared_expert_intermediate_size": 48,
         "num_experts_per_tok": 2, "use_sliding_window": True, "sliding_window": 8,
         "max_window_layers": 1},
        (),
    ),
    "phimoe": ({"num_local_experts": 4, "sliding_window": 8}, ()),
    "stablelm": ({}, NO_HEAD_DIM),
    "nemotron": ({}, ()),
    "gptj": ({"rotary_dim": 8, "n_inner": 112}, (*MULTI_HEAD, "intermediate_size")),
    "codegen": (
        {"rotary_dim": 4, "n_inner": 112, "num_attention_heads": 8},
        (*MULTI_HEAD, "intermediate_size"),
    ),
    "gpt_neo": (
        {"attention_types": [[["global", "local"], 1]], "window_size": 8},
        ("head_dim", "num_key_value_heads"),
    ),
    "falcon": ({"new_decoder_architecture": True, "num_kv_heads": 2}, NO_HEAD_DIM),
    "deepseek_v2": (
        {"num_key_value_heads": 6, "q_lora_rank": 40, "kv_lora_rank": 24, "qk_rope_head_dim": 8,
         "qk_nope_head_dim": 56, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "n_group": 1, "topk_group": 1, "moe_intermediate_size": 72, "first_k_dense_replace": 1},
        NO_HEAD_DIM,
    ),
}  # fmt: skip
"""Family -> (settings of its config over the common ones, common ones it does not take)."""


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "doge": ({"keep_window_size": 8, "num_experts_per_tok": 2}, ()),
    "diffllama": ({}, ()),
}
"""What sgnb cannot run, in the same form."""


def random_config(family: str, **settings: Any) -> PreTrainedConfig:
    """Return the family's configuration, with `settings` in addition."""
    extra, dropped = (FAMILIES | REFUSED)[family]
    common = {name: value for name, value in (COMMON | extra).items() if name not in dropped}
    return CONFIG_MAPPING[family](**common | settings)


def random_model(family: str = "llama", **settings: Any) -> PreTrainedModel:
    """Return a new float32 model of `random_config` on the CPU, with the same weights every
    time."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        random_config(family, **settings), attn_implementation="eager"
    )
    # Wider weights than the usual 0.02: the tokens then depend on the whole context.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.mul_(4.0)
    return model.eval()


@cache
def reference_model(family: str = "llama") -> PreTrainedModel:
    """`random_model`, kept with transformers' own attention."""
    return random_model(family)


def greedy(family: str, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """transformers' own greedy continuation of each prompt, one at a time, with eager attention."""
    return continuations(reference_model(family), prompts, new_tokens)


def continuations(
    model: PreTrainedModel, prompts: list[list[int]], new_tokens: int
) -> list[list[int]]:
    """As `greedy`, of any model."""
    return [
        model.generate(
            torch.tensor([p]), attention_mask=torch.ones(1, len(p), dtype=torch.long),
            max_new_tokens=new_tokens, do_sample=False, eos_token_id=None,
        )[0, len(p) :].tolist()
        for p in prompts
    ]  # fmt: skip
