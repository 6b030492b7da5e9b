"""Batches of compiled programs in a small KV cache: rows with equal beginnings next to each other,
and in the given order."""

from __future__ import annotations

import random
from typing import Any

import sgnb
from sgnb.lang import CompiledProgram

from .common import Report

POOL = 700
DOCUMENTS, QUESTIONS = 10, 8


@sgnb.function
def answer(s: Any, text: str, question: str) -> None:
    s += f"{text}\nQuestion: {question}\nAnswer:"
    s += sgnb.gen("answer", max_tokens=12, temperature=0, ignore_eos=True)


class InOrder(CompiledProgram):
    """Starts its rows in the given order."""

    _arranged = None


def run() -> Report:
    """Questions to documents, in a random order, of which the pool holds about two."""
    story = "The cat sat in the house and looked at the moon until the sun came up again. "
    texts = [f"Document {i}. " + 8 * story for i in range(DOCUMENTS)]
    rows = [(text, f"What is {i}?") for text in texts for i in range(QUESTIONS)]
    random.Random(0).shuffle(rows)
    columns = ("schedule_policy", "way", "hit rate", "tokens computed")
    report = Report(f"{len(rows)} questions to {DOCUMENTS} documents, shuffled", columns)
    good = []
    for policy in ("lpm", "fcfs"):
        rates = []
        with sgnb.Engine("tiny", max_total_tokens=POOL, schedule_policy=policy) as engine:
            for name, one in (
                ("interpreted", answer),
                ("compiled, in the order of rows", InOrder(answer.trace())),
                ("compiled, arranged", answer.compile()),
            ):
                engine.flush_cache()
                before = engine.stats()
                one.run_batch(rows, backend=engine)
                after = engine.stats()
                counts = "prompt_tokens", "cached_tokens", "computed_tokens"
                prompt, cached, computed = (after[count] - before[count] for count in counts)
                rates.append(round(cached / prompt, 3))
                report.rows.append((policy, name, f"{rates[-1]:.3f}", f"{computed:,}"))
        good.append(rates[-1] >= max(rates) - 0.01)
    report.bar = "arranged no lower hit rate than the others, up to 0.01"
    report.met = all(good)
    report.note = f"A pool of {POOL:,} tokens. Once each."
    return report
