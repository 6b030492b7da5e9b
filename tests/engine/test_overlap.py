"""Launching a step before the last one is read changes nothing that a user sees."""

from __future__ import annotations

from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.events import NodeAdded, RequestAdmitted, RequestFinished, RequestRetracted, StepRan

from ..byte_tokenizers import byte_level
from ..random_models import random_model

PROMPTS = ["The answer is ", "x", "One two three ", "The answer is not ", "zzzz"]
LIMIT = 24
ROWS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1, "seed": 3},
    {"temperature": 1, "seed": 3, "top_p": 0.8, "top_k": 50},
    {"temperature": 0.7, "seed": 5, "stop": ["e", "a"]},
    {"temperature": 1, "seed": 1, "stop_token_ids": list(range(0, 400, 7))},
    {"temperature": 1, "seed": 2, "min_new_tokens": 12, "stop_token_ids": list(range(0, 400, 5))},
    {"temperature": 1, "seed": 9, "frequency_penalty": 1.5, "repetition_penalty": 1.2},
    {
        "temperature": 1,
        "seed": 4,
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 2,
    },
    {"temperature": 1, "seed": 7, "regex": r'\{"name":"[a-z]{1,12}","age":[0-9]{1,3}\}'},
    {"temperature": 1, "seed": 8, "regex": "(yes|no), (never|always)", "return_logprob": True},
    {"temperature": 1, "seed": 6, "regex": "[a-z]{3,9}", "jump_forward": False},
    {"max_new_tokens": 0, "temperature": 0, "return_logprob": True, "logprob_start_len": 0},
]


def engine(**options: Any) -> Engine:
    return Engine(random_model(vocab_size=400), tokenizer=byte_level(), **options)


def run(engine: Engine, rows: list[dict[str, Any]]) -> list[Output]:
    prompts = [prompt for prompt in PROMPTS for _ in rows]
    params = [{"max_new_tokens": LIMIT} | row for _ in PROMPTS for row in rows]
    return engine.generate(prompts, params)


def seen(outputs: list[Output]) -> list[Any]:
    return [(o.text, o.token_ids, o.finish_reason, o.stopped_by) for o in outputs]


@pytest.mark.parametrize(
    "options", [{}, {"max_total_tokens": 110, "max_step_tokens": 40, "max_running_requests": 12}]
)
def test_mixed_requests(options: dict[str, Any]) -> None:
    with engine(overlap=False, **options) as plain, engine(overlap=True, **options) as ahead:
        expected, found = run(plain, ROWS), run(ahead, ROWS)
        assert seen(found) == seen(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
            assert a.prompt_logprobs == pytest.approx(b.prompt_logprobs, abs=1e-4)
            tops = ([[token for token, _ in row] for row in o.top_logprobs] for o in (a, b))
            assert next(tops) == next(tops)
        assert {o.finish_reason for o in found} == {"stop", "length"}
        if options:
            assert any(isinstance(r.event, RequestRetracted) for r in ahead.log.read().records)
        stats = ahead.stats()
        assert stats["free"] + stats["cached"] == stats["pool_tokens"] and stats["in_flight"] == 0


def test_it_does_run_ahead() -> None:
    """A request that stops by a token has one more row computed, for nothing; one that ends by its
    limit does not."""
    stop = {"temperature": 1, "seed": 1, "stop_token_ids": list(range(0, 400, 3))}
    computed = []
    for overlap in (False, True):
        with engine(overlap=overlap) as one:
            assert one.generate("x", stop, max_new_tokens=200).finish_reason == "stop"
            one.generate("The answer is ", temperature=0, max_new_tokens=5, ignore_eos=True)
            computed.append(one.stats()["computed_tokens"])
    assert computed[1] == computed[0] + 1


def test_a_row_that_needs_the_host_holds_the_others_back() -> None:
    """With a penalty in the batch nothing is launched ahead, so no row is computed for nothing."""
    stop = {"temperature": 1, "seed": 1, "stop_token_ids": list(range(0, 400, 3))}
    penalty = {"temperature": 1, "seed": 1, "presence_penalty": 0.5, "ignore_eos": True}
    rows = []
    for overlap in (False, True):
        with engine(overlap=overlap) as one:
            one.generate(["x", "y"], [stop, penalty], max_new_tokens=40)
            rows.append(
                sum(
                    len(r.event.sampled)
                    for r in one.log.read().records
                    if isinstance(r.event, StepRan)
                )
            )
            rows.append(one.stats()["computed_tokens"])
    assert rows[:2] == rows[2:]


@pytest.mark.parametrize("overlap", [False, True])
def test_the_tree_has_a_request_before_its_last_token_is_read(overlap: bool) -> None:
    """What is left to do at the end is done while the device works; what is logged stays in
    order."""
    with engine(overlap=overlap) as one:
        output = one.generate("The answer is ", temperature=0, max_new_tokens=6, ignore_eos=True)
        events = [record.event for record in one.log.read().records]
        assert (
            one.cached_length(one.encode(["The answer is "])[0] + output.token_ids)
            == output.prompt_tokens + 5
        )
    steps = [place for place, event in enumerate(events) if isinstance(event, StepRan)]
    added = [place for place, event in enumerate(events) if isinstance(event, NodeAdded)]
    (finished,) = [
        place for place, event in enumerate(events) if isinstance(event, RequestFinished)
    ]
    assert max(added) < max(steps) < finished
    assert events[max(steps)].running == 0 and events[max(steps)].in_flight == 0
    assert len(output.token_ids) == 6


def test_whoever_waits_for_a_place_gets_it_before_the_last_token_is_read() -> None:
    """One request at a time: the next one's step is launched while the last one's is at work."""
    with engine(overlap=True, max_running_requests=1) as one:
        one.generate(["x", "y", "z"], temperature=0, max_new_tokens=3, ignore_eos=True)
        events = [record.event for record in one.log.read().records]
    admitted = [
        event.request for event in events if isinstance(event, (RequestAdmitted, RequestFinished))
    ]
    assert admitted == [1, 2, 1, 3, 2, 3]


def test_abort_and_a_new_request_in_the_same_breath() -> None:
    with engine(overlap=True) as one:
        stream = one.generate(
            "The answer is ", temperature=0, max_new_tokens=200, ignore_eos=True, stream=True
        )
        assert next(stream).text
        stream.close()
        after = one.generate("The answer is ", temperature=0, max_new_tokens=8, ignore_eos=True)
    with engine(overlap=False) as other:
        assert (
            after.token_ids
            == other.generate(
                "The answer is ", temperature=0, max_new_tokens=8, ignore_eos=True
            ).token_ids
        )
