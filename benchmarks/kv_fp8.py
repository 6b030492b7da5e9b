"""Keys and values in FP8 on the bundled model: perplexity of texts held out of the training, and
answers to the same prompts, compared with keys and values in the dtype of the model."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from sgnb.engine import Engine
from sgnb.engine.cache.kv_dtype import KV_DTYPES
from training.corpus import held_out_document

from .common import Report

DOCUMENTS, JOINED, ANSWERS, ANSWER_TOKENS = 400, 8, 50, 32
BATCH = 50
BAR = 0.005
SCORES: Any = {"max_tokens": 1, "temperature": 0, "return_logprob": True, "logprob_start_len": 0}


def scores(engine: Engine, texts: list[list[int]]) -> list[float]:
    """Return the log-probability of each token, except the first of each text."""
    values: list[float] = []
    for begin in range(0, len(texts), BATCH):
        for output in engine.generate(texts[begin : begin + BATCH], **SCORES):
            values += [score for score in output.prompt_logprobs if score is not None]
        engine.flush_cache()
    return values


def answers(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    outputs = engine.generate(prompts, max_tokens=ANSWER_TOKENS, temperature=0, ignore_eos=True)
    return [output.token_ids for output in outputs]


def compare(texts: list[str]) -> tuple[dict[str, Any], int, int]:
    """Return the scores of each format, and the numbers of equal answers and equal tokens."""
    scored: dict[str, Any] = {}
    answered: dict[str, list[list[int]]] = {}
    for kv_dtype in KV_DTYPES:
        with Engine("tiny", device="cpu", kv_dtype=kv_dtype) as engine:
            documents = engine.encode(texts)
            scored[kv_dtype] = scores(engine, documents), engine.token_bytes
            prompts = [ids[: len(ids) // 2] for ids in documents[:ANSWERS]]
            answered[kv_dtype] = answers(engine, prompts)
    pairs = list(zip(*answered.values(), strict=True))
    tokens = sum(x == y for dense, fp8 in pairs for x, y in zip(dense, fp8, strict=True))
    return scored, sum(dense == fp8 for dense, fp8 in pairs), tokens


def run() -> Report:
    rng = Random(42)
    alone = [held_out_document(rng) for _ in range(DOCUMENTS)]
    joined = ["".join(alone[i : i + JOINED]) for i in range(0, DOCUMENTS, JOINED)]
    report = Report(
        "FP8 keys and values: perplexity of held-out texts",
        ("texts", "tokens", "kv_dtype", "bytes per token", "perplexity", "change", "same answers"),
        bar=f"perplexity at most {BAR:+.1%} with fp8",
        met=True,
    )
    for name, texts in (("alone", alone), (f"{JOINED} in a row", joined)):
        scored, same, tokens = compare(texts)
        dense = 0.0
        for kv_dtype, (values, size) in scored.items():
            perplexity = math.exp(-sum(values) / len(values))
            dense = dense or perplexity
            change, count = perplexity / dense - 1, min(ANSWERS, len(texts))
            words = f"{same} of {count}; {tokens / (count * ANSWER_TOKENS):.0%} of the tokens"
            is_fp8 = kv_dtype == "fp8"
            report.rows.append(
                (name, f"{len(values):,}", kv_dtype, size, f"{perplexity:.4f}",
                 f"{change:+.3%}" if is_fp8 else "", words if is_fp8 else "")
            )  # fmt: skip
            report.met = bool(report.met) and change <= BAR
    report.note = (
        f"Texts held out of the training of the bundled model. Answers: {ANSWER_TOKENS} tokens at "
        "temperature 0 after the first half of a text."
    )
    return report
