"""The fusion pass: what is fused in each family, that it computes the same, and that it can be
undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgnb.engine import fusion
from sgnb.engine.fusion import module_trace, reference, unfuse
from sgnb.engine.fusion.operations import Operations, Skinny
from sgnb.engine.fusion.types import Norm
from sgnb.engine.fusion.weights import DenseWeight
from sgnb.engine.quantization.modules import QuantizedLinear
from sgnb.engine.quantization.packed import PackedWeight
from sgnb.engine.quantization.quantize import QUANTIZERS

from ..hybrid_models import hybrid_model
from .fusion_models import Pooled, own_logits, reduce_outputs, varied_model
from .interpreter import interpreted, needs_triton

ROWS = 14

WHOLE = {"attention": 2, "mlp": 2, "layer": 2}
MIXTURE = {"attention": 2, "layer": 2}
FUSED: dict[str, dict[str, int]] = {
    "llama": {"rotary": 1, "norm": 5, **WHOLE},
    "qwen2": {"rotary": 1, "norm": 5, **WHOLE},
    "qwen3": {"rotary": 1, "norm": 9, **WHOLE},
    "mistral": {"rotary": 1, "norm": 5, **WHOLE},
    "gemma": {"rotary": 1, "norm": 5, **WHOLE},
    "gemma2": {"rotary": 1, "norm": 9, **WHOLE},
    "gemma3_text": {"rotary": 1, "norm": 43, "attention": 7, "mlp": 7, "layer": 7},
    "mixtral": {"rotary": 1, "norm": 5, **MIXTURE},
    "qwen3_moe": {"rotary": 1, "norm": 9, **MIXTURE},
    "phi": {"rotary": 1, "attention": 2},
    "phi3": {"rotary": 1, "norm": 5, **WHOLE},
    "olmo2": {"rotary": 1, "norm": 9, **WHOLE},
    "granite": {"rotary": 1, "norm": 5, **WHOLE},
    "gpt2": {},
    "gpt_neox": {"rotary": 1},
    "opt": {},
    "smollm3": {"rotary": 1, "norm": 5, **WHOLE},
    "gpt_oss": {"rotary": 1, "norm": 5, **MIXTURE},
    "starcoder2": {"rotary": 1, "attention": 2},
    "deepseek_v3": {"rotary": 1, "norm": 9, "mlp": 2},
    "glm4": {"rotary": 1, "norm": 9, **WHOLE},
    "cohere": {"rotary": 1, "attention": 2, "mlp": 2},
    "exaone4": {"rotary": 1, "norm": 9, **WHOLE},
    "ernie4_5": {"rotary": 1, "norm": 5, **WHOLE},
    "deepseek_v2": {"rotary": 1, "norm": 9, "mlp": 2},
}
"""What the pass must find in the random models of families whose layers say all themselves, so that
a pattern that ceases to match is seen."""


@pytest.mark.parametrize("family", FUSED)
def test_fused_models_compute_the_same_until_undone(family: str) -> None:
    model = varied_model(family)
    expected = {rows: own_logits(model, rows) for rows in (ROWS, 1)}
    pooled = Pooled(model)
    before = pooled.logits(ROWS)
    swaps = pooled.fuse()
    assert Counter(swap.kind for swap in swaps) == FUSED[family]
    for rows, own in expected.items():
        logits = pooled.logits(rows)
        assert torch.allclose(logits, own, atol=2e-4, rtol=1e-4)
        assert torch.equal(logits.argmax(-1), own.argmax(-1))
    unfuse(swaps)
    assert torch.equal(pooled.logits(ROWS), before)
    assert not any("forward" in vars(module) for module in model.modules())


def test_an_mlp_of_an_odd_size_is_padded() -> None:
    model = varied_model("qwen2", intermediate_size=83)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    mlps = [swap for swap in pooled.fuse() if swap.kind == "mlp"]
    assert len(mlps) == 2
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)
    down = model.model.layers[0].mlp.down_proj
    assert down.weight.stride() == (128, 1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())

    with torch.no_grad():
        down.weight = torch.nn.Parameter(down.weight * 2)  # new memory
    other = varied_model("qwen2", intermediate_size=83)
    with torch.no_grad():
        other.model.layers[0].mlp.down_proj.weight.mul_(2)
    changed = own_logits(other, ROWS)
    assert mlps[0].refresh is not None
    mlps[0].refresh()
    assert torch.allclose(pooled.logits(ROWS), changed, atol=2e-4, rtol=1e-4)
    assert not torch.allclose(changed, expected, atol=2e-3)


def test_one_module_for_gate_and_up_of_an_odd_size_is_fused() -> None:
    model = varied_model("glm4", intermediate_size=83)
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    assert Counter(swap.kind for swap in pooled.fuse())["mlp"] == 2
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["qwen3_next", "mamba2", "nemotron_h", "olmo_hybrid"])
def test_gated_norms_are_fused(family: str) -> None:
    """Gate before and after the norm, one group and several."""
    model = hybrid_model(family)
    own = own_logits(model, ROWS)
    pooled = Pooled(model)
    swaps = [swap for swap in pooled.fuse() if swap.kind == "gated_norm"]
    assert len(swaps) == 2
    assert torch.allclose(pooled.logits(ROWS), own, atol=2e-4, rtol=1e-4)


def test_a_gate_of_another_activation_keeps_its_own_norm() -> None:
    """Kimi Linear opens its gate by a sigmoid."""
    swaps = Pooled(hybrid_model("kimi_linear")).fuse()
    assert not [swap for swap in swaps if swap.kind == "gated_norm"]


def test_merged_weights_are_in_memory_once() -> None:
    model = varied_model("qwen2")
    layer = model.model.layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    names = [attention.q_proj, attention.k_proj, attention.v_proj]
    before = [(linear.weight.clone(), linear.bias.clone()) for linear in names]
    Pooled(model).fuse()
    for kind in ("weight", "bias"):
        assert len({getattr(linear, kind).untyped_storage().data_ptr() for linear in names}) == 1
    gate, up = (
        linear.weight.untyped_storage().data_ptr() for linear in (mlp.gate_proj, mlp.up_proj)
    )
    assert gate == up
    for linear, (weight, bias) in zip(names, before, strict=True):
        assert torch.equal(linear.weight, weight)
        assert torch.equal(linear.bias, bias)


def test_a_bias_may_be_on_some_of_the_projections_only() -> None:
    model = varied_model("qwen2")
    for layer in model.model.layers:
        layer.self_attn.k_proj.bias = None
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    assert Counter(swap.kind for swap in pooled.fuse())["attention"] == 2
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("part", ["norm", "attention", "mlp", "layer"])
def test_a_module_with_a_twist_keeps_its_own_forward(part: str, dtype: torch.dtype) -> None:
    """And what contains it is fused around it, or keeps its own too; the others are fused as
    ever."""
    model = varied_model("llama").to(dtype)  # type: ignore[arg-type]
    layer = model.model.layers[0]
    module = {
        "norm": layer.input_layernorm,
        "attention": layer.self_attn,
        "mlp": layer.mlp,
        "layer": layer,
    }[part]
    twist(module)
    expected = own_logits(model, ROWS).float()
    pooled = Pooled(model)
    swaps = pooled.fuse()
    assert module not in [swap.module for swap in swaps]
    missing = {
        "norm": ["norm", "layer"],
        "attention": ["attention", "layer"],
        "mlp": ["mlp"],
        "layer": ["layer"],
    }
    assert Counter(FUSED["llama"]) - Counter(swap.kind for swap in swaps) == Counter(missing[part])
    error = (pooled.logits(ROWS).float() - expected).norm() / expected.norm()
    assert float(error) < 4 * torch.finfo(dtype).eps


def test_want_of_memory_says_nothing_of_a_module() -> None:
    module, x = nn.Linear(2, 2), torch.ones(1, 2)
    run = module_trace.ModuleTrace.__new__(module_trace.ModuleTrace)
    run.calls, run.trusts, run._dtype, run._ranks = (
        {module: [module_trace.ModuleCall((x,), {}, x)]},
        False,
        x.dtype,
        None,
    )

    def fail(x: torch.Tensor, error: Exception) -> torch.Tensor:
        raise error

    with pytest.raises(torch.OutOfMemoryError):
        run.agrees(module, partial(fail, error=torch.OutOfMemoryError("none left")))
    assert not run.agrees(module, partial(fail, error=RuntimeError("shapes")))
    assert run.agrees(module, torch.clone)


def test_a_rounded_weight_of_one_row_is_no_twist() -> None:
    """Of an expert: a common factor of the row, which outweighs the two others."""
    generator = torch.Generator().manual_seed(0)
    its = torch.randn(3, 64, generator=generator) * torch.tensor([[10.0], [1.0], [1.0]])
    mine = its * torch.tensor([[1 + 1.5 * 2**-8], [1.0], [1.0]])
    many = torch.randn(20, 64, generator=generator)
    assert module_trace._whole_error(mine, its) < module_trace.tolerance(torch.bfloat16)
    assert module_trace._whole_error(1.01 * many, many) > module_trace.tolerance(torch.bfloat16)


def twist(module: nn.Module) -> None:
    """A subclass whose forward gives a little more than its parent's."""
    override(
        module, lambda out: out * 1.01 if isinstance(out, Tensor) else (out[0] * 1.01, *out[1:])
    )


