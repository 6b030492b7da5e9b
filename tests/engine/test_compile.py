"""`compile=True`: the same tokens, two graphs for a kind of layer whatever the batches, and a way
back."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

from sgnb.engine.engine import Engine
from sgnb.engine.model import compiled_layers
from sgnb.engine.model.decoder import load_decoder
from sgnb.errors import ModelError, OptionError

from ..random_models import greedy, random_model
from .fusion_models import DenseBackend, own_logits, tokens

MakeEngine = Callable[..., Engine]

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++")),
    reason="torch.compile needs a C++ compiler on a CPU, and there is none",
)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [40], [5, 6, 7, 8, 20, 21], [60, 61, 62]]


def graphs() -> int:
    """How often torch has compiled something in this process."""
    return int(counters["stats"]["unique_graphs"])


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kinds", "fuse"), [("qwen3", 1, True), ("gemma2", 2, False), ("gpt2", 1, True)]
)
def test_greedy_tokens_with_compiled_layers(
    family: str, kinds: int, fuse: bool, make_engine: MakeEngine
) -> None:
    """And no step compiles anything: not a chunk of a prompt, nor a batch of any size."""
    expected = greedy(family, PROMPTS, 6)
    before = graphs()
    engine = make_engine(family, compile=True, fuse=fuse, max_step_tokens=9, max_running_requests=4)
    assert graphs() == before + 2 * kinds
    for batch in (PROMPTS, PROMPTS[:1], PROMPTS[1:3], PROMPTS[1:]):
        outputs = engine.generate(batch, temperature=0, max_new_tokens=6, ignore_eos=True)
        assert [o.token_ids for o in outputs] == [expected[PROMPTS.index(p)] for p in batch]
    assert graphs() == before + 2 * kinds


class Gate(nn.Module):
    """An activation whose setting is in a tuple, where nobody looks but torch."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.settings = (factor, "ignored")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x) * self.settings[0]


@needs_compiler
@pytest.mark.slow
def test_layers_that_differ_where_nobody_looks() -> None:
    model = random_model("llama")
    for factor, layer in zip((-2.0, 1.0), model.model.layers, strict=True):
        layer.mlp.act_fn = Gate(factor)
    found = []
    for options in ({"fuse": False}, {"compile": True}):
        with Engine(model, **options) as engine:
            outputs = engine.generate(PROMPTS, temperature=0, max_new_tokens=6, ignore_eos=True)
            found.append([output.token_ids for output in outputs])
    assert found[0] == found[1]


@needs_compiler
@pytest.mark.slow
def test_logits_are_those_of_the_model_until_released() -> None:
    model = random_model("llama", num_hidden_layers=1)
    rows = (1, 2, 3, 61, 100)
    expected = {n: own_logits(model, n) for n in rows}
    attention = model.config._attn_implementation
    decoder = load_decoder(model, "cpu", compiled=True)
    assert sorted(swap.kind for swap in decoder.fused) == ["compiled", "norm", "rotary"]
    before = graphs()
    for n in rows:
        assert torch.allclose(logits(model, n), expected[n], atol=2e-4, rtol=1e-4)
    for n in range(1, 256, 6):
        logits(model, n)
    with (
        torch.inference_mode()
    ):  # as a step makes its inputs; a CUDA graph's are made outside, as above
        ids, positions = tokens(2).clone(), torch.arange(2, dtype=torch.int32)[None]
    assert torch.allclose(logits(model, 2, ids, positions), expected[2], atol=2e-4, rtol=1e-4)
    assert graphs() == before
    decoder.release()
    assert model.config._attn_implementation == attention
    assert not any("forward" in vars(module) for module in model.modules())
    assert all(torch.equal(own_logits(model, n), expected[n]) for n in rows)


def logits(
    model: Any, rows: int, ids: torch.Tensor | None = None, positions: torch.Tensor | None = None
) -> torch.Tensor:
    """[rows, vocabulary], all rows of one request; by default inputs as `tokens` makes them."""
    backend = DenseBackend(rows, model.dtype, model.device)
    inputs = {
        "input_ids": tokens(rows) if ids is None else ids,
        "position_ids": torch.arange(rows)[None] if positions is None else positions,
    }
    with torch.inference_mode():
        out: torch.Tensor = model(**inputs, use_cache=False, sgnb=backend).logits
    return out[0]


@needs_compiler
@pytest.mark.slow
def test_two_engines_at_once_and_nothing_left_of_them(make_engine: MakeEngine) -> None:
    """Each has code of its own, so any number of them in a process is no recompilation of one."""
    made = []
    for width in (96, 48):
        model = random_model("llama", num_hidden_layers=1, intermediate_size=width)
        plain = make_engine("llama", {"num_hidden_layers": 1, "intermediate_size": width})
        made.append((Engine(model, compile=True), plain, weakref.ref(model)))
        del model
    for engine, plain, _ in made * 2:
        options: dict[str, Any] = {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}
        found, expected = (one.generate(PROMPTS, **options) for one in (engine, plain))
        assert [o.token_ids for o in found] == [o.token_ids for o in expected]
    models = [model for _, _, model in made]
    for engine, *_ in made:
        engine.close()
    del made, engine, plain
    gc.collect()
    assert [model() for model in models] == [None, None]


@pytest.mark.slow
def test_a_model_that_cannot_be_compiled_is_left_as_it_was() -> None:
    model = random_model("llama", num_hidden_layers=1)
    mlp = model.model.layers[0].mlp
    own = mlp.act_fn
    mlp.act_fn = ReadsTheDevice()
    attention, expected = model.config._attn_implementation, own_logits(model, 3)
    with pytest.raises(
        ModelError,
        match=r"LlamaForCausalLM cannot be compiled by torch: .*\n  hint: load without",
    ):
        Engine(model, compile=True)
    assert model.config._attn_implementation == attention
    assert not any("forward" in vars(module) for module in model.modules())
    assert torch.equal(own_logits(model, 3), expected)
    mlp.act_fn = own


class ReadsTheDevice(torch.nn.Module):
    """An activation that depends on a number, which nobody can know before it is computed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x.tanh()


@pytest.mark.slow
def test_without_a_compiler_the_load_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("/nowhere/g++",))
    monkeypatch.setattr(config, "force_disable_caches", True)
    with pytest.raises(
        OptionError, match=r"compile=True is not available: .*\n  hint: install a C\+\+ compiler"
    ):
        Engine(random_model("llama", num_hidden_layers=1), compile=True)


def test_models_without_a_list_of_layers_and_layers_that_are_taken() -> None:
    model = random_model("llama", num_hidden_layers=1)
    layer = model.model.layers[0]
    layer.forward = layer.forward
    with pytest.raises(ModelError, match="no list of layers"):
        Engine(model, compile=True)
    assert "forward" in vars(layer)


def test_layers_that_differ_are_of_different_kinds() -> None:
    layers = random_model("gemma3_text").model.layers
    kinds = [compiled_layers._kind(layer) for layer in layers]
    sliding = [layer.self_attn.is_sliding for layer in layers]
    assert len(set(kinds)) == 2 and sliding == [kind == kinds[0] for kind in kinds]


def test_deterministic_and_compile_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="exclude each other"):
        Engine("tiny", compile=True, deterministic=True)
