"""Whole models whose rows do not feel each other: what is replaced, what is refused, and that it
can be undone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgnb.engine.fusion import unfuse
from sgnb.engine.fusion.invariant_model import fuse_invariant
from sgnb.engine.fusion.module_trace import ModuleTrace, TracingBackend
from sgnb.engine.model.decoder import load_decoder
from sgnb.errors import ModelError

from . import invariant_model_check
from .fusion_models import Pooled, varied_model
from .interpreter import interpreted, needs_triton

ROWS = 9


class Head(nn.Module):
    """A product that no pattern knows, computed in one of several ways."""

    def __init__(self, way: str, linear: nn.Linear) -> None:
        super().__init__()
        self.way, self.weight = way, linear.weight

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "keywords":
            return F.linear(input=x, weight=self.weight)
        if self.way == "einsum":
            return torch.einsum("btk,nk->btn", x, self.weight)
        return (
            x @ self.weight.t() if self.way == "operator" else torch.bmm(x, self.weight.t()[None])
        )


@needs_triton
@pytest.mark.slow
def test_experts_and_routers_in_the_interpreter() -> None:
    assert interpreted("invariant_model_check") == ["all", "agree"]


@needs_triton
@pytest.mark.slow
def test_more_experts_and_routers_in_the_interpreter() -> None:
    assert interpreted("invariant_model_check", "families") == ["all", "agree"]


def test_tilings_of_one_kind() -> None:
    invariant_model_check.check_tilings()


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "opt"])
def test_models_without_experts_compute_the_same_until_undone(family: str) -> None:
    pooled = Pooled(varied_model(family))
    before = pooled.logits(ROWS)
    swaps = fuse_invariant(pooled.model, pooled.options)
    assert "product" not in {swap.kind for swap in swaps}
    assert torch.allclose(pooled.logits(ROWS), before, rtol=1e-4, atol=1e-4)
    unfuse(swaps)
    assert torch.equal(pooled.logits(ROWS), before)


def test_a_product_of_a_module_that_no_pattern_knows() -> None:
    pooled = Pooled(varied_model("llama"))
    before = pooled.logits(ROWS)
    pooled.model.lm_head = Head("keywords", pooled.model.lm_head)
    swaps = fuse_invariant(pooled.model, pooled.options)
    assert [swap.module for swap in swaps if swap.kind == "product"] == [pooled.model.lm_head]
    assert torch.allclose(pooled.logits(ROWS), before, rtol=1e-4, atol=1e-4)
    x = torch.randn(1, 7, pooled.model.config.hidden_size)
    head = pooled.model.lm_head
    assert torch.equal(head(x), torch.cat([head(row[:, None]) for row in x.unbind(1)], 1))
    unfuse(swaps)
    assert torch.equal(pooled.logits(ROWS), before)


def test_a_run_again_finds_room_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU fused forwards write to it by themselves."""

    def write(self: TracingBackend, layer: int, k: Tensor, v: Tensor) -> None:
        self.kv.keys[layer][self.new_slots] = k
        self.kv.values[layer][self.new_slots] = v
        written.append(layer)

    written: list[int] = []
    trace = ModuleTrace(Pooled(varied_model("llama")).model, [])
    monkeypatch.setattr(TracingBackend, "store", write)
    trace.run()
    assert written == [0, 1] * 2


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("mixtral", "has experts that sgnb's kernels do not support .model.layers.0.mlp.experts."),
        ("gpt2", "c_attn .Conv1D.: addmm"),
        ("cohere", "input_layernorm .CohereLayerNorm.: mean"),
    ],
)
def test_models_that_are_refused_stay_as_they_are(family: str, said: str) -> None:
    pooled = Pooled(varied_model(family))
    before = pooled.logits(ROWS)
    with pytest.raises(ModelError, match=said):
        fuse_invariant(pooled.model, pooled.options)
    assert not any("forward" in vars(module) for module in pooled.model.modules())
    assert torch.equal(pooled.logits(ROWS), before)


def test_a_deterministic_load_goes_this_way() -> None:
    """As on a GPU, where alone an engine has it."""
    with pytest.raises(ModelError, match=r"c_attn .Conv1D.: addmm"):
        load_decoder(varied_model("gpt2"), "cpu", deterministic=True)


@pytest.mark.parametrize(
    ("way", "said"), [("operator", "matmul"), ("bmm", "bmm"), ("einsum", "einsum")]
)
def test_products_that_are_refused(way: str, said: str) -> None:
    pooled = Pooled(varied_model("llama"))
    pooled.model.lm_head = Head(way, pooled.model.lm_head)
    with pytest.raises(
        ModelError, match=rf"lm_head .Head.: {said}, which deterministic=True does not cover"
    ):
        fuse_invariant(pooled.model, pooled.options)


def test_a_forward_of_someone_else_is_refused() -> None:
    pooled = Pooled(varied_model("llama"))
    head = pooled.model.lm_head
    own = head.forward
    head.forward = lambda x: own(x)
    with pytest.raises(ModelError, match=r"lm_head .Linear.: linear"):
        fuse_invariant(pooled.model, pooled.options)


def test_a_product_without_a_twin_is_refused() -> None:
    """Rows of weights that are not contiguous."""
    pooled = Pooled(varied_model("llama"))
    head = Head("keywords", pooled.model.lm_head)
    head.weight = nn.Parameter(head.weight.detach().t().contiguous().t())
    pooled.model.lm_head = head
    with pytest.raises(ModelError, match="weight's rows must be contiguous"):
        fuse_invariant(pooled.model, pooled.options)
    assert not any("forward" in vars(module) for module in pooled.model.modules())