def override(module: nn.Module, change: Callable[[Any], Any]) -> None:
    """A subclass whose forward gives `change` of what its parent's gives."""
    parent: Any = type(module)

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return change(parent.forward(self, *args, **kwargs))

    module.__class__ = type(parent.__name__, (parent,), {"forward": forward})


def test_forwards_that_someone_else_replaced_stay() -> None:
    model = varied_model("llama")
    norm = model.model.layers[0].input_layernorm
    norm.forward = MethodType(type(norm).forward, norm)
    own = norm.forward
    pooled = Pooled(model)
    swaps = pooled.fuse()
    unfuse(swaps)
    assert norm not in [swap.module for swap in swaps]
    assert norm.forward is own


@pytest.mark.parametrize("pre", [False, True])
def test_modules_with_hooks_are_not_fused(pre: bool) -> None:
    """Nor what contains them; each hook is called as often as its module."""
    model = varied_model("llama")
    first, second = model.model.layers
    calls = Counter[str]()
    for name, module in {
        "q": first.self_attn.q_proj, "norm": first.input_layernorm, "gate": second.mlp.gate_proj,
        "rotary": model.model.rotary_emb,
    }.items():  # fmt: skip
        register = module.register_forward_pre_hook if pre else module.register_forward_hook
        register(lambda *args, name=name: calls.update([name]))
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    swaps = pooled.fuse()
    kinds = Counter(swap.kind for swap in swaps)
    assert kinds == {"norm": 4, "attention": 1, "mlp": 1}
    calls.clear()
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)
    assert calls == {"q": 1, "norm": 1, "gate": 1, "rotary": 1}


