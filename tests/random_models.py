"""Small random-weight models of many families, to compare sgnb's engine with transformers' own
`generate`."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

VOCAB = 97
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
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
    "qwen3_moe": ({"num_experts": 4, "moe_intermediate_size": 32, "num_experts_per_tok": 2}, ()),
    "phi": ({}, NO_HEAD_DIM),
    "phi3": ({}, ()),
    "olmo2": ({}, ()),
    "granite": ({}, ()),
    "gpt2": ({}, MULTI_HEAD),
    "gpt_neox": ({}, NO_HEAD_DIM),
    "opt": ({"ffn_dim": 96, "word_embed_proj_dim": 64}, MULTI_HEAD),
    "smollm3": ({}, ()),
    "gpt_oss": ({"num_local_experts": 4, "sliding_window": 8}, ()),
    "starcoder2": ({}, ()),
    "deepseek_v3": (
        {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
         "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "n_group": 1, "topk_group": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1},
        NO_HEAD_DIM,
    ),
    "glm4": ({}, ()),
    "cohere": ({}, ()),
    "exaone4": ({"sliding_window": 8}, ()),
    "ernie4_5": ({}, ()),
    "qwen2_moe": (
        {"num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
         "num_experts_per_tok": 2, "use_sliding_window": True, "sliding_window": 8,
         "max_window_layers": 1},
        (),
    ),
    "phimoe": ({"num_local_experts": 4, "sliding_window": 8}, ()),
    "stablelm": ({}, NO_HEAD_DIM),
    "nemotron": ({}, ()),
    "gptj": ({"rotary_dim": 8, "n_inner": 96}, (*MULTI_HEAD, "intermediate_size")),
    "codegen": ({"rotary_dim": 8, "n_inner": 96}, (*MULTI_HEAD, "intermediate_size")),
    "gpt_neo": (
        {"attention_types": [[["global", "local"], 1]], "window_size": 8},
        ("head_dim", "num_key_value_heads"),
    ),
    "falcon": ({"new_decoder_architecture": True, "num_kv_heads": 2}, NO_HEAD_DIM),
    "deepseek_v2": (
        {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
         "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "n_group": 1, "topk_group": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1},
        NO_HEAD_DIM,
    ),
}  # fmt: skip
"""Family -> (settings of its config over the common ones, common ones it does not take)."""


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "doge": ({"keep_window_size": 8}, ()),
    "diffllama": ({}, ()),
}
"""What sgnb cannot run, in the same form."""


def random_model(family: str = "llama", **config: Any) -> PreTrainedModel:
    """A float32 model on the CPU, made anew, with the same weights every time; `config` is put over
    the family's."""
    extra, dropped = (FAMILIES | REFUSED)[family]
    settings = {k: v for k, v in (COMMON | extra).items() if k not in dropped} | config
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        CONFIG_MAPPING[family](**settings), attn_implementation="eager"
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
