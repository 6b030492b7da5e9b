"""`python -m benchmarks.gpu.models`: twelve families against transformers' own forward, on the GPU.

In float32 greedy tokens are those of transformers' `generate`. In bfloat16 rounding decides near a
tie, so each token we chose is judged by teacher forcing: how far its logit, in transformers' own
forward over the same tokens, lies below the largest of its row. Each family cold, from the cache,
forked (prompts with a long common beginning, at once), in chunks, and with a pool so small that
requests are retracted. Small random weights, one process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from ..common import Report

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {}, "qwen2": {}, "qwen3": {}, "mistral": {}, "gemma2": {}, "gemma3_text": {},
    "phi3": {"rope_type": "longrope"}, "gpt_neox": {}, "olmo2": {}, "stablelm": {},
    "qwen2_moe": {}, "deepseek_v3": {},
}  # fmt: skip
"""And what their rotary factors are beside the usual."""

VOCAB, CONTEXT, WINDOW, NEW, HEAD_DIM = 997, 2048, 64, 24, 64

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 256, "intermediate_size": 512, "head_dim": HEAD_DIM,
    "max_position_embeddings": CONTEXT, "sliding_window": WINDOW, "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128, "kv_lora_rank": 64, "q_lora_rank": 64,
    "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 64,
}  # fmt: skip
"""Beside those of the benchmark of all model types."""

LONGROPE: dict[str, Any] = {
    "rope_type": "longrope", "rope_theta": 10000.0, "factor": 2.0,
    "short_factor": [1.0 + i / 16 for i in range(HEAD_DIM // 2)],
    "long_factor": [3.0 + i for i in range(HEAD_DIM // 2)],
    "original_max_position_embeddings": CONTEXT // 2,
}  # fmt: skip

TOLERANCE = 0.5
"""How far below the largest logit of its row a token may be in bfloat16, in standard deviations of
the row. Of a random token it is about 3."""

ENGINES: dict[str, dict[str, Any]] = {
    "cold, cached, forked": {},
    "in chunks, retracted": {
        "max_step_tokens": 96, "max_running_requests": 8, "max_total_tokens": 640
    },
}  # fmt: skip

COLUMNS = "family", "dtype", "tokens", "equal", "largest gap", "retracted", "seconds"


def run() -> Report:
    """On the GPU where there is one."""
    return run_families(list(FAMILIES), "auto")


def run_families(names: list[str], device: str) -> Report:
    import torch

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    report = Report(
        f"Families on {chosen}",
        COLUMNS,
        bar="float32: every token that of transformers; bfloat16: by transformers' own forward no "
        f"token further below the largest than {TOLERANCE} standard deviations of its logits",
        met=True,
        note="equal: tokens that have the largest logit. gap: in standard deviations of the row.",
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

    from ..models import SMALL, small_model

    began, retracted, gaps = time.perf_counter(), 0, list[float]()
    rope = LONGROPE if FAMILIES[name] else None
    model = small_model(name, rope, SMALL | SIZES).to(device, getattr(torch, dtype))
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
            gaps += own_gaps(model, prompt, tokens)
    equal, largest = sum(gap == 0 for gap in gaps), max(gaps)
    good = equal == len(gaps) if dtype == "float32" else largest <= TOLERANCE
    row = (name, dtype, len(gaps), equal, f"{largest:.3f}", retracted,
           f"{time.perf_counter() - began:.1f}")  # fmt: skip
    return row, good and retracted > 0


def own_gaps(model: Any, prompt: list[int], tokens: list[int]) -> list[float]:
    """Of each token, how far its logit is below the largest of its row by the model's own forward,
    in standard deviations of the row."""
    import torch

    ids = torch.tensor([prompt + tokens], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits[0, len(prompt) - 1 :].float()
        of_tokens = logits.gather(1, ids[0, len(prompt) :, None])[:, 0]
        gaps: list[float] = ((logits.amax(-1) - of_tokens) / logits.std(-1)).tolist()
    return gaps


def prompts() -> list[list[int]]:
    """Across the window, and kernels' blocks."""
    return [_draw(seed, length) for seed, length in enumerate((1, 5, 63, 64, 65, 130, 300, 23))]


def forks() -> list[list[int]]:
    """Eight that share a long beginning."""
    return [_draw(100, 256) + _draw(200 + i, 3 + i) for i in range(8)]


def _draw(seed: int, length: int) -> list[int]:
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
