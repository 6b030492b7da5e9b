"""Inputs of repeated decode steps agree with inputs built from scratch."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import sgnb
from benchmarks.gpu.serving import make_tokenizer
from benchmarks.loop import Bench, Player
from benchmarks.multimodal import as_media
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import step_input
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.engine.step_input import PREVIOUS, AttentionInput, SamplingInput, StepInput
from sgnb.sampling import SamplingParams
from sgnb.segment import Segment

from ..multimodal_models import multimodal_model
from ..multimodal_models.items import picture

LISTS = [[1, 5, 9, 9, 2], [3, 4], [1, 5, 9, 7, 7, 7]]


def from_scratch(batch: Batch) -> StepInput:
    alone = copy.copy(batch)
    alone.series = alone.new_slots = None
    return step_input(alone)


def assert_equal(fast: Any, slow: Any) -> None:
    if isinstance(fast, AttentionInput):
        for field in fields(fast):
            assert_equal(getattr(fast, field.name), getattr(slow, field.name))
    elif isinstance(fast, (StepInput, SamplingInput)):
        for name in fast._fields:
            assert_equal(getattr(fast, name), getattr(slow, name))
    elif isinstance(fast, np.ndarray):
        assert fast.dtype == slow.dtype and np.array_equal(fast, slow)
    elif isinstance(fast, (list, tuple)):
        assert len(fast) == len(slow)
        for one, other in zip(fast, slow, strict=True):
            assert_equal(one, other)
    elif isinstance(fast, dict):  # of partial functions, which are never equal
        assert fast.keys() == slow.keys()
    else:
        assert fast is slow or fast == slow


CASES: list[tuple[dict[str, Any], bool]] = [
    ({"temperature": 0}, True),
    ({"temperature": 0.8, "seed": 4}, True),
    ({"temperature": 0.8, "top_k": 5}, False),
    ({"min_new_tokens": 9}, False),
    ({"frequency_penalty": 0.5}, False),
    ({"return_logprob": True}, False),
    ({"recorded_alternatives": 2}, False),
    ({"regex": "[a-z ]*"}, False),
]
"""Parameters, and whether steps with them are repeated."""


@pytest.mark.parametrize("overlap", [True, False])
def test_a_repeated_step_has_the_input_of_a_step_from_scratch(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = 0
    with sgnb.Engine("tiny", overlap=overlap) as engine:
        runner = engine._loop._runner
        run = runner.run

        def checked(batch: Batch) -> Any:
            nonlocal repeated
            series = batch.series
            repeated += series is not None and series.input is not None
            assert_equal(step_input(batch), from_scratch(batch))
            return run(batch)

        monkeypatch.setattr(runner, "run", checked)
        for params, repeats in CASES:
            repeated = 0
            engine.generate(LISTS, params | {"max_new_tokens": 12, "ignore_eos": True})
            assert (repeated > 4) == repeats, params
        assert engine.stats()["steps"] >= 12 * len(CASES)


def test_steps_behind_images_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = multimodal_model("qwen2_5_vl")
    tokenizer, image = processor.tokenizer, as_media(picture(3), "image")
    with sgnb.Engine(model, processor=processor, tokenizer=tokenizer, device="cpu") as engine:
        runner = engine._loop._runner
        run, shifts = runner.run, list[int]()

        def checked(batch: Batch) -> Any:
            if batch.series is not None and batch.series.input is not None:
                shifts.extend(step_input(batch).positions - batch.starts)
                assert_equal(step_input(batch), from_scratch(batch))
            return run(batch)

        monkeypatch.setattr(runner, "run", checked)
        prompts = engine.encode([[Segment("", "media", item=image), Segment("7")], "7"])
        engine.generate(prompts, {"max_new_tokens": 24, "ignore_eos": True})
    assert len(shifts) > 20 and len(set(shifts)) == 2 and max(shifts) == 0


def test_grammars_on_the_device_advance_in_repeated_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(make_tokenizer(toy=True))
    player = Player(tokenizer)
    run, states = player.run, list[int]()

    def checked(batch: Batch) -> Any:
        if batch.series is not None and batch.series.input is not None:
            states.extend(step_input(batch).sampling.grammar_states.tolist())
        assert_equal(step_input(batch), from_scratch(batch))
        return run(batch)

    monkeypatch.setattr(player, "run", checked)
    bench = Bench(tokenizer, player)
    try:
        for overlap in (True, False):
            bench._loop.overlap = overlap
            bench.play(LISTS, SamplingParams(max_new_tokens=24, ignore_eos=True, regex="[a-z ]*"))
    finally:
        bench.close()
    assert states.count(PREVIOUS) > 30 and sum(state >= 0 for state in states) > 30
