"""Every causal model type of the installed transformers, small with random weights, against
transformers' own `generate`: exact, refused, or wrong.

Greedy tokens of prompts that cross every window and rope boundary: cold, from the cache, in chunks,
and with a pool so small that requests are retracted. Each model runs in a process of its own, with
a time limit.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from sgnb.engine.engine import Engine
from sgnb.errors import ModelError

from .common import Report

VOCAB, CONTEXT, WINDOW, NEW = 97, 256, 8, 8
SECONDS = 60
"""Of each half of one model's process: to build it, and for its tokens by transformers and by us.
"""

EXACT_BAR = 115

SMALL: dict[str, Any] = (
    dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "dim"), 64)
    | dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"), 96)
    | dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 96)
    | dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 4)
    | dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 4)
    | dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4)
    | dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    | dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), CONTEXT)
    | dict.fromkeys(("max_target_positions", "max_source_positions"), CONTEXT)
    | dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4)
    | dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts"), 2)
    | dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32)
    | dict.fromkeys(("kv_lora_rank", "q_lora_rank", "rotary_dim"), 16)
    | dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8)
    | dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1)
    | dict.fromkeys(("pad_token_id", "decoder_start_token_id"), 0)
    | {
        "vocab_size": VOCAB, "num_key_value_heads": 2, "head_dim": 16, "bos_token_id": 1,
        "eos_token_id": 2, "sliding_window": WINDOW, "use_sliding_window": True, "window_size": 8,
        "attention_chunk_size": WINDOW, "keep_window_size": WINDOW, "max_window_layers": 2,
        "tie_word_embeddings": False, "is_decoder": True, "vocab_size_per_layer_input": VOCAB,
        "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0, "attention_types":
        [[["global", "local"], 2]], "attention_layers": ["global", "local"] * 2,
        "forced_eos_token_id": None, "depth": 1, "chunk_size": 8, "mamba_chunk_size": 8,
        "kv_n_heads": 2, "expert_ffn_hidden_size": 32, "hidden_size_global": 64,
    }
)  # fmt: skip
"""Where a config has such a setting. Those that it does not accept are left out, one after the
other."""

SPECIAL: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
            for kind in ("sliding_attention", "full_attention")
        },
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 64},
    },
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2},
    "longcat_flash": {"head_dim": 8},
    "mamba2": {"hidden_size": 64, "num_heads": 8, "head_dim": 16, "n_groups": 1},
    "minimax": {"block_size": 8},
    "reformer": {"axial_pos_embds_dim": [32, 32], "axial_pos_shape": [16, 16]},
    "moshi": {"sliding_window": CONTEXT},
    "qwen4_exp_text": {
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 256, "indexer_budget": 8,
        "indexer_compress_ratio": 2, "ngram_vocab_size_base": 101, "split_ngram_parts": 1,
    },
    "zamba2": {
        "layer_types": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4,
        "hybrid_layer_ids": [1, 3],
    },
    "xmod": {"default_language": "en_XX"},
}  # fmt: skip
"""What is needed beside `SMALL`."""

MEMORY = 8 << 30
"""Bytes that one model's process may take."""

ROPE: dict[str, dict[str, Any]] = {
    "longrope": {
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0 + i for i in range(8)],
        "long_factor": [3.0 + i for i in range(8)], "original_max_position_embeddings": 48,
        "factor": CONTEXT / 48,
    },
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
    "yarn": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": CONTEXT / 32,
        "original_max_position_embeddings": 32,
    },
}  # fmt: skip
VARIANTS = ("llama", "longrope"), ("phi3", "longrope"), ("llama", "dynamic"), ("qwen2", "yarn")
"""Model types whose rotary factors are tried too."""

ENGINES: dict[str, dict[str, Any]] = {
    "cold and cached": {},
    "in chunks, small pool": {
        "max_step_tokens": 9, "max_running_requests": 6, "max_total_tokens": 72
    },
}  # fmt: skip


class Result(NamedTuple):
    verdict: str  # "exact", "refused", "wrong", "fails", "not built"
    why: str = ""


def run() -> list[Report]:
    names = [(name, "") for name in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)]
    results = {
        f"{name} ({rope})" if rope else name: try_model(name, rope)
        for name, rope in [*names, *VARIANTS]
    }
    return tables(results)


def tables(results: dict[str, Result]) -> list[Report]:
    counts = Counter(result.verdict for result in results.values())
    exact = counts["exact"]
    bad = counts["wrong"] + counts["fails"]
    summary = Report(
        "Causal model types",
        ("verdict", "model types"),
        [(verdict, str(count)) for verdict, count in counts.most_common()],
        bar=f"none wrong, none that loads and fails; at least {EXACT_BAR} exact",
        met=bad == 0 and exact >= EXACT_BAR,
    )
    rows = [(name, *result) for name, result in results.items() if result.verdict != "exact"]
    named = ", ".join(name for name, result in results.items() if result.verdict == "exact")
    return [summary, Report("All but the exact ones", ("model", "verdict", "why"), rows),
            Report("Exact", ("models",), [(named,)])]  # fmt: skip


