"""Tensor parallelism with followers in threads: tokens, steps and plans equal one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sgnb.engine import assembly, sizing
from sgnb.engine.engine import Engine
from sgnb.engine.model.decoder import load_decoder
from sgnb.engine.model.loading import load_module
from sgnb.engine.options import EngineOptions
from sgnb.engine.sampling.sampler import FollowerSampler
from sgnb.errors import ModelError, OptionError

from ..random_models import FAMILIES, random_model
from .rank_scenario import FOUR_RANKS, compare, open_engine, save_model
from .rank_threads import on_all_ranks, threads_as_ranks

SMALL: dict[str, Any] = {"max_total_tokens": 130, "max_step_tokens": 40, "max_running_requests": 12}
"""Options with which requests are retracted."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("llama"), "llama")


MORE_RANKS = [
    ("llama", 4, False), ("qwen3", 2, False), ("qwen3", 4, True), ("gemma", 2, True),
    ("gemma", 4, False), ("mixtral", 2, True), ("mixtral", 4, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "size", "overlap"),
    [
        ("llama", 2, False),
        ("llama", 2, True),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_RANKS),
    ],
)
def test_ranks_give_the_tokens_of_one_process(
    family: str, size: int, overlap: bool, tmp_path: Path
) -> None:
    model = save_model(tmp_path, family, **(FOUR_RANKS if size == 4 else {}))
    with threads_as_ranks() as teams:
        compare(model, size, overlap=overlap, **SMALL)
    (ranks,) = teams
    assert not ranks.errors and len(ranks.steps) > 50
    placeholders = any((step.tokens < 0).any() for step in ranks.steps)
    assert placeholders == overlap
    for step, announced in zip(ranks.steps, ranks.announced, strict=True):
        assert (step.tokens == announced.tokens).all()
        assert (step.attention.starts == announced.attention.starts).all()


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_every_layer_keeps_its_fused_modules(family: str, tmp_path: Path) -> None:
    model = save_model(tmp_path, family)
    whole = load_decoder(model, "cpu")
    parts = on_all_ranks(2, lambda ranks: load_decoder(model, "cpu", ranks=ranks))
    kinds = [sorted(swap.kind for swap in decoder.fused) for decoder in (whole, *parts)]
    assert kinds[0] == kinds[1] == kinds[2]
    assert kinds[0].count("layer") == kinds[0].count("mlp") == 2
    assert parts[0].shapes[0].heads == 1 and whole.shapes[0].heads == 2
    for decoder in (whole, *parts):
        decoder.release()


QUICK = {"gemma", "mixtral", "olmo2"}
REFUSED = {
    "deepseek_v2", "falcon", "gpt2", "gpt_neo", "gpt_oss", "opt", "phi3",
    "stablelm",
}  # fmt: skip
"""Families without a plan, or with a style that sgnb does not support."""


def logits(model: str, ids: torch.Tensor, ranks: Any = None) -> torch.Tensor:
    """Return the logits with transformers' own attention."""
    module = load_module(model, torch.device("cpu"), ranks=ranks)
    with torch.inference_mode():
        result: torch.Tensor = module(input_ids=ids, use_cache=False).logits
    return result


@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("llama", 1),
        ("llama", 4),
        *(
            pytest.param(family, 2, marks=[] if family in QUICK else pytest.mark.slow)
            for family in sorted(FAMILIES)
        ),
    ],
)
def test_logits_of_parts(family: str, size: int, tmp_path: Path) -> None:
    model = save_model(tmp_path, family, **(FOUR_RANKS if size == 4 else {}))
    ids = torch.randint(3, 400, (1, 20), generator=torch.Generator().manual_seed(1))
    if family in REFUSED:
        with pytest.raises(ModelError, match=r"divided among GPUs.*\n.*without tensor_parallel"):
            on_all_ranks(size, lambda ranks: logits(model, ids, ranks))
        return
    expected = logits(model, ids)
    for found in on_all_ranks(size, lambda ranks: logits(model, ids, ranks)):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_parts_of_a_checkpoint_are_read_alone(tmp_path: Path) -> None:
    """Each rank has 1/2 of the divided weights."""
    model = save_model(tmp_path, "mixtral")
    whole = load_module(model, torch.device("cpu"))
    parts = on_all_ranks(2, lambda ranks: load_module(model, torch.device("cpu"), ranks=ranks))
    divided = 0
    for name, weight in whole.named_parameters():
        pieces = [part.get_parameter(name) for part in parts]
        if pieces[0].shape == weight.shape:
            assert all(torch.equal(piece, weight) for piece in pieces)
            continue
        divided += 1
        assert sum(piece.numel() for piece in pieces) == weight.numel(), name
        sums = sum(piece.double().sum() for piece in pieces)
        torch.testing.assert_close(sums, weight.double().sum())
    assert divided == 2 * 6