def test_modules_with_a_forward_of_the_users_inside_are_not_fused() -> None:
    """One that only looks on changes no logits, and must be called all the same."""
    model = varied_model("llama")
    first, second = model.model.layers
    calls = Counter[str]()
    for name, module in {"q": first.self_attn.q_proj, "gate": second.mlp.gate_proj}.items():
        module.forward = lambda x, name=name, own=module.forward: calls.update([name]) or own(x)
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    pooled.fuse()
    calls.clear()
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)
    assert calls == {"q": 1, "gate": 1}


def test_layers_whose_inputs_are_read_again_are_not_fused() -> None:
    """A fused layer writes its sum over its input."""
    model = varied_model("llama")
    kept: list[Tensor] = []
    override(model.model.embed_tokens, lambda out: kept.append(out) or out)
    override(model.model.norm, lambda out: out + kept.pop())
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    swaps = pooled.fuse()
    assert {swap.kind for swap in swaps} == {"rotary", "norm", "attention", "mlp"}
    kept.clear()
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "family",
    ["llama", "qwen2", "qwen3", "olmo2", "gemma2", "granite", "phi", "mixtral", "starcoder2"],
)
def test_few_rows_go_to_the_kernels_for_few_rows(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dense layer is then four products with everything between them inside."""
    calls: list[str] = []

    def linear(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        norm: Norm | None = None,
        residual: Tensor | None = None,
        gated: str | None = None,
    ) -> Tensor:
        assert len(x) <= (6 if gated else 4)
        calls.append(
            "gate" if gated else "add" if residual is not None else "norm" if norm else "linear"
        )
        y = F.linear(x if norm is None else reference.norm(x, norm), weight, bias)
        y = y if gated is None else reference.gate(y, gated)
        return y if residual is None else y + residual

    def project(
        x: Tensor, weight: Tensor, bias: Tensor | None, *arguments: Any, norm: Norm | None = None
    ) -> Tensor:
        assert len(x) <= 2
        calls.append("project")
        return reference.rotate_and_store(
            F.linear(x if norm is None else reference.norm(x, norm), weight, bias), *arguments
        )

    def serves(x: Tensor, weight: Tensor, gated: bool) -> bool:
        return len(x) <= (6 if gated else 4)

    def projects(x: Tensor, weight: Tensor) -> bool:
        return len(x) <= 2

    skinny = Skinny(serves, linear, projects, project, lambda plan, angles, kv: plan.q_norm is None)
    monkeypatch.setattr(fusion, "pick_operations", lambda *_: Operations(skinny=skinny))
    model = varied_model(family)
    expected = {rows: own_logits(model, rows) for rows in (ROWS, 6, 4, 1)}
    pooled = Pooled(model)
    pooled.fuse()
    for rows, logits in expected.items():
        calls.clear()
        assert torch.allclose(pooled.logits(rows), logits, atol=2e-4, rtol=1e-4)
        gates = {"gate"} if family not in ("phi", "starcoder2", "mixtral") else set()
        assert not calls if rows > 6 else set(calls) == gates if rows > 4 else calls
    first = {"llama": "project", "qwen2": "project", "qwen3": "norm"}.get(family)
    if first is not None:
        assert calls == [first, "add", "gate", "add"] * 2 + ["linear"]
    assert ("project" in calls) == (family not in ("qwen3", "olmo2"))


@pytest.mark.parametrize("family", ["llama", "granite", "mixtral", "gemma2"])
def test_a_sum_over_ranks_residual_and_norm_are_one_operation(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless another norm precedes the residual, as in Gemma 2."""
    calls: list[float] = []

    def add_norm(x: Tensor, y: Tensor, norm: Norm, scale: float) -> Tensor:
        calls.append(scale)
        return reference.add_norm(x, y, norm, scale)

    monkeypatch.setattr(fusion, "pick_operations", lambda *_: Operations(add_norm=add_norm))
    model = varied_model(family)
    expected = own_logits(model, ROWS)
    reduce_outputs(model)
    pooled = Pooled(model)
    pooled.fuse()
    calls.clear()
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)
    scale = getattr(model.config, "residual_multiplier", 1.0)
    assert calls == ([] if family == "gemma2" else [scale] * 2)


