"""One request at a time, 32 tokens in, 128 out: sgnb against `transformers.generate`, same weights
and threads."""

from __future__ import annotations

import random
import statistics

import torch
from transformers import AutoModelForCausalLM

import sgnb
from sgnb import models

from .common import Report, alternate, median_ratio, tokens

NEW = 128


def run() -> Report:
    peer = AutoModelForCausalLM.from_pretrained(models.path("tiny"), dtype=torch.float32).eval()
    prompt = tokens(random.Random(0), 32, peer.config.vocab_size)
    ids = torch.tensor([prompt])

    def generate() -> None:
        with torch.inference_mode():
            peer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )

    with sgnb.Engine("tiny") as engine:
        times = alternate(
            {
                "transformers.generate": generate,
                "sgnb": lambda: engine.generate(
                    prompt, temperature=0, max_new_tokens=NEW, ignore_eos=True
                ),
            },
            rounds=31,
        )
    ratio = median_ratio(times["transformers.generate"], times["sgnb"])
    report = Report(
        "One request at a time (CPU)",
        ("engine", "tokens a second (median)"),
        bar="not slower than transformers.generate",
        met=ratio >= 1,
    )
    report.rows = [(name, f"{NEW / statistics.median(t):.0f}") for name, t in times.items()]
    report.note = f"Median ratio of 31 pairs: {ratio:.2f}."
    return report
