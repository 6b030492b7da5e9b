"""Chats whose sessions exceed the KV pool: evicted histories come back from host memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sgnb import Engine
from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from tests.random_models import random_model

SESSIONS, TURNS, MESSAGE, ANSWER = 6, 2, 270, 13
GREEDY = {"temperature": 0, "ignore_eos": True, "max_new_tokens": ANSWER}


def chat(engine: Engine) -> list[list[int]]:
    """Return the histories after all turns. In each turn all sessions ask at once."""
    chance = random.Random(5)
    histories: list[list[int]] = [[] for _ in range(SESSIONS)]
    for _ in range(TURNS):
        for history in histories:
            history += [chance.randrange(engine.vocab_size) for _ in range(MESSAGE)]
        outputs: Any = engine.generate(histories, **GREEDY)
        for history, output in zip(histories, outputs, strict=True):
            history += output.token_ids
    return histories


def test_each_token_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except the last part of a block. The pool holds a third of the histories."""
    monkeypatch.setattr(TierCosts, "load_seconds", lambda costs, store, size: 0.0)
    model, total = random_model(max_position_embeddings=1024), SESSIONS * TURNS * (MESSAGE + ANSWER)
    with Engine(model, device="cpu", max_total_tokens=total) as engine:
        exact = chat(engine)
    with Engine(model, device="cpu", max_total_tokens=total // 3, host_cache=0.1) as engine:
        assert chat(engine) == exact
        stats = engine.stats()
    assert stats["dropped_blocks"] == 0 and stats["loaded_tokens"] >= 3 * 4 * BLOCK
    assert stats["computed_tokens"] <= SESSIONS * TURNS * (MESSAGE + ANSWER + BLOCK)
    assert stats["free"] + stats["cached"] == total // 3 and stats["in_flight"] == 0