def test_a_scaled_product_is_none_for_few_rows() -> None:
    def linear(*arguments: Any, **options: Any) -> Tensor:
        raise AssertionError("a kernel without a scale")

    skinny = Skinny(lambda x, weight, gated: True, linear, 0, linear, lambda plan, angles: True)
    x, weight = torch.ones(1, 4), DenseWeight(torch.ones(2, 4))
    found = Operations(skinny=skinny).linear(x, weight, residual=torch.ones(1, 2), scale=0.5)
    assert found.tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "granite", "phi", "phi3", "cohere"])
def test_every_product_goes_through_the_function_given(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    multiply = torch._C._nn.linear

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        assert x.dim() == weight.dim() == 2
        calls.append(len(weight))
        return multiply(x.double(), weight.double(), None if bias is None else bias.double()).to(
            x.dtype
        )

    model = varied_model(family)
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    swaps = pooled.fuse(linear)
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)

    def none_else(*args: Any) -> Tensor:
        raise AssertionError("a product went past the function")

    monkeypatch.setattr(F, "linear", none_else)
    monkeypatch.setattr(Tensor, "addmm_", none_else)
    calls.clear()
    pooled.logits(ROWS)
    assert len(calls) == 2 * 4 + 1
    assert pooled.model.lm_head(torch.empty(1, 0, pooled.model.config.hidden_size)).shape == (
        1,
        0,
        pooled.model.config.vocab_size,
    ), "no row samples"
    unfuse(swaps)
    assert not any("forward" in vars(module) for module in model.modules())


def packed_linear(linear: nn.Linear, name: str) -> QuantizedLinear:
    return QuantizedLinear(QUANTIZERS[name](linear.weight.detach()), linear.bias)


def packed_model(family: str, name: str) -> Any:
    """Random model with packed weights except for the head and routers."""
    model: Any = varied_model(family)
    for module in list(model.model.modules()):
        for child, part in list(module.named_children()):
            if type(part) is nn.Linear:
                setattr(module, child, packed_linear(part, name))
    return model


