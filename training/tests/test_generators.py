"""The training text: the same for the same seed, and never a held-out instance in it."""

from __future__ import annotations

from random import Random

import pytest

from sgnb.models import path
from training import forms
from training.corpus import DOCUMENTS, ITEMS, SHOTS, Batches, cut, document
from training.items import JOINT, Draw, draw, held_out
from training.suites import SUITES
from training.suites.base import Suite

TOKENIZER = path() / "tokenizer.json"


def test_the_same_seed_gives_the_same_document() -> None:
    made = [document(Random(f"same/{i}"), long=i % 5 == 0) for i in range(200)]
    assert made == [document(Random(f"same/{i}"), long=i % 5 == 0) for i in range(200)]
    assert len({d.text for d in made}) > 190


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    first, second = (Batches(TOKENIZER, 3, 10, 2048, (256, 512)) for _ in range(2))
    assert first[0].shape == (8, 256)
    assert first[1].shape == (4, 512)
    assert first[1].equal(second[1])
    assert not first[0].equal(first[2])


def test_no_training_document_holds_a_held_out_instance() -> None:
    for i in range(4000):
        made = document(Random(f"split/{i}"))
        assert made.keys
        assert not [key for key in made.keys if held_out(key)], made.text


def test_no_held_out_prompt_is_in_the_training_text() -> None:
    """What a held-out prompt asks last is asked nowhere in the training text, whatever the keys say."""
    asked = {instance(case.prompt, case.keys[0]) for suite in SUITES for case in suite.cases(20) if case.keys}
    assert len(asked) > 1000
    for i in range(4000):
        made = document(Random(f"text/{i}"), long=i % 8 == 0)
        parts = made.text.split(JOINT)
        prompts = ("".join(parts[:end]) for end in range(1, len(parts)))
        assert not asked & {instance(prompt, key) for prompt in prompts for key in {made.keys[0], made.keys[-1]}}


FROM_THE_TEXT = ("notes/", "reading/", "memory/", "system/", "json/", "extract", "character", "tool/", "essay/")
"""Kinds where the question is common and the instance is what stands before it."""


def instance(prompt: str, key: str) -> str:
    """What makes a prompt this one: the last turn of a chat, what the last line shows, or all of it."""
    prompt = prompt.removeprefix(forms.BOS)
    if key.startswith(FROM_THE_TEXT):
        return prompt
    if forms.USER in prompt:
        return prompt.removesuffix(f"{forms.END}\n{forms.ASSISTANT}\n").rpartition(f"{forms.USER}\n")[2]
    lines = [line for line in prompt.splitlines() if line.partition(": ")[2]] or [prompt]
    return lines[-1].partition(": ")[2] or lines[-1]


@pytest.mark.parametrize("suite", [s for s in SUITES if not isinstance(s.make, tuple)], ids=lambda suite: suite.name)
def test_every_suite_asks_only_what_is_held_out(suite: Suite) -> None:
    cases = suite.cases(20)
    assert cases == suite.cases(20)
    assert all(held_out(key) for case in cases for key in case.keys)
    assert all(case.want for case in cases)
    assert all(case.want in case.choices for case in cases if case.choices)


@pytest.mark.parametrize("make", {make: None for _, make in (*ITEMS, *SHOTS)})
def test_every_item_has_an_answer(make: Draw) -> None:
    for i in range(50):
        item = draw(make, Random(f"item/{i}"))
        for text in (item.ask, item.short, item.full):
            assert text
            assert text == text.strip()
            assert not {"{", "}"} & set(text) or "JSON" in item.ask or item.full.startswith("{")


def test_every_kind_of_document_can_be_long_and_short() -> None:
    for _, make in DOCUMENTS:
        short = sum(len(make(Random(i), False).text) for i in range(20))
        long = sum(len(make(Random(i), True).text) for i in range(20))
        assert 0 < short <= long


def test_cutting_loses_nothing() -> None:
    for i in range(500):
        rng = Random(f"cut/{i}")
        text = document(rng).text
        assert "".join(cut(text, rng)) == text.replace(JOINT, "")
