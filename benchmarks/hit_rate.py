"""Achieved over optimal cache hit rate where the pool holds only a part of what is shared.

few-shot: prefixes of 300 tokens, 10 questions of 30 each, shuffled. tree: a branching tree of
prompts, shuffled.
"""

from __future__ import annotations

import itertools
import random

import sgnb

from .common import Report, optimal_hit_rate, tokens

POOL = 4096


def few_shot(rng: random.Random, vocab: int) -> list[list[int]]:
    prefixes = [tokens(rng, 300, vocab) for _ in range(40)]
    return [prefix + tokens(rng, 30, vocab) for prefix in prefixes for _ in range(10)]


def tree_shaped(rng: random.Random, vocab: int) -> list[list[int]]:
    """A root of 100 tokens, 8 children of 80, each with 5 of 60, each with 6 of 20."""
    paths = [tokens(rng, 100, vocab)]
    for children, length in ((8, 80), (5, 60), (6, 20)):
        paths = [path + tokens(rng, length, vocab) for path in paths for _ in range(children)]
    return paths


def run() -> Report:
    report = Report(
        f"Cache hit rate, pool of {POOL:,} tokens",
        ("requests", "order", "hit rate", "optimal", "achieved / optimal"),
    )
    ratios = []
    for make, policy in itertools.product((few_shot, tree_shaped), ("lpm", "fcfs")):
        rng = random.Random(0)
        with sgnb.Engine("tiny", max_total_tokens=POOL, schedule_policy=policy) as engine:
            prompts = make(rng, engine.vocab_size)
            rng.shuffle(prompts)
            engine.generate(prompts, temperature=0, max_new_tokens=4, ignore_eos=True)
            achieved, optimal = engine.stats()["hit_rate"], optimal_hit_rate(prompts)
        report.rows.append(
            (
                f"{make.__name__.replace('_', '-')}, {len(prompts)}",
                policy,
                f"{achieved:.3f}",
                f"{optimal:.3f}",
                f"{achieved / optimal:.3f}",
            )
        )
        if policy == "lpm":
            ratios.append(achieved / optimal)
    report.bar, report.met = "at least 0.96 of optimal with lpm", min(ratios) >= 0.96
    return report
