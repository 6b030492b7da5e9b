"""Requests that begin with given output tokens: an edit of an earlier output."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.errors import GrammarError, OptionError, RequestError
from sgnb.events import RequestAdmitted, RequestQueued, StepRan
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..random_models import random_model

PROMPT = "Once upon a time"
SCHEMA = '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "ok": {"type": "boolean"}}, "required": ["name", "ok"]}'  # noqa: E501
GRAMMARS: list[dict[str, Any]] = [
    {},
    {"regex": r"[A-Z][a-z]{2,9}: (yes|no|maybe), because [a-z ]{5,20}\."},
    {"json_schema": SCHEMA},
    {"ebnf": 'root ::= item+\nitem ::= "item " [a-z]+ "; "'},
    {"stop": ("q", "zz")},
    {"frequency_penalty": 0.5},
    {"temperature": 1.0, "seed": 3},
    {"min_new_tokens": 4},
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine whose model and tokenizer agree on 400 tokens."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        yield engine


def generate(engine: Engine, output: list[int], **params: Any) -> Output:
    params = {"max_new_tokens": 40, "temperature": 0} | params
    results: queue.SimpleQueue[Output] = queue.SimpleQueue()
    engine.submit(
        [PROMPT], [SamplingParams.make(None, **params)], [results.put], given_outputs=[output]
    )
    result = results.get(timeout=60)
    if result.error is not None:
        raise result.error
    return result


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, len(GRAMMARS)))]
)
def test_a_beginning_of_the_own_output_changes_nothing(engine: Engine, number: int) -> None:
    """Slow twin: the request without a given output."""
    params = GRAMMARS[number]
    plain = generate(engine, [], **params)
    positions = [  # a jump is kept as a whole
        position
        for position in range(1, len(plain.token_ids) + 1)
        if not plain.records[position:] or plain.records[position].kind != "jumped"
    ]
    assert positions
    for position in positions:
        again = generate(engine, plain.token_ids[:position], **params)
        assert again.token_ids == plain.token_ids
        assert again.text == plain.text
        assert (again.finish_reason, again.stopped_by) == (plain.finish_reason, plain.stopped_by)
        assert again.prompt_tokens == plain.prompt_tokens


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 399), min_size=1, max_size=8))
def test_given_tokens_equal_the_same_tokens_in_the_prompt(
    engine: Engine, output: list[int]
) -> None:
    result = generate(engine, output, ignore_eos=True, max_new_tokens=12)
    assert result.token_ids[: len(output)] == output
    prompt = engine.encode([PROMPT])[0] + output
    options: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
    expected = engine.generate(prompt, max_new_tokens=12 - len(output), **options)
    assert result.token_ids[len(output) :] == expected.token_ids


def test_log_probabilities_cover_the_given_tokens(engine: Engine) -> None:
    plain = generate(engine, [], return_logprob=True, ignore_eos=True)
    again = generate(engine, plain.token_ids[:7], return_logprob=True, ignore_eos=True)
    assert again.token_ids == plain.token_ids
    assert again.logprobs == pytest.approx(plain.logprobs, abs=1e-4)


def test_a_forbidden_token_is_an_error_with_the_allowed_tokens(engine: Engine) -> None:
    params = {"regex": "(yes|no)!"}
    with pytest.raises(GrammarError, match="forbids 'x' as output token 0, at the begin") as error:
        generate(engine, engine.encode(["x"])[0], **params)
    assert "'n'" in str(error.value) and "'y'" in str(error.value)
    with pytest.raises(GrammarError, match="forbids '!' as output token 1, after 'n'"):
        generate(engine, engine.encode(["n!"])[0], **params)
    with pytest.raises(GrammarError, match="output token 1, after 'y'"):
        generate(engine, engine.encode(["yX"])[0], stop_token_ids=engine.encode(["X"])[0], **params)


def test_given_output_beyond_the_limit(engine: Engine) -> None:
    with pytest.raises(RequestError, match="given output has 5 tokens, and the limit is 4"):
        generate(engine, [40] * 5, max_new_tokens=4)
    with pytest.raises(RequestError, match="outside the vocabulary"):
        generate(engine, [400])
    with pytest.raises(RequestError, match="needs more than"):
        generate(engine, engine.encode(["b"])[0], regex="a|b[a-z]{30}", max_new_tokens=10)
    with pytest.raises(OptionError, match="given_outputs"):
        generate(engine, "text")  # type: ignore[arg-type]
    assert generate(engine, [40] * 4, max_new_tokens=4).finish_reason == "length"


def test_a_given_stop_string_ends_the_text(engine: Engine) -> None:
    result = generate(engine, engine.encode(["ab.cd"])[0], stop=".")
    assert (result.text, result.finish_reason, result.stopped_by) == ("ab", "stop", ".")


def test_events_count_given_tokens_as_prompt(engine: Engine) -> None:
    plain = generate(engine, [], ignore_eos=True)
    after = engine.log.last
    again = generate(engine, plain.token_ids[:30], ignore_eos=True)
    records = [record.event for record in engine.log.read(after).records]
    queued = next(event for event in records if isinstance(event, RequestQueued))
    assert list(queued.prompt)[-30:] == plain.token_ids[:30] and queued.num_given == 30
    admitted = next(event for event in records if isinstance(event, RequestAdmitted))
    assert len(queued.prompt) - admitted.cached == 1
    extended = [row for event in records if isinstance(event, StepRan) for row in event.extended]
    assert extended[0].length == 1  # only the last given token is computed
    assert again.cached_tokens == again.prompt_tokens
