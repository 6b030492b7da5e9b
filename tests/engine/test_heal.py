"""The end of a jump is the model's to choose where an allowed longer token begins with it; drafted
in the same pass or asked for token by token, the tokens are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.jump_forward import compare
from sgnb.engine.engine import Engine
from sgnb.events import Jumped, StepRan

from ..byte_tokenizers import byte_level
from ..random_models import random_model
from .test_retokenize import Walk

TOKENIZER = byte_level()
PROMPTS = ["The answer is ", "x", "One two three "]
HEALED = [
    r"[ab]: the (quick|qu[xyz]|quit it) [a-c], the (lazy|laz[ab]|dog)",
    r"(The answer is( 4| the| not)[.,] ){2}",
    r"[a-c], jumps? over the [a-z]{1,8}( jum|j)ps",
]
"""With the tokens of `byte_level`, jumps end where longer ones go on."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(random_model(vocab_size=len(TOKENIZER)), tokenizer=TOKENIZER) as engine:
        yield engine


@pytest.fixture(scope="module")
def bundled() -> Iterator[Engine]:
    with Engine("tiny") as engine:
        yield engine


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def test_a_jump_stops_before_what_a_longer_token_begins_with() -> None:
    from sgnb.engine.request.tokenizer import Tokenizer

    tokenizer = Tokenizer(TOKENIZER)
    pieces = tokenizer.vocabulary.pieces
    assert b" jumps" in pieces and b" " in pieces
    walk = Walk(tokenizer, "[ab]: (jumps|x)")
    walk.give(pieces.index(b"a"))
    assert bytes(walk.constraint.data) == b"a:"
    allowed = walk.constraint.allowed_tokens().nonzero()[0]
    assert {b" ", b" jumps"} <= {pieces[token] for token in allowed}
    assert all((b" jumps".startswith(pieces[token]) or pieces[token] == b" x") for token in allowed)
    walk.give(pieces.index(b" jumps"))
    assert bytes(walk.constraint.data) == b"a: jumps" and walk.constraint.finished
    walk.check()


def test_what_the_model_wrote_is_never_asked_for_again() -> None:
    """A longer token that begins in the model's own last token is no reason to take that back."""
    from sgnb.engine.request.tokenizer import Tokenizer

    tokenizer = Tokenizer(TOKENIZER)
    pieces = tokenizer.vocabulary.pieces
    walk = Walk(tokenizer, "( j|x)(ump|a)s?")
    walk.give(pieces.index(b" "))
    assert bytes(walk.constraint.data[:1]) == b" "
    walk.check()


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "options, temperature",
    [
        ({}, 0),
        ({"top_k": 3, "stream": True}, 1),
        slow({}, 1),
        *(slow({"top_k": 3}, t) for t in (0, 1)),
        *(slow({"logit_bias": {5: -3.0}}, t) for t in (0, 1)),
        *(slow({"stream": True}, t) for t in (0, 1)),
    ],
)
def test_drafted_tails_change_no_token(
    engine: Engine, temperature: float, options: dict[str, Any]
) -> None:
    """Log-probabilities and stop strings ask for every token: the slow twin."""
    for number, pattern in enumerate(HEALED * 4):
        asked: dict[str, Any] = {
            "regex": pattern,
            "max_new_tokens": 60,
            "temperature": temperature,
            "seed": number,
        } | options
        prompt = PROMPTS[number % 3]
        stream = asked.pop("stream", False)
        fast = engine.generate(prompt, asked, stream=stream)
        if stream:
            parts = list(fast)
            fast = parts[-1]
            assert "".join(part.delta for part in parts) == fast.text
        for slow in ({"return_logprob": True}, {"stop": ["never"]}):
            twin = engine.generate(prompt, asked | slow)
            assert (fast.text, fast.token_ids) == (twin.text, twin.token_ids)


@pytest.mark.parametrize(
    "options",
    [
        {"max_total_tokens": 130, "max_running_requests": 6},
        slow({"overlap": True}),
        slow({"max_step_tokens": 3}),
        slow({"prefix_cache": False}),
    ],
)
def test_neighbours_chunks_and_memory_change_no_token(
    engine: Engine, options: dict[str, Any]
) -> None:
    asked = [
        {"regex": pattern, "max_new_tokens": 60, "temperature": i % 2, "seed": i}
        for i, pattern in enumerate(HEALED * 6)
    ]
    prompts = [PROMPTS[i % 3] for i in range(len(asked))]
    pairs = zip(prompts, asked, strict=True)
    alone = [engine.generate(prompt, own, return_logprob=True) for prompt, own in pairs]
    with Engine(engine_model(), tokenizer=TOKENIZER, **options) as other:
        together = other.generate(prompts, asked)
        stats = other.stats()
    assert [out.token_ids for out in together] == [out.token_ids for out in alone]
    assert stats["free"] + stats["cached"] == stats["pool_tokens"] and stats["in_flight"] == 0


