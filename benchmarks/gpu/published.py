"""`python -m benchmarks.gpu.published`: Qwen3.5 and Gemma 4 at their published sizes, with random
weights in bfloat16 on one GPU, against transformers. The script holds the sizes and needs no
network.

The judge of each greedy token is transformers' forward in float32, without a cache, over the
same tokens. The gap of a token is the distance of its logit from the largest logit of the row, in
standard deviations of the row. Rounding to bfloat16 decides between tokens near a tie, and in
random mixtures which experts see a token: the table has the same figures for the tokens of
transformers' `generate` in bfloat16, with a cache. Output projections and post-norms are scaled
down, or the rounding of the embeddings alone would change all logits of a deep random model. Deep
models keep their widths and have fewer layers; a column shows the number.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

from ..common import Report
from .models import (
    MIXTURE_SHARE,
    NEW,
    TOLERANCES,
    draw_prompt,
    forks,
    gaps_below,
    judged,
    own_logits,
    too_far,
)

DELTA_NET = {
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "head_dim": 256, "vocab_size": 248_320,
    "max_position_embeddings": 262_144,
}  # fmt: skip
GEMMA = {
    "head_dim": 256, "global_head_dim": 512, "vocab_size": 262_144, "final_logit_softcapping": 30.0,
}  # fmt: skip
LARGE_GEMMA = GEMMA | {
    "hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "sliding_window": 1024,
    "max_position_embeddings": 262_144,
}  # fmt: skip

PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3.5-27B": ("qwen3_5_text", DELTA_NET | {
        "hidden_size": 5120, "intermediate_size": 17_408, "num_hidden_layers": 64,
        "num_attention_heads": 24, "num_key_value_heads": 4, "linear_num_value_heads": 48,
    }),
    "Qwen3.5-35B-A3B": ("qwen3_5_moe_text", DELTA_NET | {
        "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
        "num_key_value_heads": 2, "linear_num_value_heads": 32, "num_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    }),
    "Gemma 4 E2B": ("gemma4_text", GEMMA | {
        "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35,
        "num_attention_heads": 8, "num_key_value_heads": 1, "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True, "hidden_size_per_layer_input": 256, "sliding_window": 512,
    }),
    "Gemma 4 31B": ("gemma4_text", LARGE_GEMMA | {
        "hidden_size": 5376, "intermediate_size": 21_504, "num_hidden_layers": 60,
        "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4,
    }),
    "Gemma 4 26B-A4B": ("gemma4_text", LARGE_GEMMA | {
        "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30,
        "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2,
        "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8,
        "moe_intermediate_size": 704,
    }),
}  # fmt: skip
"""Name -> model type, and settings of the published text configuration."""

PERIODS = {"Gemma 4 E2B": 5, "Gemma 4 31B": 6, "Gemma 4 26B-A4B": 6}
"""Layers from one layer with full attention to the next; 4 in Qwen3.5."""

LAYERS = {
    "Qwen3.5-27B": 16, "Qwen3.5-35B-A3B": 16, "Gemma 4 31B": 12, "Gemma 4 26B-A4B": 12,
}  # fmt: skip
"""Layers of the models that would take long with every layer."""

DAMPED, DAMPING = (
    "o_proj", "out_proj", "down_proj", "post_attention_layernorm", "post_feedforward_layernorm",
    "post_per_layer_input_norm",
), 0.3  # fmt: skip
"""Parts of names of parameters, and their scale."""

OPTIONS: tuple[dict[str, Any], ...] = ({}, {"max_step_tokens": 96})
"""Options of the engines: prompts whole, and in chunks."""

COLUMNS = (
    "model", "layers", "GB", "tokens", "largest logit", "largest gap", "too far",
    "transformers' generate, a quarter of the tokens: largest logit", "largest gap", "too far",
    "seconds",
)  # fmt: skip


def run() -> Report:
    return run_models(list(PUBLISHED), "auto")


def run_models(names: list[str], device: str, layers: int | None = None) -> Report:
    """Try models in turn. layers: most layers of each model, by default `LAYERS`."""
    import torch
    import transformers

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    bound = TOLERANCES["bfloat16"]
    report = Report(
        f"Published sizes in bfloat16 on {chosen}",
        COLUMNS,
        bar=f"at most {MIXTURE_SHARE:.0%} more tokens of the engine over {bound} standard "
        "deviations below the largest logit than of transformers' generate",
        met=True,
        note=f"Random weights; transformers {transformers.__version__}.",
    )
    for name in names:
        row, good = try_published(name, chosen, layers)
        report.rows.append(row)
        report.met = bool(report.met) and good
        print(*row, sep=" | ", flush=True)
    return report


def try_published(
    name: str, device: str, layers: int | None = None, smaller: dict[str, Any] | None = None
) -> tuple[tuple[Any, ...], bool]:
    """Return a row of the table, and whether the model meets the bar. smaller: settings instead of
    published ones, for a test."""
    import torch

    from sgnb.engine.engine import Engine

    began = time.perf_counter()
    model = published_model(name, device, layers, smaller or {})
    prompts = [*(draw_prompt(i, n) for i, n in enumerate((1, 5, 64, 130, 1100))), *forks()[:4]]
    theirs = [_generate(model, prompt) for prompt in prompts]
    ours: list[tuple[list[int], list[int]]] = []
    for options in OPTIONS:
        with Engine(model, device=device, dtype="bfloat16", **options) as engine:
            for _ in range(2):  # cold, and from the cache
                outputs = engine.generate(
                    prompts, temperature=0, max_new_tokens=NEW, ignore_eos=True
                )
                pairs = zip(prompts, outputs, strict=True)
                ours += [(prompt, output.token_ids) for prompt, output in pairs]

    bound, total = TOLERANCES["bfloat16"], PUBLISHED[name][1]["num_hidden_layers"]
    size = f"{sum(p.nbytes for p in model.parameters()) / 1e9:.1f}"
    model.float()
    gaps = _gaps(model, ours)
    own = _gaps(model, list(zip(prompts, theirs, strict=True)))
    good = too_far(gaps, bound) / len(gaps) <= too_far(own, bound) / len(own) + MIXTURE_SHARE
    used = f"{model.config.num_hidden_layers} of {total}"
    del model
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    row = (name, used, size, len(gaps), *judged(gaps, bound), *judged(own, bound),
           f"{time.perf_counter() - began:.0f}")  # fmt: skip
    return row, good


def published_model(name: str, device: str, layers: int | None, smaller: dict[str, Any]) -> Any:
    """Return the model with random weights, made on the device."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    kind, published = PUBLISHED[name]
    settings = published | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0} | smaller
    total = settings["num_hidden_layers"]
    depth = min(total, layers or LAYERS.get(name, total))
    settings["num_hidden_layers"] = depth
    period, full = PERIODS.get(name, 4), "full_attention"
    other = "sliding_attention" if name in PERIODS else "linear_attention"
    settings["layer_types"] = [other if (i + 1) % period else full for i in range(depth)]
    if "num_kv_shared_layers" in settings:
        settings["num_kv_shared_layers"] = settings["num_kv_shared_layers"] * depth // total
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            CONFIG_MAPPING[kind](**settings), dtype=torch.bfloat16
        )
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if any(part in parameter_name for part in DAMPED):
                parameter.mul_(DAMPING)
    return model.eval()


def _generate(model: Any, prompt: list[int]) -> list[int]:
    """Return transformers' greedy tokens."""
    import torch

    ids = torch.tensor([prompt], device=model.device)
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False,
        eos_token_id=None,
    )  # fmt: skip
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


def _gaps(model: Any, outputs: list[tuple[list[int], list[int]]]) -> list[float]:
    """Return the gaps of all tokens; equal outputs are computed once."""
    keys = [(tuple(prompt), tuple(tokens)) for prompt, tokens in outputs]
    gaps = {
        (prompt, tokens): gaps_below(own_logits(model, list(prompt), list(tokens)), list(tokens))
        for prompt, tokens in set(keys)
    }
    return [gap for key in keys for gap in gaps[key]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.published", description=__doc__)
    parser.add_argument("--only", default=",".join(PUBLISHED), help="models, with commas between")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--layers", type=int, help="most layers of each model")
    arguments = parser.parse_args()
    report = run_models(arguments.only.split(","), arguments.device, arguments.layers)
    print(report.markdown())


if __name__ == "__main__":
    main()
