"""Models with recurrent layers against transformers: the same greedy tokens, whatever of a text is
cached, chunked, shared, computed again or forced by a grammar."""

from __future__ import annotations

import itertools
import math
import queue
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import sgnb.models
from sgnb.engine.engine import Engine
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.collect import numbered_callbacks
from sgnb.errors import ModelError
from sgnb.events import Jumped, RequestRetracted
from sgnb.sampling import SamplingParams

from ..hybrid_models import HYBRIDS, THREE, hybrid_model
from ..marks import some_are_slow
from ..random_models import VOCAB, continuations
from .test_engine import whole

NEW_TOKENS = 8
GREEDY = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}

OWN_CACHE = {"minimax", "recurrent_gemma"}
"""Their states are not in transformers' cache."""

KNOWN = [family for family in HYBRIDS if family in CONFIG_MAPPING]
FAMILIES = [family for family in KNOWN if family not in OWN_CACHE]
MakeEngine = Callable[..., Engine]


QUICK = (*THREE, "lfm2", "falcon_h1", "nemotron_h", "zamba2", "zaya", "kimi_linear")
"""Each of another kind: what the others have is in these."""


def draw(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(3, VOCAB) for _ in range(length)]


def random_prompts() -> list[list[int]]:
    """Mixed lengths; some share a beginning, one is that beginning."""
    rng = random.Random(0)
    shared = draw(rng, 50)
    return [draw(rng, 23), draw(rng, 1), draw(rng, 60),
            *(shared + draw(rng, n) for n in (1, 4, 9)), shared]  # fmt: skip


PROMPTS = random_prompts()


def branches() -> list[list[int]]:
    """They part after 50 tokens, which a prompt has already, and after 20 of them."""
    rng = random.Random(1)
    return [PROMPTS[-1][:length] + draw(rng, 5) for length in (50, 50, 50, 20, 20)]


BRANCHES = branches()


@cache
def expected(family: str) -> tuple[list[list[int]], list[list[int]]]:
    """What transformers makes of `PROMPTS` and of `BRANCHES`, token by token."""
    model = hybrid_model(family)
    return continuations(model, PROMPTS, NEW_TOKENS), continuations(model, BRANCHES, NEW_TOKENS)


def logits_of(model: PreTrainedModel, prompt: list[int], answer: list[int]) -> Tensor:
    """transformers' own before each token of the answer, all in one pass: [answer, vocab]."""
    with torch.no_grad():
        ids = torch.tensor([prompt + answer], device=model.device)
        logits = model(ids, use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1]


def are_greedy(model: PreTrainedModel, prompts: list[list[int]], answers: list[list[int]]) -> bool:
    return all(
        logits_of(model, prompt, answer).argmax(-1).tolist() == answer
        for prompt, answer in zip(prompts, answers, strict=True)
    )


@pytest.fixture
def make_hybrid() -> Iterator[MakeEngine]:
    """Makes engines, and closes them at the end of the test, when no state may be lost."""
    made: list[Engine] = []

    def make(family: str, **options: Any) -> Engine:
        made.append(Engine(hybrid_model(family), **options))
        return made[-1]

    yield make
    for engine in made:
        assert all_there(engine)
        engine.close()


def all_there(engine: Engine) -> bool:
    """free + cached + in flight = total, in tokens and in states."""
    state = engine.stats()
    return whole(engine, state) and state["free_states"] + state["kept_states"] == state["states"]


def tokens(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    return [output.token_ids for output in engine.generate(prompts, **GREEDY)]


@pytest.mark.slow
@pytest.mark.parametrize("family", KNOWN)
def test_what_follows_depends_on_the_first_token(family: str) -> None:
    rng = random.Random(0)
    prompts = torch.tensor([draw(rng, 40) for _ in range(8)])
    others = prompts.clone()
    others[:, 0] = (others[:, 0] - 2) % (VOCAB - 3) + 3
    both = torch.cat([prompts, others])
    found = hybrid_model(family).generate(
        both, attention_mask=torch.ones_like(both), max_new_tokens=16, do_sample=False,
        eos_token_id=None,
    )[:, 40:]  # fmt: skip
    assert (found[:8] != found[8:]).any(1).sum() > 4


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, QUICK))
def test_cold_cached_and_forked(family: str, make_hybrid: MakeEngine) -> None:
    model, engine = hybrid_model(family), make_hybrid(family)
    cold = tokens(engine, PROMPTS)
    assert are_greedy(model, PROMPTS, cold)
    outputs = engine.generate(PROMPTS, **GREEDY)
    assert [output.token_ids for output in outputs] == cold
    assert all(output.cached_tokens for output in outputs if output.prompt_tokens > 1)
    assert all_there(engine)
    forked = engine.generate(BRANCHES, **GREEDY)
    assert are_greedy(model, BRANCHES, [output.token_ids for output in forked])
    assert forked[0].cached_tokens == 50
    # The branches left a checkpoint where they part.
    assert engine.cached_length([*BRANCHES[-1][:20], 5]) == 20


