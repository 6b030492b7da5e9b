"""`python -m benchmarks.gpu.models`: twelve families against transformers' own forward, on the GPU.

Each token we chose is judged by teacher forcing: how far its logit, in transformers' own forward
over the same tokens, lies below the largest of its row. In float32 that is nothing. In bfloat16
rounding decides near a tie, and how often is seen by a second judgement: of the tokens that the
same weights choose in float32, by transformers alone. In mixtures of experts rounding also decides
which experts see a token, which can change its logits by whole standard deviations.

Each family cold, from the cache, forked (prompts with a long common beginning, at once), in chunks,
and with a pool so small that requests are retracted. Small random weights, one process.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

from ..common import Report

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {}, "qwen2": {}, "qwen3": {}, "mistral": {}, "gemma2": {}, "gemma3_text": {},
    "phi3": {"rope_type": "longrope"}, "gpt_neox": {}, "olmo2": {}, "stablelm": {},
    "qwen2_moe": {}, "deepseek_v3": {},
}  # fmt: skip
"""And what their rotary factors are beside the usual."""

VOCAB, CONTEXT, WINDOW, NEW, HEAD_DIM = 997, 2048, 64, 24, 128

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 512, "intermediate_size": 384,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": HEAD_DIM,
    "max_position_embeddings": CONTEXT, "sliding_window": WINDOW, "moe_intermediate_size": 192,
    "shared_expert_intermediate_size": 160, "kv_lora_rank": 112, "q_lora_rank": 144,
    "qk_rope_head_dim": 16, "qk_nope_head_dim": 48, "v_head_dim": 32,
}  # fmt: skip
"""Settings instead of the small shapes' sizes."""

LONGROPE: dict[str, Any] = {
    "rope_type": "longrope", "rope_theta": 10000.0, "factor": 2.0,
    "short_factor": [1.0 + i / 16 for i in range(HEAD_DIM // 2)],
    "long_factor": [3.0 + i for i in range(HEAD_DIM // 2)],
    "original_max_position_embeddings": CONTEXT // 2,
}  # fmt: skip

TOLERANCES = {"float32": 0.001, "bfloat16": 0.5}
"""How far below the largest logit of its row a token may be, in standard deviations of the row. Of
a random token it is about 3."""

MIXTURE_SHARE = 0.03
"""Of the tokens of a mixture of experts in bfloat16: how many may be further below."""

ENGINES: dict[str, dict[str, Any]] = {
    "cold, cached, forked": {},
    "in chunks, retracted": {
        "max_step_tokens": 96, "max_running_requests": 8, "max_total_tokens": 640
    },
}  # fmt: skip

COLUMNS = (
    "family", "dtype", "tokens", "equal", "largest gap", "too far",
    "float32's tokens: equal", "largest gap", "too far", "retracted", "seconds",
)  # fmt: skip


def run() -> Report:
    """On the GPU where there is one."""
    return run_families(list(FAMILIES), "auto")


def run_families(names: list[str], device: str) -> Report:
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    report = Report(
        f"Families on {chosen}",
        COLUMNS,
        bar="by transformers' own forward no token further below the largest than "
        + " and ".join(f"{bound} ({dtype})" for dtype, bound in TOLERANCES.items())
        + " standard deviations of its logits, of mixtures of experts in bfloat16 at most "
        f"{MIXTURE_SHARE:.0%} of them",
        met=True,
        note="equal: tokens that have the largest logit. gap: in standard deviations of the row. "
        "float32's tokens: those that transformers chooses with the same weights in float32, "
        "judged likewise.",
    )
    for name in names:
        for dtype in ("float32", "bfloat16"):
            row, good = try_family(name, dtype, chosen)
            report.rows.append(row)
            report.met = bool(report.met) and good
            print(*row, sep=" | ", flush=True)
    return report


def try_family(name: str, dtype: str, device: str) -> tuple[tuple[Any, ...], bool]:
    """A row of the table, and whether the bar is met."""
    import torch

    from sgnb.engine.engine import Engine
    from sgnb.events import RequestRetracted

    from ..models import small_model

    began, retracted = time.perf_counter(), 0
    gaps, of_float32 = list[float](), list[float]()
    rope = LONGROPE if FAMILIES[name] else None
    model = small_model(name, rope=rope, sizes=SIZES).to(device, getattr(torch, dtype))
    twin = None if dtype == "float32" else copy.deepcopy(model).float()
    for options in ENGINES.values():
        chosen = list[tuple[list[int], list[int]]]()
        with Engine(model, device=device, dtype=dtype, **options) as engine:
            for group in (prompts(), prompts(), forks()):
                outputs = engine.generate(
                    group, temperature=0, max_new_tokens=NEW, ignore_eos=True
                )  # fmt: skip
                chosen += zip(group, (output.token_ids for output in outputs), strict=True)
            records = engine.log.read().records
            retracted += sum(isinstance(record.event, RequestRetracted) for record in records)
        for prompt, tokens in chosen:
            logits = own_logits(model, prompt, tokens)
            gaps += gaps_below(logits, tokens)
            if twin is not None:
                best = own_logits(twin, prompt, tokens).argmax(-1)
                of_float32 += gaps_below(logits, best.tolist())
    bound, mixture = TOLERANCES[dtype], hasattr(model.config, "num_experts_per_tok")
    share = MIXTURE_SHARE if mixture and dtype != "float32" else 0.0
    good = too_far(gaps, bound) <= share * len(gaps) and retracted > 0
    row = (name, dtype, len(gaps), *judged(gaps, bound), *judged(of_float32, bound), retracted,
           f"{time.perf_counter() - began:.1f}")  # fmt: skip
    return row, good


def own_logits(model: Any, prompt: list[int], tokens: list[int]) -> Any:
    """What the tokens were chosen from, by the model's own forward: a row for each."""
    import torch

    ids = torch.tensor([prompt + tokens[:-1]], device=model.device)
    with torch.inference_mode():
        return model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 :].float()


def gaps_below(logits: Any, tokens: list[int]) -> list[float]:
    """Of each token, how far its logit is below the largest of its row, in standard deviations of
    the row."""
    of_tokens = logits.gather(1, logits.new_tensor(tokens).long()[:, None])[:, 0]
    gaps: list[float] = ((logits.amax(-1) - of_tokens) / logits.std(-1)).tolist()
    return gaps


def too_far(gaps: list[float], bound: float) -> int:
    return sum(not gap <= bound for gap in gaps)  # what is not a number is too far


def judged(gaps: list[float], bound: float) -> tuple[Any, ...]:
    """Return the number of zero gaps, the largest gap, and the number over the bound."""
    if not gaps:
        return "", "", ""
    return sum(gap == 0 for gap in gaps), f"{max(gaps):.3f}", too_far(gaps, bound)


def prompts() -> list[list[int]]:
    """Across the window, and kernels' blocks."""
    lengths = 1, 5, 63, 64, 65, 130, 300, 23
    return [draw_prompt(seed, length) for seed, length in enumerate(lengths)]


def forks() -> list[list[int]]:
    """Eight that share a long beginning."""
    return [draw_prompt(100, 256) + draw_prompt(200 + i, 3 + i) for i in range(8)]


def draw_prompt(seed: int, length: int) -> list[int]:
    import random

    rng = random.Random(seed)
    return [rng.randrange(3, VOCAB) for _ in range(length)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.models", description=__doc__)
    parser.add_argument("--only", default=",".join(FAMILIES), help="families, with commas between")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    arguments = parser.parse_args()
    print(run_families(arguments.only.split(","), arguments.device).markdown())


if __name__ == "__main__":
    main()
