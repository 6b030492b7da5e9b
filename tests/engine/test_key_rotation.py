"""Rotated keys against computed keys, for all families and kinds of scaled frequencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sgnb.engine import Engine
from sgnb.engine.model.key_rotation import KeyRotation
from sgnb.errors import OptionError

from ..hybrid_models import hybrid_model
from ..random_models import FAMILIES, random_model

ABSOLUTE = {"gpt2", "opt", "gpt_neo"}
"""Families with learned positions."""

UNKNOWN = {"gptj", "codegen", "deepseek_v2", "deepseek_v3"}
"""Families whose keys rotate in other ways: frequencies without a buffer, latent attention."""

SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
}  # fmt: skip


def rotation_of(engine: Engine) -> KeyRotation:
    splices = engine._loop.tiers.splices
    engine._loop.call(splices.check)
    assert splices._rotation is not None
    return splices._rotation


def content(engine: Engine, tokens: list[int], begin: int) -> torch.Tensor:
    """Return the keys and values of the tokens from `begin` on."""
    cache = engine._cache
    engine.generate(tokens, max_tokens=1, temperature=0)

    def read() -> torch.Tensor:
        slots = cache.tree.peek(torch.tensor(tokens, dtype=torch.int32).numpy()).node.path_slots()
        rows = torch.empty((len(tokens) - begin, cache.slots.unit_bytes), dtype=torch.uint8)
        cache.slots.copy(slots[begin : len(tokens)], rows)
        return rows

    return engine._loop.call(read).clone()


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - ABSOLUTE - UNKNOWN))
def test_the_rotation_of_a_family_is_found(family: str) -> None:
    with Engine(random_model(family)) as engine:
        rotation_of(engine)


@pytest.mark.parametrize("family", sorted(ABSOLUTE | UNKNOWN))
def test_a_family_with_other_positions_is_refused(family: str) -> None:
    reason = "values of layer 0 depend" if family in ABSOLUTE else "rotated keys of layer 0 differ"
    with Engine(random_model(family)) as engine, pytest.raises(OptionError, match=reason):
        engine.generate([5, 6, 7], max_tokens=1, approximate=True)


def test_recurrent_layers_are_refused() -> None:
    with Engine(hybrid_model("qwen3_next")) as engine:
        for _ in range(2):
            with pytest.raises(OptionError, match="recurrent layers"):
                engine.generate([5, 6, 7], max_tokens=1, approximate=True)
        assert engine.generate([5, 6, 7], max_tokens=1).finish_reason == "length"


@pytest.mark.parametrize("kind", sorted(SCALINGS))
def test_scaled_frequencies(kind: str, make_engine: Callable[..., Engine]) -> None:
    rope = SCALINGS[kind] | {"rope_theta": 10000.0}
    rotation_of(make_engine("llama", {"rope_parameters": rope}))


@pytest.mark.parametrize("family", ["llama", "glm4", "phi", "gemma3_text"])
def test_rotated_keys_equal_computed_keys(family: str) -> None:
    """With one layer, keys and values depend on the token and the position only."""
    settings = {"num_hidden_layers": 1}
    with Engine(random_model(family, **settings)) as engine:
        rotation = rotation_of(engine)
        text = list(range(20, 60))
        old, new = content(engine, [3, 4, 5, *text], 3), content(engine, [7] * 50 + text, 50)
        unrotated = (old.view(torch.float32) - new.view(torch.float32)).abs().max()
        assert unrotated > 0.1
        rotation.rotate(old, 47)
        torch.testing.assert_close(
            old.view(torch.float32), new.view(torch.float32), rtol=1e-4, atol=1e-4
        )
        rotation.rotate(old, -47)
        rotation.rotate(old, 47)
        torch.testing.assert_close(
            old.view(torch.float32), new.view(torch.float32), rtol=1e-4, atol=1e-4
        )


def test_a_short_context_is_refused() -> None:
    model = random_model("llama", max_position_embeddings=24)
    with Engine(model) as engine, pytest.raises(OptionError, match="context of 24 tokens"):
        engine.generate([5, 6, 7], max_tokens=1, approximate=True)


def test_half_precision() -> None:
    with Engine(random_model("llama"), dtype="bfloat16") as engine:
        rotation_of(engine)


def test_a_wrong_frequency_is_refused() -> None:
    with Engine(random_model("llama")) as engine:
        engine.generate([5, 6, 7], max_tokens=1)  # fills the tables of the fused module
        model = engine._loop._runner._model
        for name, buffer in model.named_buffers():
            if name.endswith("inv_freq"):
                buffer[3] *= 1.01
        with pytest.raises(OptionError, match="rotated keys of layer 0 differ"):
            engine.generate([5, 6, 7], max_tokens=1, approximate=True)