TIGHT = {"max_step_tokens": 9, "max_running_requests": 6, "max_total_tokens": 80}
SMALL = TIGHT | {"overlap": True, "max_states": 9}
VARIANTS: dict[str, dict[str, Any]] = {
    "chunks": {"max_step_tokens": 7},
    "retraction": TIGHT,
    "few states": {"max_states": 6},
    "one request's states": {"max_states": 4, "checkpoint_every": 16},
    "many checkpoints": {"checkpoint_every": 1, "max_step_tokens": 16},
    "no prefix cache": {"prefix_cache": False},
    "no fork attention": {"fork_attention": False},
    "overlap": {"overlap": True},
}


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, THREE))
def test_little_memory(family: str, make_hybrid: MakeEngine) -> None:
    engine = make_hybrid(family, **SMALL)
    model = hybrid_model(family)
    for prompts in (PROMPTS, BRANCHES, PROMPTS):
        assert are_greedy(model, prompts, tokens(engine, prompts))
        assert all_there(engine)
    assert any(isinstance(r.event, RequestRetracted) for r in engine.log.read().records)


def variants(family: str) -> list[str]:
    """All for `THREE`, a third for any other family."""
    return list(VARIANTS)[FAMILIES.index(family) % 3 :: 3] if family not in THREE else [*VARIANTS]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_in_every_way_to_run_it(family: str, make_hybrid: MakeEngine) -> None:
    first, second = expected(family)
    for name in variants(family):
        options = VARIANTS[name]
        engine = make_hybrid(family, **options)
        for prompts, right in ((PROMPTS, first), (BRANCHES, second), (PROMPTS, first)):
            assert tokens(engine, prompts) == right, name
            assert all_there(engine), name
        if options.items() >= TIGHT.items():
            assert any(isinstance(r.event, RequestRetracted) for r in engine.log.read().records)


@pytest.mark.parametrize("family", [family for family in KNOWN if family in OWN_CACHE])
def test_states_elsewhere_are_refused(family: str) -> None:
    with pytest.raises(ModelError, match="cannot use sgnb's attention"):
        Engine(hybrid_model(family))


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, ("mamba",)))
def test_half_precision(family: str) -> None:
    """Log-probabilities differ from transformers' own by rounding. Rounding may also change the
    experts of a token, with a large difference for this token."""
    model = hybrid_model(family).to(torch.bfloat16)
    with Engine(model, dtype="bfloat16") as engine:
        assert "bfloat16" in repr(engine)
        for _ in range(2):
            outputs = engine.generate(PROMPTS, **GREEDY, return_logprob=True)
    found = [value for output in outputs for value in output.logprobs]
    pairs = zip(PROMPTS, outputs, strict=True)
    own = [value for p, output in pairs for value in scores(model, p, output.token_ids)]
    errors = (torch.tensor(found) - torch.tensor(own)).abs()
    assert errors.median() < 0.05 and (errors > 0.5).sum() <= 0.05 * len(errors)


POISON = 7
"""The model gives NaN after this token, which is never sampled."""


