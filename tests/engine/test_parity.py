"""The engine against transformers: the same greedy tokens, and the same log-probabilities, for
every family."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sgnb.engine.attention import torch_backend
from sgnb.engine.engine import Engine
from sgnb.events import RequestRetracted

from ..random_models import FAMILIES, VOCAB, greedy, reference_model

NEW_TOKENS = 8
MakeEngine = Callable[..., Engine]


def random_prompts() -> list[list[int]]:
    """Mixed lengths; some share a beginning, one is that beginning."""
    rng = random.Random(0)
    draw = lambda n: [rng.randrange(3, VOCAB) for _ in range(n)]  # noqa: E731
    shared = draw(28)
    return [draw(11), draw(1), draw(23), *(shared + draw(n) for n in (1, 4, 9)), shared]


PROMPTS = random_prompts()
TIGHT = {"max_step_tokens": 9, "max_running_requests": 6, "max_total_tokens": 64}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunks and retraction": TIGHT,
    "no prefix cache": {"prefix_cache": False},
    "no fork attention": {"fork_attention": False},
    "overlap": {"overlap": True},
    "overlap, chunks and retraction": TIGHT | {"overlap": True},
}
OFTEN = "plain", "overlap, chunks and retraction"
"""The variants in which every family of the quick tests runs; llama runs in all."""

QUICK = (
    "llama", "qwen3", "mistral", "gemma2", "gemma3_text", "mixtral", "gpt2", "gpt_oss",
    "deepseek_v3", "cohere", "gptj", "falcon",
)  # fmt: skip
"""Each of another kind: what the others have is in these."""
QUICK_FAMILIES = [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES]


@pytest.mark.parametrize("often", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", QUICK_FAMILIES)
def test_greedy_tokens_equal_those_of_transformers(
    family: str, often: bool, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixed batch, twice where there is a cache to hit."""
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 8)
    monkeypatch.setattr(torch_backend, "SHARED_TOKENS", 1)
    expected = greedy(family, PROMPTS, NEW_TOKENS)
    assert len(set(map(tuple, expected))) >= 4, "the model's output hardly depends on the prompt"
    for name, options in VARIANTS.items():
        if family != "llama" and (name in OFTEN) != often:
            continue
        engine = make_engine(family, **options)
        for turn in range(2 if name == "plain" else 1):
            outputs = engine.generate(
                PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
            )
            assert [o.token_ids for o in outputs] == expected, name
            if turn:
                assert [o.cached_tokens for o in outputs] == [len(p) - 1 for p in PROMPTS]
        if options.items() >= TIGHT.items():
            assert any(isinstance(r.event, RequestRetracted) for r in engine.log.read().records)
        engine.close()


@pytest.mark.parametrize("family", QUICK_FAMILIES)
def test_log_probabilities_equal_those_of_transformers(
    family: str, make_engine: MakeEngine
) -> None:
    prompts = [PROMPTS[2], PROMPTS[5]]
    engine = make_engine(family, **TIGHT)
    outputs = engine.generate(
        prompts,
        temperature=0,
        max_new_tokens=3,
        ignore_eos=True,
        return_logprob=True,
        logprob_start_len=0,
        top_logprobs_num=3,
    )
    for prompt, output in zip(prompts, outputs, strict=True):
        tokens = prompt + output.token_ids
        with torch.no_grad():
            logits = reference_model(family)(torch.tensor([tokens]), use_cache=False).logits[0]
        expected = logits.double().log_softmax(-1)[:-1]
        chosen = expected.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        found = output.prompt_logprobs + output.logprobs
        torch.testing.assert_close(torch.tensor(found).double(), chosen, atol=2e-4, rtol=1e-4)
        top = output.prompt_top_logprobs + output.top_logprobs
        assert [len(row) for row in top] == [3] * (len(tokens) - 1)
        values = torch.tensor([[value for _, value in row] for row in top]).double()
        torch.testing.assert_close(values, expected.topk(3).values, atol=2e-4, rtol=1e-4)
        named = expected.gather(1, torch.tensor([[token for token, _ in row] for row in top]))
        torch.testing.assert_close(named, values, atol=2e-4, rtol=1e-4)
