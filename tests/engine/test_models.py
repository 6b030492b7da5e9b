"""What keeps a model from giving wrong tokens in silence: one owner for its modules, a proof at
load, rotary factors that no neighbour changes."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sgnb.engine.engine import Engine
from sgnb.engine.model import decoder, interface, logit_check
from sgnb.engine.model.decoder import load_decoder
from sgnb.errors import EngineError, ModelError
from sgnb.magics.session import Session

from ..random_models import VOCAB, random_model

MakeEngine = Callable[..., Engine]
PROMPTS = [[5 + (7 * i * i + 3 * j) % 90 for j in range(4 + 5 * i)] for i in range(4)]


@pytest.fixture(autouse=True)
def no_passed_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def own(model: Any, prompt: list[int], new: int = 6) -> list[int]:
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False,
        eos_token_id=None,
    )  # fmt: skip
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


def ours(engine: Engine, prompts: list[list[int]], new: int = 6) -> list[list[int]]:
    outputs = engine.generate(prompts, temperature=0, max_new_tokens=new, ignore_eos=True)
    return [output.token_ids for output in outputs]


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2"])
@pytest.mark.parametrize("first_closes", [True, False])
def test_engines_on_one_model_share_it(family: str, first_closes: bool) -> None:
    model = random_model(family).train()
    model.base_model.eval()
    modes = [module.training for module in model.modules()]
    attention = model.config._attn_implementation
    expected = [own(random_model(family), prompt) for prompt in PROMPTS]
    first, second = Engine(model), Engine(model)
    assert ours(second, PROMPTS) == expected
    closes, stays = (first, second) if first_closes else (second, first)
    closes.close()
    assert ours(stays, PROMPTS) == expected
    third = Engine(model)
    stays.close()
    assert ours(third, PROMPTS) == expected
    third.close()
    assert [module.training for module in model.modules()] == modes
    assert model.config._attn_implementation == attention
    assert not any("forward" in vars(module) for module in model.modules())
    assert [own(model.eval(), prompt) for prompt in PROMPTS] == expected


@pytest.mark.parametrize(
    "family, options",
    [
        ("llama", {}), ("llama", {"fuse": False}), ("gpt2", {}), ("gptj", {}), ("stablelm", {}),
        ("mixtral", {}),
    ],
    ids=str,
)  # fmt: skip
def test_the_users_model_says_that_an_engine_has_it(family: str, options: dict[str, Any]) -> None:
    model = random_model(family)
    expected = [own(model, prompt) for prompt in PROMPTS]
    with Engine(model, **options) as engine:
        for call in (lambda: own(model, PROMPTS[0]), lambda: model(torch.tensor([[5, 6]]))):
            with pytest.raises(EngineError, match=r"(?s)an engine uses .*hint: use engine\.gen"):
                call()
        assert ours(engine, PROMPTS) == expected
    assert [own(model, prompt) for prompt in PROMPTS] == expected


def test_a_cell_that_is_run_again() -> None:
    """The old engine goes, by its finalizer, when the new one is there."""
    model = random_model()
    expected = [own(model, prompt) for prompt in PROMPTS]
    for _ in range(3):
        engine = Engine(model)
        gc.collect()
        assert ours(engine, PROMPTS) == expected
    del engine
    gc.collect()
    assert [own(model, prompt) for prompt in PROMPTS] == expected


def test_engines_on_one_model_must_want_the_same_of_it() -> None:
    model = random_model()
    with Engine(model) as engine:
        for options, named in (({"dtype": "bfloat16"}, "dtype"), ({"fuse": False}, "fuse=True")):
            with pytest.raises(ModelError, match=named):
                Engine(model, **options)
        other = random_model()
        other.model = model.model
        with pytest.raises(ModelError, match="shares modules"):
            Engine(other)
        assert next(model.parameters()).dtype == torch.float32
        assert ours(engine, PROMPTS[:1]) == [own(random_model(), PROMPTS[0])]
    Engine(model, fuse=False).close()


def test_a_load_that_fails_leaves_the_model_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model().train()

    def fail(*args: Any) -> Any:
        assert not model.training
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decoder, "check_logits", fail)
        with pytest.raises(KeyboardInterrupt):
            load_decoder(model, "cpu")
    assert model.training
    load_decoder(model, "cpu", fused=False).release()


def test_the_default_backend_on_the_same_model_replaces() -> None:
    session, model, made = Session(), random_model(), []
    for _ in range(2):
        made.append(Engine(model))
        session.set_default_backend(made[-1])
    assert [engine.closed for engine in made] == [True, False]
    assert session.engines.names() == ["LlamaForCausalLM"]
    assert len(ours(made[1], PROMPTS)) == len(PROMPTS)
    session.unload()


def test_a_model_with_other_logits_is_refused_and_the_check_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_attention = interface.attention

    def blurred(*args: Any, scaling: float, **kwargs: Any) -> Any:
        return own_attention(*args, scaling=scaling / 2, **kwargs)

    with monkeypatch.context() as patch:
        patch.setitem(interface.AttentionInterface._global_mapping, interface.ATTENTION, blurred)
        with pytest.raises(ModelError, match=r"LlamaForCausalLM .* its logits differ .* alone"):
            load_decoder(random_model(), "cpu", fused=False)
    assert not list(tmp_path.rglob("*"))
    load_decoder(random_model(), "cpu").release()
    assert len(list(tmp_path.glob("logit_checks/*"))) == 1

    def compute_again(*args: Any) -> None:
        raise AssertionError("the check has passed")

    monkeypatch.setattr(decoder, "reference_logits", compute_again)
    monkeypatch.setattr(decoder, "check_logits", compute_again)
    load_decoder(random_model(), "cpu").release()
    with pytest.raises(ModelError, match="the check has passed"):
        load_decoder(random_model(hidden_size=48), "cpu")


def test_the_check_allows_as_much_as_the_model_is_from_itself() -> None:
    expected = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    near, other = expected * 0.9 + 0.1 * expected.roll(1, 0), expected.roll(1, 0)
    logit_check._compare(expected, expected, 0.0, False)
    with pytest.raises(ValueError, match=r"at most 0\.01 in float32"):
        logit_check._compare(near, expected, 0.0, False)
    logit_check._compare(near, expected, 0.2, False)
    with pytest.raises(ValueError, match=r"next to another text, .*at most 0\.7"):
        logit_check._compare(other, expected, 5.0, True)


def test_code_of_the_users_is_proved_each_time() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    model = random_model()
    model.lm_head = Doubled(64, VOCAB, bias=False)
    assert decoder.passed_record(model) is None
    assert decoder.passed_record(random_model()) is not None


@pytest.mark.parametrize(
    "family, reason",
    [("doge", "custom attention mask"), ("diffllama", "more than one attention")],
)
def test_what_only_a_mask_says_is_refused(family: str, reason: str) -> None:
    model = random_model(family)
    attention = model.config._attn_implementation
    with pytest.raises(ModelError, match=rf"^{type(model).__name__} cannot .*{reason}"):
        Engine(model)
    assert model.config._attn_implementation == attention


def test_groups_of_heads_keep_their_keys_once() -> None:
    made = load_decoder(random_model("falcon"), "cpu")
    assert made.heads[0] == 6 and made.shapes[0].heads == 2
    made.release()


@pytest.mark.parametrize("family", ["qwen2_moe", "phimoe"])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_window_that_only_the_mask_says(family: str, fuse: bool) -> None:
    model = random_model(family)
    made = load_decoder(model, "cpu", fused=fuse)
    assert made.probe.options[0].window == 8
    made.release()
    assert not any(module._forward_pre_hooks for module in model.modules())


def longrope(short: int = 32, long: int = 256) -> dict[str, Any]:
    factors = {"short_factor": [1.0 + i / 8 for i in range(8)]}
    factors["long_factor"] = [3.0 + i for i in range(8)]
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, **factors}
    rope["original_max_position_embeddings"] = short
    return {
        "rope_parameters": rope, "max_position_embeddings": long, "head_dim": 16,
        "original_max_position_embeddings": short,
    }  # fmt: skip


@pytest.mark.parametrize("fuse", [True, False])
def test_a_long_neighbour_does_not_change_rotary_factors(fuse: bool) -> None:
    model = random_model("phi3", **longrope())
    short, long = PROMPTS, [[3 + i % 90 for i in range(40 + i)] for i in range(2)]
    expected = [own(model, prompt) for prompt in short]
    with pytest.warns(UserWarning, match=r"up to 32 .* context_length=256"):
        engine = Engine(model, fuse=fuse)
    with engine:
        assert engine.context_length == 32
        assert ours(engine, short) == expected
    with pytest.warns(UserWarning, match="long texts in all texts"):
        engine = Engine(model, fuse=fuse, context_length=256)
    with engine:
        alone = [ours(engine, [prompt])[0] for prompt in short + long]
        engine.flush_cache()
        assert ours(engine, short + long) == alone == ours(engine, short + long)
    assert alone[len(short) :] == [own(model, prompt) for prompt in long]
    assert [own(model, prompt) for prompt in short] == expected


def test_dynamic_rotary_factors_are_those_of_the_context() -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    model = random_model(rope_parameters=rope, max_position_embeddings=64)
    expected = [own(model, prompt) for prompt in PROMPTS]
    with torch.no_grad():
        model(torch.ones(1, 200, dtype=torch.long))  # factors of a long text stay in the module
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = Engine(model)
    with engine:
        assert ours(engine, PROMPTS) == expected
