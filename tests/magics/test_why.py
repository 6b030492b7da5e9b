"""`sgnb.why_no_hit` on the real engine."""

from __future__ import annotations

from typing import Any

import pytest

import sgnb
from sgnb import gen, select
from sgnb.errors import OptionError


@pytest.fixture
def engine(shell: Any) -> Any:
    engine = sgnb.load("tiny")
    sgnb.flush_cache()
    return engine


def ask(s: Any, question: str) -> None:
    s += "Answer in one word. Question: " + question + " Answer:"
    s += gen("a", max_tokens=2, temperature=0, ignore_eos=True)


def test_of_a_state(engine: Any) -> None:
    program = sgnb.function(ask)
    program.run("What is the capital of France?").sync()
    state = program.run("What is the colour of snow?")
    state.sync()
    report = sgnb.why_no_hit(state)
    (found,) = report.lookups
    meta = state.get_meta_info("a")
    assert (found.prompt_tokens, found.cached_tokens) == (
        meta["prompt_tokens"],
        meta["cached_tokens"],
    )
    assert [reason.kind for reason in found.reasons] == ["differs", "last token"]
    assert found.difference is not None and found.difference.tokens == found.cached_tokens
    assert "a [0]" in repr(report) and "differs" in repr(report)
    assert report._repr_html_().startswith('<div class="tex2jax_ignore')
    sgnb.flush_cache()
    state = program.run("What is the colour of snow?")
    state.sync()
    (found,) = sgnb.why_no_hit(state).lookups
    assert [reason.kind for reason in found.reasons] == ["evicted", "last token"]
    assert "flush" in found.reasons[0].text


def many(s: Any) -> None:
    s += "Tell me about the weather. "
    s += "It is" + select("w", [" warm", " warm and dry", " cold"])
    branches = s.fork(3)
    branches += lambda i: f" Tip {i}:"
    branches += gen("tip", max_tokens=4, n=2)
    branches.join()
    s += " So:" + gen("end", regex="(yes|no), that is all")


def test_every_prompt_token_has_its_reason(engine: Any) -> None:
    states = sgnb.function(many).run_batch([{}] * 3)
    for state in states:
        found = sgnb.why_no_hit(state).lookups
        assert len(found) == 3 + 3 * 2 + 1
        for one in found:
            assert one.cached_tokens + sum(r.tokens for r in one.reasons) == one.prompt_tokens
        assert all(r.kind != "computing" for one in found for r in one.reasons), "computed once"


def test_of_two_prompts(engine: Any) -> None:
    report = sgnb.why_no_hit("The sky is blue.", "The sky is ")
    at = report.difference
    assert at is not None
    assert repr(report).startswith(f"they diverge at token {at.tokens} (character ")
    assert at.tokens == len(engine.encode(["The sky is"])[0])
    assert sgnb.why_no_hit([1, 2, 3], [1, 2]).difference.tokens == 2
    with pytest.raises(OptionError, match="not a state of a program"):
        sgnb.why_no_hit("one text")
