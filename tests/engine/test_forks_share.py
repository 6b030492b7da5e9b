"""A prefix that forks share is computed once, by the engine's own counts."""

from __future__ import annotations

import random
from typing import Any

from sgnb.backends.local import LocalExecutor
from sgnb.engine.engine import Engine
from sgnb.lang import function, gen
from sgnb.sequences import common_length

from ..byte_tokenizers import TEXT, byte_level
from ..random_models import random_model

RUNS, FORKS = 30, 8
WORDS = [*TEXT[0].split()]


@function
def ask(s: Any, text: str) -> int:
    """Computes so many prompt tokens more than if the forks shared all that they can."""
    s += text
    forks = s.fork(FORKS)
    forks += lambda i: f" {WORDS[i]}:" + gen("a", max_tokens=2, temperature=0, ignore_eos=True)
    forks.join()
    prompts = [
        fork.token_ids()[: m["prompt_tokens"]] for fork, m in zip(forks, meta(s), strict=True)
    ]
    shared = common_length(prompts[0], prompts[1])
    for prompt in prompts[2:]:
        shared = min(shared, common_length(prompts[0], prompt))
    computed = sum(m["prompt_tokens"] - m["cached_tokens"] for m in meta(s))
    return computed - (shared + sum(len(prompt) - shared for prompt in prompts))


def meta(s: Any) -> Any:
    return s.get_meta_info("a")


def test_text_and_then_forks() -> None:
    made, rng = byte_level(), random.Random(0)
    model = random_model(vocab_size=len(made), max_position_embeddings=512)
    with Engine(model, tokenizer=made, device="cpu") as engine:
        executor = LocalExecutor(engine)
        for _ in range(RUNS):
            engine.flush_cache()
            text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(15, 60)))
            assert ask.run(text, backend=executor).ret_value <= 0
        executor.close()