def engine_model() -> Any:
    return random_model(vocab_size=len(TOKENIZER))


def test_the_log_tells_what_is_taken_back(engine: Engine) -> None:
    mark = engine.log.last
    outputs = [
        engine.generate("x", regex=pattern, max_new_tokens=most, seed=seed)
        for pattern, most in (*((pattern, 60) for pattern in HEALED), ("([a-z]+ ){12}", 26))
        for seed in range(8)
    ]
    events = [record.event for record in engine.log.read(mark).records]
    assert any(isinstance(event, Jumped) and event.dropped and not event.tokens for event in events)
    tokens: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, Jumped):
            own = tokens.setdefault(str(event.request), [])
            tokens[str(event.request)] = own[: len(own) - event.dropped] + list(event.tokens)
        elif isinstance(event, StepRan):
            for sampled in event.sampled:
                tokens.setdefault(str(sampled.request), []).append(sampled.token)
    assert [tokens[out.id] for out in outputs] == [out.token_ids for out in outputs]
    rows = [row for out in outputs for row in out.meta_info["grammar"]]
    assert {row["kind"] for row in rows} == {"jumped", "sampled"}
    assert [len(out.records) for out in outputs] == [len(out.token_ids) for out in outputs]


def test_a_draft_saves_the_pass_of_what_the_model_agrees_with(engine: Engine) -> None:
    passes = {}
    for scored in (False, True):
        before = engine.stats()["steps"]
        for pattern in HEALED:
            engine.generate(PROMPTS[0], regex=pattern, seed=3, return_logprob=scored)
        passes[scored] = engine.stats()["steps"] - before
    assert passes[False] < passes[True]


SCHEMA = {
    "type": "object",
    "properties": {
        "flies": {"type": "boolean"},
        "young": {"type": "string", "maxLength": 20},
        "lives_in_water": {"type": "boolean"},
        "legs": {"type": "integer"},
    },
    "required": ["flies", "young", "lives_in_water", "legs"],
    "additionalProperties": False,
}


def test_the_bundled_model_writes_what_it_writes_without_jumps(bundled: Engine) -> None:
    prompts = [
        f"<|bos|><|user|>\nGive me a JSON object with flies, young, lives_in_water, legs for a "
        f"{animal}.<|end|>\n<|assistant|>\n"
        for animal in ("goose", "cow", "dog", "horse")
    ]
    comparison = compare(bundled, prompts, json_schema=SCHEMA, max_new_tokens=80)
    assert comparison.differences == ()
    assert comparison.jumping_passes < 0.6 * comparison.stepping_passes
    [goose, cow, *_] = bundled.generate(
        prompts, json_schema=SCHEMA, max_new_tokens=80, temperature=0
    )
    assert goose.text.startswith('{"flies": true, "young": "gosling", ')
    assert cow.text.startswith('{"flies": false, "young": "calf", ')


def test_a_stream_shows_no_guess(engine: Engine) -> None:
    pieces = engine.tokenizer.vocabulary.pieces
    for pattern in HEALED:
        parts = list(engine.generate("x", regex=pattern, max_new_tokens=60, stream=True, seed=1))
        assert len(parts) > 2
        for part in parts:
            assert b"".join(pieces[token] for token in part.token_ids).decode() == part.text


@pytest.mark.parametrize("limit", [12, slow(24), slow(60)])
def test_recursive_grammars_are_healed_too(bundled: Engine, limit: int) -> None:
    node = {
        "type": "object",
        "properties": {"flies": {"type": "boolean"}, "next": {"$ref": "#/$defs/n"}},
        "required": ["flies"],
    }
    asked = {"json_schema": {"$ref": "#/$defs/n", "$defs": {"n": node}}, "max_new_tokens": limit}
    for seed in range(6):
        mark = bundled.stats()["steps"]
        fast = bundled.generate("x", asked, seed=seed)
        passes = bundled.stats()["steps"] - mark
        twin = bundled.generate("x", asked, seed=seed, return_logprob=True)
        assert (fast.text, fast.token_ids) == (twin.text, twin.token_ids)
        assert passes <= bundled.stats()["steps"] - mark - passes


def test_a_draft_leaves_a_long_prompt_in_one_step(bundled: Engine) -> None:
    """What is scored comes in short steps, for its many rows of logits; a draft has one."""
    mark = bundled.log.last
    bundled.generate(list(range(300, 1300)), json_schema=SCHEMA, max_new_tokens=80, temperature=0)
    steps = [
        record.event
        for record in bundled.log.read(mark).records
        if isinstance(record.event, StepRan)
    ]
    assert steps[0].extended[0].length > 1000