def test_a_rank_with_less_memory_sets_the_pool(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sizing.pool_tokens

    def fewer(decoder: Any, options: EngineOptions) -> int:
        return before(decoder, options) - 100 * decoder.ranks.rank

    monkeypatch.setattr(sizing, "pool_tokens", fewer)
    with threads_as_ranks(), open_engine(llama, tensor_parallel=2) as engine:
        assert engine.pool_tokens == (1 << 16) - 100


@pytest.mark.parametrize(
    ("settings", "size", "message"),
    [
        ({}, 4, "layers.0.self_attn.q_proj has 6 heads"),
        ({"intermediate_size": 113}, 2, "mlp.gate_proj has 113 columns"),
        ({"num_key_value_heads": 3}, 2, "k_proj has 3 heads"),
    ],
)
def test_sizes_that_do_not_divide(
    settings: dict[str, Any], size: int, message: str, tmp_path: Path
) -> None:
    model = save_model(tmp_path, "llama", **settings)
    with pytest.raises(ModelError, match=f"divided among {size} GPUs: .*{message}"):
        on_all_ranks(size, lambda ranks: load_decoder(model, "cpu", ranks=ranks))


@pytest.mark.parametrize(
    ("family", "message"),
    [("gpt2", "no tensor-parallel plan"), ("deepseek_v2", "the style 'mla_kv_a_proj'")],
)
def test_models_without_a_supported_plan(family: str, message: str, tmp_path: Path) -> None:
    model = save_model(tmp_path, family)
    with pytest.raises(ModelError, match=f"{message}.*\n.*without tensor_parallel"):
        on_all_ranks(2, lambda ranks: load_decoder(model, "cpu", ranks=ranks))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "4 GPUs: model.layers.0.self_attn.q_proj has 6 heads"),
        ({"quantization_config": {"quant_method": "fp8"}}, "GPUs: its weights are quantized"),
    ],
)
def test_a_model_is_refused_before_processes_start(
    settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_model(tmp_path, "llama")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    monkeypatch.setattr(assembly, "Team", None)
    with pytest.raises(ModelError, match=f"divided among.*{message}"):
        open_engine(model, tensor_parallel=4)


def test_a_follower_samples_nothing() -> None:
    sampler = FollowerSampler(3, torch.device("cpu"))
    sampler.sampled[:] = torch.tensor([7, 8, 9])
    states, draws = sampler.states[:2], torch.zeros(2)
    output = sampler.launch(torch.rand(2, 5), states, draws, draws, constrained=True)
    assert output.tokens.tolist() == [7, 8] and sampler.sampled.tolist() == [7, 8, 9]


@pytest.mark.parametrize("option", ["compile", "deterministic", "attention"])
def test_options_that_exclude_ranks(option: str) -> None:
    value = "flashinfer" if option == "attention" else True
    with pytest.raises(OptionError, match=f"tensor_parallel=2 does not support {option}"):
        EngineOptions.make({"tp_size": 2, option: value})


def test_the_alias_and_the_default() -> None:
    assert EngineOptions.make({"tp_size": 2}).tensor_parallel == 2
    with pytest.raises(OptionError, match="given twice"):
        EngineOptions.make({"tp_size": 2, "tensor_parallel": 2})
    with pytest.raises(OptionError, match="tensor_parallel=0"):
        EngineOptions.make({"tensor_parallel": 0})


def test_a_loaded_model_is_refused() -> None:
    with pytest.raises(OptionError, match=r"loaded model\n.*folder or hub id"):
        Engine(random_model(), tensor_parallel=2)


def test_approximate_requests_are_refused(llama: str) -> None:
    with threads_as_ranks(), open_engine(llama, tensor_parallel=2) as engine:
        with pytest.raises((ModelError, OptionError), match="several GPUs share its layers"):
            engine.generate("The answer", approximate=True, max_new_tokens=1)
        assert engine.generate("The answer", max_new_tokens=1, temperature=0).token_ids
