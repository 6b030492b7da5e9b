"""200 requests of one prefix of 1,000 tokens, 50 of their own, 16 out: sgnb against
`transformers.generate`.

transformers runs in batches; the best of several batch sizes counts. The ablations turn one
technique off at a time.
"""

from __future__ import annotations

import random
import time

import torch
from transformers import AutoModelForCausalLM

import sgnb
from sgnb import models

from .common import Report, seconds, tokens

REQUESTS, PREFIX, SUFFIX, NEW = 200, 1000, 50, 16
BATCHES = (8, 16, 32, 64)


def run() -> Report:
    peer = AutoModelForCausalLM.from_pretrained(models.path("tiny"), dtype=torch.float32).eval()
    rng = random.Random(0)
    prefix = tokens(rng, PREFIX, peer.config.vocab_size)
    prompts = [prefix + tokens(rng, SUFFIX, peer.config.vocab_size) for _ in range(REQUESTS)]

    best, best_batch, expected = min((*_peer(peer, prompts, batch),) for batch in BATCHES)
    report = Report(
        f"{REQUESTS} requests sharing {PREFIX} tokens (CPU)",
        ("engine", "seconds", "times faster", "tokens computed", "same tokens"),
    )
    report.rows.append(
        (
            f"transformers.generate, batches of {best_batch} (the best of {BATCHES})",
            f"{best:.2f}",
            "1.0",
            REQUESTS * (PREFIX + SUFFIX + NEW - 1),
            "",
        )
    )
    for name, options in (
        ("sgnb", {}),
        ("sgnb, no fork-aware attention", {"fork_attention": False}),
        ("sgnb, no prefix cache", {"prefix_cache": False}),
    ):
        with sgnb.Engine(
            "tiny", max_total_tokens=REQUESTS * (PREFIX + SUFFIX + NEW), **options
        ) as engine:
            engine.generate(prompts[:2], temperature=0, max_new_tokens=4, ignore_eos=True)
            times = []
            for _ in range(1 if options else 3):
                engine.flush_cache()
                before = engine.stats()["computed_tokens"]
                began = time.perf_counter()
                outputs = engine.generate(
                    prompts, temperature=0, max_new_tokens=NEW, ignore_eos=True
                )
                times.append(time.perf_counter() - began)
            took = sorted(times)[len(times) // 2]
            same = sum(o.token_ids == e for o, e in zip(outputs, expected, strict=True))
            report.rows.append(
                (
                    name,
                    f"{took:.2f}",
                    f"{best / took:.1f}",
                    engine.stats()["computed_tokens"] - before,
                    f"{same} of {REQUESTS}",
                )
            )
    report.bar = "at least 8 times faster than transformers.generate"
    report.met = float(report.rows[1][2]) >= 8
    return report


def _peer(
    model: torch.nn.Module, prompts: list[list[int]], batch: int
) -> tuple[float, int, list[list[int]]]:
    """Seconds, the batch size and the output tokens of transformers."""
    outputs: list[list[int]] = []

    def generate() -> None:
        for i in range(0, len(prompts), batch):
            ids = torch.tensor(prompts[i : i + batch])
            made = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
            outputs.extend(made[:, len(prompts[0]) :].tolist())

    with torch.inference_mode():
        return seconds(generate), batch, outputs
