"""Faults of comparisons: each approximate answer arrives, and is verified or marked unverified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sgnb.engine.loop import verification
from sgnb.engine.model.key_rotation import KeyRotation

from .test_approximate import ask, check_memory, engine, prompts, record

__all__ = ["engine"]


@pytest.mark.parametrize("place", ["divergence", "errors"])
def test_an_error_of_a_comparison_leaves_an_unverified_answer(
    place: str, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("no numbers")

    owner: Any = verification if place == "divergence" else KeyRotation
    monkeypatch.setattr(owner, place, fail)
    old, new = prompts(1)
    ask(engine, old, False)
    approximation = record(ask(engine, new))
    assert approximation.wait(30) is None and approximation.status == "unverified"
    assert approximation.reason == "the comparison failed: no numbers"

    monkeypatch.undo()
    old, new = prompts(2)
    ask(engine, old, False)
    assert record(ask(engine, new)).wait(30) is True
    check_memory(engine)


def test_an_answer_arrives_although_the_keys_cannot_be_copied(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the loss of a device, each copy from the device fails."""

    def fail() -> None:
        raise RuntimeError("the device is lost")

    splices = engine._loop.tiers.splices
    old, new = prompts(3)
    ask(engine, old, False)
    add = splices.verifier.add

    def add_with_lost_keys(state: Any, output: Any) -> None:
        state.key_sample = state.key_sample._replace(content=SimpleNamespace(cpu=fail))
        add(state, output)

    monkeypatch.setattr(splices.verifier, "add", add_with_lost_keys)
    output = ask(engine, new)
    assert len(output.token_ids) == 8
    assert record(output).wait(30) is None
    assert record(output).reason == "the comparison failed: the device is lost"
    check_memory(engine)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
@pytest.mark.parametrize("copies", [0, 1])
def test_a_copy_without_memory_is_computed_exactly(
    error: type[Exception], copies: int, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is at the copy of the keys, or afterwards at the sample of the keys."""
    splices, calls = engine._loop.tiers.splices, list[int]()
    content = splices._content

    def fail(slots: Any) -> Any:
        calls.append(len(slots))
        if len(calls) > copies:
            raise error("out of memory")
        return content(slots)

    old, new = prompts(4)
    exact = ask(engine, new, False).token_ids
    engine.flush_cache()
    ask(engine, old, False)
    monkeypatch.setattr(splices, "_content", fail)
    output = ask(engine, new)
    assert len(calls) == copies + 1
    assert output.token_ids == exact
    assert engine.cached_length(new) >= len(new) - 1, "the exact prompt is shared"
    monkeypatch.undo()
    assert record(output).wait(30) is True
    check_memory(engine)