def try_model(name: str, rope: str = "") -> Result:
    """In a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(name, rope, theirs))
    process.start()
    theirs.close()
    try:
        for verdict in ("not built", "fails"):
            if not ours.poll(SECONDS):
                return Result(verdict, f"no answer in {SECONDS} s")
            if (found := ours.recv()) is not None:
                return Result(*found)
        raise AssertionError("the second answer is a result")
    except EOFError:
        return Result("fails", "its process died")
    finally:
        process.kill()
        process.join()


def small_model(
    name: str, rope: dict[str, Any] | None = None, sizes: dict[str, Any] = SMALL
) -> PreTrainedModel:
    """Random weights, wide enough for tokens to depend on the whole context."""
    torch.manual_seed(0)
    config = _small_config(CONFIG_MAPPING[name], rope, sizes)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in key:
                parameter.mul_(4.0)
    return model.eval()


def _work(name: str, rope: str, answer: Connection) -> None:
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    try:
        model = small_model(name, ROPE.get(rope))
        with torch.inference_mode():
            model(torch.tensor([prompts()[0]]), use_cache=False)
    except Exception as error:
        answer.send(("not built", _line(error)))
        return
    answer.send(None)  # it is built
    answer.send(tuple(compare(model)))


def compare(model: PreTrainedModel) -> Result:
    """The model through engines of every kind against its own tokens for `prompts`."""
    try:
        Engine(model, device="cpu").close()
    except ModelError as error:
        return Result("refused", error.message)
    except Exception as error:
        return Result("fails", f"at load: {_line(error)}")
    expected = [own_tokens(model, prompt) for prompt in prompts()]
    for kind, options in ENGINES.items():
        with Engine(model, device="cpu", **options) as engine:
            kept = [
                (prompt, tokens)
                for prompt, tokens in zip(prompts(), expected, strict=True)
                if len(prompt) + NEW <= engine.context_length
            ]
            for turn in range(2):
                try:
                    outputs = engine.generate(
                        [prompt for prompt, _ in kept],
                        temperature=0, max_new_tokens=NEW, ignore_eos=True,
                    )  # fmt: skip
                except Exception as error:
                    return Result("fails", f"{kind}: {_line(error)}")
                pairs = zip(outputs, kept, strict=True)
                right = sum(output.token_ids == tokens for output, (_, tokens) in pairs)
                if right < len(kept):
                    return Result("wrong", f"{kind}, turn {turn + 1}: {right} of {len(kept)} right")
    return Result("exact")


def _small_config(kind: Any, rope: dict[str, Any] | None, sizes: dict[str, Any]) -> Any:
    special = SPECIAL.get(kind.model_type, {})
    default = kind(**special)
    settings = _settings(default, sizes)
    if rope:
        settings["rope_parameters"] = rope
    for key in getattr(kind, "sub_configs", {}):
        part = getattr(default, key, None)
        if part is not None:
            small = {} if "vision" in key or "audio" in key else _settings(part, sizes)
            of_part = SPECIAL.get(part.model_type, {})
            settings[key] = {"model_type": part.model_type} | small | of_part
    settings |= special
    order = ["head_dim", "num_key_value_heads", "n_inner", "use_sliding_window", "is_decoder"]
    for left_out in [None, *order, *settings]:
        if left_out is not None:
            settings.pop(left_out, None)
        try:
            return kind(**settings)
        except Exception as error:  # whatever a config's own checks raise
            failure = error
    raise failure


def _settings(default: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    """What of them such a config has."""
    known = default.to_dict().keys() | default.attribute_map.keys()
    settings = {key: value for key, value in sizes.items() if key in known}
    if "kv_lora_rank" in known:  # each head has keys of its own
        settings["num_key_value_heads"] = settings["num_attention_heads"]
        settings.pop("head_dim", None)
    return settings


def prompts() -> list[list[int]]:
    """Shorter and longer than windows and rope boundaries; some share a beginning."""
    rng = random.Random(0)

    def draw(length: int) -> list[int]:
        return [rng.randrange(3, VOCAB) for _ in range(length)]

    shared = draw(30)
    return [draw(5), draw(1), draw(23), shared + draw(4), shared + draw(9), draw(52), shared]


def own_tokens(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    out: Any = model.generate(  # type: ignore[operator]
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False,
        eos_token_id=None,
    )  # fmt: skip
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


def _line(error: BaseException) -> str:
    said = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {said}"[:160]
