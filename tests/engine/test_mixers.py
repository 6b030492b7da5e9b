"""Recurrent layers found at load, and the groups of texts that they compute together."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sgnb.engine.cache.state_pool import StateShape
from sgnb.engine.engine import Engine
from sgnb.engine.model import recurrent
from sgnb.engine.model.mixer import Mixer
from sgnb.engine.model.mixer_probe import _padding_mask, find_mixers

from ..hybrid_models import hybrid_model
from ..random_models import VOCAB
from .test_hybrids import FAMILIES, QUICK, THREE, some_are_slow

WIDTH = 6


class RunningSum(nn.Module):
    """The output and the state are the sum of all tokens so far."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.fault = fault

    def forward(self, hidden: Tensor, cache: Any, attention_mask: Tensor | None = None) -> Tensor:
        if self.fault == "raises" and attention_mask is not None:
            raise NotImplementedError
        if self.fault != "ignores the mask" and attention_mask is not None:
            hidden = hidden * attention_mask[:, :, None]
        start = cache.layers[0].recurrent_states[0][:, None]
        sums = start + hidden.cumsum(1)
        state = sums[:, 0] if self.fault == "wrong state" else sums[:, -1]
        cache.layers[0].update_recurrent_state(state)
        return sums


class WithoutMask(nn.Linear):
    def forward(self, input: Tensor, cache: Any = None) -> Tensor:
        return super().forward(input)


@pytest.mark.parametrize(
    ("fault", "name"),
    [("", "attention_mask"), ("raises", ""), ("ignores the mask", ""), ("wrong state", "")],
)
def test_support_for_padding_is_measured(fault: str, name: str) -> None:
    shapes = [StateShape("recurrent", 0, (WIDTH,), torch.float32)]
    assert _padding_mask(RunningSum(fault), "cache", shapes, WIDTH) == name


def test_a_mixer_without_a_mask_is_not_padded() -> None:
    assert _padding_mask(WithoutMask(WIDTH, WIDTH), "cache", [], WIDTH) == ""


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, QUICK))
def test_families_that_support_padding(family: str) -> None:
    name = "conv_mask" if family == "zaya" else "attention_mask"
    assert {mixer.mask_name for mixer in find_mixers(hybrid_model(family))} == {name}


def count_texts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record (texts, length) of each call of a mixer."""
    calls: list[tuple[int, int]] = []
    compute = recurrent._compute

    def counted(mixer: Mixer, forward: Any, pool: Any, group: recurrent.Group, *rest: Any) -> Any:
        texts = 1 if isinstance(group.read, slice) else len(group.read)
        calls.append((texts, group.length))
        return compute(mixer, forward, pool, group, *rest)

    monkeypatch.setattr(recurrent, "_compute", counted)
    return calls


def test_prompts_of_similar_lengths_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [15, 9, 14, 3, 11, 13, 5, 7]  # shorter than a checkpoint's distance
    rng = random.Random(0)
    prompts = [[rng.randrange(3, VOCAB) for _ in range(length)] for length in lengths]
    model = hybrid_model("qwen3_next")
    greedy: dict[str, Any] = {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True}
    with Engine(model) as engine:
        expected = [engine.generate(prompt, **greedy).token_ids for prompt in prompts]
        engine.flush_cache()
        calls = count_texts(monkeypatch)
        outputs = engine.generate(prompts, **greedy)
    assert [output.token_ids for output in outputs] == expected
    assert set(calls) == {(5, 15), (2, 7), (1, 3), (8, 1)}


@pytest.mark.parametrize("family", some_are_slow(FAMILIES, THREE))
def test_new_texts_read_no_state(family: str) -> None:
    """The states of a new text are uninitialized memory: alone, and of several texts at once."""
    rng = random.Random(1)
    prompts = [[rng.randrange(3, VOCAB) for _ in range(length)] for length in (5, 7, 11)]
    greedy: dict[str, Any] = {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True}
    with Engine(hybrid_model(family)) as engine:
        expected = [engine.generate(prompt, **greedy).token_ids for prompt in prompts]
        states = engine._loop._runner._states
        assert states is not None
        pool = states.pool
        for tensors in pool.tensors.values():
            for tensor in tensors:
                tensor[: pool.states] = torch.nan
        for batch in (prompts, prompts[:1]):
            engine.flush_cache()
            outputs = engine.generate(batch, **greedy)
            assert [output.token_ids for output in outputs] == expected[: len(batch)]
