"""Recorded steps of real runs, replayed on an empty cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.step_record import load_step, save_step
from sgnb import Engine
from sgnb.engine.step_input import StepInput
from sgnb.errors import RecordError

from ..hybrid_models import hybrid_model
from ..random_models import random_model

TRUNK = [3 + (11 * i) % 90 for i in range(30)]
PROMPTS = [[*TRUNK, 5], [*TRUNK, 7, 9], [8, 13], TRUNK[:20] + [4] * 25]
OPTIONS: dict[str, Any] = {"device": "cpu", "max_step_tokens": 24, "max_running_requests": 8}
SAMPLING: list[dict[str, Any]] = [
    {"temperature": 0}, {"seed": 1, "top_k": 9}, {"seed": 2},
    {"temperature": 0, "return_logprob": True, "logprob_start_len": 3, "top_logprobs_num": 2},
]  # fmt: skip


def record(model: PreTrainedModel, folder: Path) -> list[Tensor]:
    """Run requests, save each step to `folder`, and return the logits of each step."""
    results: list[Tensor] = []
    with Engine(model, **OPTIONS) as engine:
        runner = engine._loop._runner
        compute = runner.compute_logits

        def recorded(step: StepInput) -> Tensor:
            save_step(step, folder / f"{len(results)}.step")
            logits = compute(step)
            results.append(logits.clone())
            return logits

        runner.compute_logits = recorded  # type: ignore[method-assign]
        for _ in range(2):  # the second time on cached prefixes
            engine.generate(
                PROMPTS,
                [{"max_new_tokens": 6, "ignore_eos": True, **each} for each in SAMPLING],
            )
    return results


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_replayed_steps_have_the_same_logits(family: str, tmp_path: Path) -> None:
    model = random_model() if family == "llama" else hybrid_model(family)
    expected = record(model, tmp_path)
    steps = [load_step(tmp_path / f"{number}.step") for number in range(len(expected))]
    assert any(step.uses for step in steps) and any(step.sampling.filters for step in steps)
    assert any(node is not None for step in steps for node in step.attention.nodes)
    assert any(len(plan.written) > 1 for step in steps for plan in step.states) == (
        family == "qwen3_next"
    )
    with Engine(model, **OPTIONS) as engine:
        runner = engine._loop._runner
        logits = [engine._loop.call(lambda s=step: runner.compute_logits(s)) for step in steps]
    for found, right in zip(logits, expected, strict=True):
        assert torch.equal(found, right)


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    record(random_model(), tmp_path)
    path = tmp_path / "0.step"
    data = path.read_bytes()
    renamed = data.replace(b"kv_indices", b"kv_indexes")
    for damaged in (b"", data[:100], data[:-9], renamed):
        path.write_bytes(damaged)
        with pytest.raises(RecordError, match=r"recorded step 0\.step"):
            load_step(path)