@pytest.mark.parametrize(
    ("family", "overlap"),
    [
        pytest.param(
            family,
            overlap,
            marks=() if (family, overlap) == ("granitemoehybrid", True) else pytest.mark.slow,
        )
        for number, family in enumerate(FAMILIES)
        for overlap in (True, False)
        if family in THREE or overlap == bool(number % 2)
    ],
)
def test_nan_and_failing_steps_stay_alone(family: str, overlap: bool) -> None:
    """Also where others go on from states that the guilty one left, or take its states."""
    params = GREEDY | {"logit_bias": {POISON: -math.inf}}
    good = [[t if t != POISON else 8 for t in prompt] for prompt in PROMPTS + BRANCHES]
    bad = [[*good[i][:place], POISON, *good[i][place:]] for i, place in ((0, 9), (1, 1), (6, 40))]
    with Engine(hybrid_model(family, tie_word_embeddings=False)) as engine:
        right = [output.token_ids for output in engine.generate(good, **params)]
    model = hybrid_model(family, tie_word_embeddings=False)
    with Engine(
        model, overlap=overlap, max_step_tokens=24, max_total_tokens=150, max_states=12
    ) as engine:
        with torch.no_grad():
            model.get_input_embeddings().weight[POISON] = math.nan
        run, count = engine._loop._runner.run, itertools.count(1)

        def failing(batch: Batch) -> Any:
            if len(batch) > 1 and next(count) % 3 == 0:
                raise RuntimeError("not this time")
            return run(batch)

        engine._loop._runner.run = failing
        for prompt in bad:
            outputs: queue.SimpleQueue[Any] = queue.SimpleQueue()
            asked = [prompt, *good]
            every = [SamplingParams.make(params)] * len(asked)
            engine.submit(asked, every, numbered_callbacks(outputs.put, len(asked)))
            ended = dict(outputs.get(timeout=60) for _ in asked)
            assert "logits are NaN" in str(ended.pop(0).error)
            assert [ended[i].token_ids for i in sorted(ended)] == right
            assert not any(POISON in node["tokens"] for node in engine.tree())
            assert all_there(engine)


PATTERNS = [
    r'\{"name": "[a-z]{1,8}", "age": [0-9]{1,3}\}',
    r"The (quick|slow) [a-z]{3,6} jumps over the (lazy|busy) dog\.",
    r"(yes|no|maybe, but not today)",
]


@cache
def bundled() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(sgnb.models.path("tiny"))


@cache
def model_with_text(family: str) -> PreTrainedModel:
    return hybrid_model(family, vocab_size=len(bundled()))


def scores(model: PreTrainedModel, prompt: list[int], answer: list[int]) -> list[float]:
    """transformers' log-probabilities of the answer's tokens."""
    rows = logits_of(model, prompt, answer).double().log_softmax(-1).cpu()
    return rows.gather(1, torch.tensor(answer)[:, None])[:, 0].tolist()


WITH_JUMPS: list[dict[str, Any]] = [
    {},
    {"max_step_tokens": 7, "max_states": 10, "max_total_tokens": 150, "checkpoint_every": 16},
    {"overlap": True, "max_states": 8},
]


def jump_options(family: str) -> list[dict[str, Any]]:
    """All for `THREE`, one for any other family."""
    chosen = [WITH_JUMPS[FAMILIES.index(family) % len(WITH_JUMPS)]]
    return [{"prefix_cache": False}, *(WITH_JUMPS if family in THREE else chosen)]


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, ("granitemoehybrid",)))
def test_jumps_go_back_to_a_state(family: str) -> None:
    """What follows a jump is what transformers makes of the tokens before it, also where the jump
    cut the last ones anew."""
    tokenizer, model = bundled(), model_with_text(family)
    texts = [f"Question {i}: who, and how old? " for i in (1, 1, 2, 3)]
    prompts = [tokenizer(text)["input_ids"] for text in texts for _ in PATTERNS]
    params = [{"regex": pattern} for _ in texts for pattern in PATTERNS]
    alone: list[list[int]] = []
    for options in jump_options(family):
        with Engine(model, tokenizer=tokenizer, **options) as engine:
            outputs = engine.generate(
                prompts, params, temperature=0, max_new_tokens=60, return_logprob=True
            )
            jumps = [r.event for r in engine.log.read().records if isinstance(r.event, Jumped)]
            assert all_there(engine)
        assert len(jumps) > len(prompts) and any(jump.dropped for jump in jumps)
        for prompt, param, out in zip(prompts, params, outputs, strict=True):
            assert re.fullmatch(param["regex"], out.text)
            assert out.logprobs == pytest.approx(scores(model, prompt, out.token_ids), abs=5e-3)
        alone = alone or [out.token_ids for out in outputs]
        assert [out.token_ids for out in outputs] == alone


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, ("mamba",)))
def test_jumps_change_nothing_where_the_model_cuts_as_its_tokenizer(family: str) -> None:
    tokenizer = bundled()
    prompts = [tokenizer(f"Number {i}: ")["input_ids"] for i in range(6)]
    with Engine(model_with_text(family), tokenizer=tokenizer) as engine:
        ways = [
            [
                out.token_ids
                for out in engine.generate(
                    prompts, regex="(0;){2}[13579]{3}(;0){2};[2468]{4}", temperature=0,
                    max_new_tokens=40, jump_forward=jumps,
                )
            ]
            for jumps in (True, False)
        ]  # fmt: skip
        assert engine.stats()["jumps"] >= len(prompts)
    assert ways[0] == ways[1]