PACKED = [(family, "int4", torch.float32) for family in ("qwen2", "qwen3", "olmo2", "phi3", "phi")]
PACKED += [(family, "fp8", torch.bfloat16) for family in ("llama", "gemma2")]


@pytest.mark.parametrize(("family", "name", "dtype"), PACKED, ids=lambda value: str(value))
def test_packed_weights_are_fused_like_dense_weights(
    family: str, name: str, dtype: torch.dtype
) -> None:
    model = packed_model(family, name)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    expected = {rows: own_logits(model, rows).float() for rows in (ROWS, 1)}
    pooled = Pooled(model)
    before = pooled.logits(ROWS)
    swaps = pooled.fuse()
    assert Counter(swap.kind for swap in swaps) == FUSED[family]
    for rows, own in expected.items():
        error = (pooled.logits(rows).float() - own).norm() / own.norm()
        assert float(error) < 8 * torch.finfo(dtype).eps
    unfuse(swaps)
    assert torch.equal(pooled.logits(ROWS), before)


def test_packed_weights_are_merged_once_and_refreshed() -> None:
    model = packed_model("qwen2", "int4")
    attention = model.model.layers[0].self_attn
    linears = [attention.q_proj, attention.k_proj, attention.v_proj]
    before = [linear.packed().reference(torch.float32) for linear in linears]
    pooled = Pooled(model)
    swaps = pooled.fuse()
    for name in ("values", "scales", "zeros", "bias"):
        assert len({getattr(part, name).untyped_storage().data_ptr() for part in linears}) == 1
    for linear, matrix in zip(linears, before, strict=True):
        assert torch.equal(linear.packed().reference(torch.float32), matrix)

    attention.k_proj.scales = 2 * attention.k_proj.scales
    attention.o_proj.values = attention.o_proj.values // 2
    for swap in swaps:
        if swap.refresh is not None:
            swap.refresh()
    fused = pooled.logits(ROWS)
    unfuse(swaps)
    assert torch.allclose(fused, pooled.logits(ROWS), atol=2e-4, rtol=1e-4)
    assert attention.k_proj.scales.untyped_storage().data_ptr() == (
        attention.q_proj.scales.untyped_storage().data_ptr()
    )


def test_blocks_that_end_inside_a_module_become_scales_of_rows() -> None:
    model: Any = varied_model("llama")
    attention = model.model.layers[0].self_attn
    for child in ("q_proj", "k_proj", "v_proj"):
        rows, columns = getattr(attention, child).weight.shape
        scales = torch.rand(-(-rows // 48), -(-columns // 32)) / 100 + 0.01
        values = (torch.randn(rows, columns) * 10).to(torch.float8_e4m3fn)
        weight = PackedWeight("fp8", values, scales, None, None, (48, 32))
        setattr(attention, child, QuantizedLinear(weight, None))
    before = attention.k_proj.packed().reference(torch.float32)
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    kinds = Counter(swap.kind for swap in pooled.fuse())
    assert kinds == FUSED["llama"]
    assert attention.k_proj.block == (1, 32)
    assert torch.equal(attention.k_proj.packed().reference(torch.float32), before)
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("other", ["dense", "fp8"])
def test_modules_of_different_formats_are_not_merged(other: str) -> None:
    model: Any = varied_model("llama")
    first = model.model.layers[0]
    for part in (first.self_attn, first.mlp):
        for child, linear in list(part.named_children()):
            if type(linear) is nn.Linear:
                setattr(part, child, packed_linear(linear, "int4"))
    second: Any = varied_model("llama").model.layers[0]
    changed = second.self_attn.k_proj
    first.self_attn.k_proj = changed if other == "dense" else packed_linear(changed, other)
    first.mlp.down_proj = packed_linear(second.mlp.down_proj, "fp8")
    expected = own_logits(model, ROWS)
    pooled = Pooled(model)
    kinds = Counter(swap.kind for swap in pooled.fuse())
    assert kinds == {"rotary": 1, "norm": 5, "attention": 1, "mlp": 2, "layer": 1}
    assert torch.allclose(pooled.logits(ROWS), expected, atol=2e-4, rtol=1e-4)


@needs_triton
@pytest.mark.slow
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("fusion_kernel_check") == ["all", "agree"]


@needs_triton
@pytest.mark.slow
def test_more_models_in_the_interpreter() -> None:
    assert interpreted("fusion_kernel_check", "models") == ["all", "agree"]
