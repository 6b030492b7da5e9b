"""Quantized checkpoints equal dense models with the same weights, for every format."""

from __future__ import annotations

import json
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgnb import models
from sgnb.engine.engine import Engine
from sgnb.engine.model.checkpoint import read_checkpoint
from sgnb.engine.model.loading import load_module, load_tokenizer
from sgnb.engine.model.safetensors_reader import TensorReader
from sgnb.engine.quantization.modules import QuantizedExperts, QuantizedLinear
from sgnb.engine.quantization.quantize import quantize_fp8, quantize_int4
from sgnb.engine.quantization.quantizer import AHEAD
from sgnb.engine.quantization.schemes import read_scheme
from sgnb.errors import ModelError, OptionError

from ..hybrid_models import hybrid_model
from ..marks import some_are_slow
from ..random_models import FAMILIES, random_model
from . import quantized_checkpoints as checkpoints

CPU = torch.device("cpu")
PROMPT = "Once upon a time there was a king"
TOKENS = torch.tensor([[5, 17, 80, 3, 42, 11]])


def same_tokens(loaded: Any, dense: Any) -> None:
    """Compare logits and 12 greedy tokens."""
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    with torch.inference_mode():
        logits = [model(TOKENS).logits for model in (loaded, dense)]
        tokens = [model.generate(TOKENS, **options) for model in (loaded, dense)]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)
    assert torch.equal(*tokens)


def count(module: Any, kind: type) -> int:
    return sum(isinstance(part, kind) for part in module.modules())


@pytest.mark.parametrize("name", checkpoints.FORMATS)
def test_a_checkpoint_equals_its_dense_model(name: str, tmp_path: Path) -> None:
    dense = checkpoints.write_llama(tmp_path, name)
    loaded = load_module(str(tmp_path), CPU, torch.float32)
    assert count(loaded, QuantizedLinear) == 7
    for path, module in dense.named_modules():
        if isinstance(module, torch.nn.Linear) and path != "lm_head":
            quantized: Any = loaded.get_submodule(path)
            decoded = quantized.packed().reference(torch.float32)
            torch.testing.assert_close(decoded, module.weight.data, rtol=1e-6, atol=0)
    same_tokens(loaded, dense)
    assert loaded.config.quantization_config == checkpoints.FORMATS[name][1]


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(checkpoints.FORMATS)), st.integers(1, 4), st.integers(1, 6), st.data()
)
def test_unpacking_restores_matrices_of_any_shape(
    name: str, rows: int, columns: int, data: st.DataObject
) -> None:
    writer, config = checkpoints.FORMATS[name]
    shape = 8 * rows, 8 * columns
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    stored, matrix = writer(rng, *shape)
    scheme = read_scheme(config, "config.json")
    endings = {ending: role for role, some in scheme.roles.items() for ending in some}
    tensors = {endings[ending]: t for ending, t in stored.items() if ending in endings}
    decoded = scheme.pack(tensors, shape).reference(torch.float32)
    torch.testing.assert_close(decoded.double(), torch.from_numpy(matrix), rtol=1e-6, atol=0)


def test_mxfp4_experts_equal_their_dense_model(tmp_path: Path) -> None:
    dense = checkpoints.write_gpt_oss(tmp_path)
    loaded = load_module(str(tmp_path), CPU, torch.float32)
    assert count(loaded, QuantizedExperts) == 1
    same_tokens(loaded, dense)


@pytest.mark.parametrize(
    "name",
    some_are_slow(
        ["fp8 in blocks", "awq", "gptq", "compressed int4", "compressed fp8 per row"],
        quick=["fp8 in blocks", "awq"],
    ),
)
def test_quantized_experts_equal_their_dense_model(name: str, tmp_path: Path) -> None:
    dense = checkpoints.write_qwen_moe(tmp_path, name)
    loaded = load_module(str(tmp_path), CPU, torch.float32)
    assert count(loaded, QuantizedExperts) == 1
    same_tokens(loaded, dense)


def test_a_checkpoint_of_several_files(tmp_path: Path) -> None:
    dense = checkpoints.write_llama(tmp_path, "awq")
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    files = {name: f"part-{i % 3}.safetensors" for i, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({n: t for n, t in tensors.items() if files[n] == file}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    same_tokens(load_module(str(tmp_path), CPU, torch.float32), dense)


UP = "model.layers.0.mlp.up_proj"
DAMAGE: dict[str, tuple[str, str, Any, str]] = {
    "scales of another shape": ("awq", ".scales", lambda t: t[1:], "the scales have shape"),
    "scales that are not finite": ("gptq", ".scales", lambda t: t / 0, "a scale is not finite"),
    "zero points of another shape": ("awq", ".qzeros", lambda t: t[:, 1:], "the zeros have shape"),
    "values of another shape": ("gptq", ".qweight", lambda t: t[1:], "the values have shape"),
    "a group without columns": (
        "gptq with act-order", ".g_idx", lambda t: t * 0, "does not divide the columns",
    ),
    "groups in another order": (
        "gptq", ".g_idx", lambda t: t.flip(0), "not in the order of the columns, as desc_act=False",
    ),
    "another shape in the file": (
        "compressed int4", ".weight_shape", lambda t: t + 8, r"weight_shape is not \[40, 32\]",
    ),
    "scales of a tensor instead of rows": (
        "compressed fp8 per row", ".weight_scale", lambda t: t[:3], "the scales have shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_tensors_are_refused(case: str, tmp_path: Path) -> None:
    name, ending, damage, said = DAMAGE[case]
    checkpoints.write_llama(tmp_path, name)
    change(tmp_path, f"{UP}{ending}", damage)
    with pytest.raises(ModelError, match=rf"{UP}\.\w+ cannot be read as .*: .*{said}"):
        load_module(str(tmp_path), CPU, torch.float32)


def test_a_damaged_exponent_is_refused(tmp_path: Path) -> None:
    checkpoints.write_gpt_oss(tmp_path)
    change(tmp_path, "model.layers.0.mlp.experts.down_proj_scales", lambda t: t * 0 + 255)
    with pytest.raises(ModelError, match=r"cannot be read as MXFP4: a scale is not a number"):
        load_module(str(tmp_path), CPU, torch.float32)


@pytest.mark.parametrize("ending", [".scales", ".qzeros", ".g_idx"])
def test_missing_tensors_are_refused(ending: str, tmp_path: Path) -> None:
    checkpoints.write_llama(tmp_path, "gptq with act-order")
    change(tmp_path, f"{UP}{ending}", None)
    with pytest.raises(ModelError, match=rf"the checkpoint has no {UP}\{ending}"):
        load_module(str(tmp_path), CPU, torch.float32)


def test_missing_values_leave_unused_scales(tmp_path: Path) -> None:
    checkpoints.write_llama(tmp_path, "awq")
    change(tmp_path, f"{UP}.qweight", None)
    with pytest.raises(ModelError, match=rf"its checkpoint has no {UP}\.weight"):
        load_module(str(tmp_path), CPU, torch.float32)


def test_an_expert_is_missing(tmp_path: Path) -> None:
    checkpoints.write_qwen_moe(tmp_path, "fp8 in blocks")
    for ending in (".weight", ".weight_scale_inv"):
        change(tmp_path, f"model.layers.0.mlp.experts.1.up_proj{ending}", None)
    with pytest.raises(ModelError, match=r"has 5 matrices for .*gate_up_proj, not .* 3 experts"):
        load_module(str(tmp_path), CPU, torch.float32)


def test_experts_with_different_orders_of_columns_are_refused(tmp_path: Path) -> None:
    checkpoints.write_qwen_moe(tmp_path, "gptq with act-order")
    with pytest.raises(ModelError, match=r"gate_up_proj cannot be merged: its parts differ in"):
        load_module(str(tmp_path), CPU, torch.float32)


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "bits": ({"quant_method": "awq", "bits": 8}, "bits is 8, and sgnb supports 4"),
    "layout": ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version is 'gemv'"),
    "group size": ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size is 0"),
    "checkpoint format": (checkpoints.GPTQ | {"checkpoint_format": "marlin"}, "is 'marlin'"),
    "block": ({"quant_method": "fp8", "weight_block_size": [128]}, r"block size is \[128\]"),
    "activations in int8": (
        checkpoints.pack_config(num_bits=8, type="int", strategy="channel"), "num_bits is 8",
    ),
    "strategy": (
        checkpoints.pack_config(num_bits=8, type="float", strategy="token"), "strategy is 'token'",
    ),
    "several groups": (
        {"quant_method": "compressed-tensors", "config_groups": {}}, "does not describe one format",
    ),
    "sparse": (
        checkpoints.pack_config(**checkpoints.INT4)
        | {"sparsity_config": {"format": "sparse-24-bitmask"}},
        "format is 'sparse-24-bitmask'",
    ),
    "format": (
        checkpoints.pack_config(**checkpoints.INT4) | {"format": "nvfp4-pack-quantized"},
        "format is 'nvfp4-pack-quantized', and sgnb supports 'pack-quantized'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_unsupported_settings_are_refused_by_name(case: str) -> None:
    config, said = UNSUPPORTED[case]
    with pytest.raises(ModelError, match=rf"that sgnb does not support: .*{said}.*\n  hint: give"):
        read_scheme(config, "config.json")


def change(folder: Path, name: str, function: Any) -> None:
    """Change a tensor of a checkpoint, or remove it without a function."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensor = tensors.pop(name)
    if function is not None:
        tensors[name] = function(tensor).contiguous()
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    "family",
    ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("qwen3_moe", "gpt_oss"))],
)
@pytest.mark.parametrize("name", ["fp8", "int4"])
def test_quantization_at_load_quantizes_each_matrix(name: str, family: str, tmp_path: Path) -> None:
    dense = random_model(family)
    dense.save_pretrained(tmp_path)
    loaded: Any = load_module(str(tmp_path), CPU, torch.float32, quantize=name)
    quantize = quantize_fp8 if name == "fp8" else quantize_int4
    assert type(loaded.lm_head) is torch.nn.Linear
    kinds = {type(part).__name__ for part in loaded.model.layers.modules()}
    assert "Linear" not in kinds
    for path, parameter in dense.named_parameters():
        parent, _, leaf = path.rpartition(".")
        part = loaded.get_submodule(parent)
        if isinstance(part, QuantizedLinear) and leaf == "weight":
            expected = quantize(parameter.data).reference(torch.float32)
            assert torch.equal(part.packed().reference(torch.float32), expected)
        elif isinstance(part, QuantizedExperts) and parameter.dim() == 3:
            matrices = parameter.data.transpose(1, 2) if part.is_transposed else parameter.data
            expected = torch.stack([quantize(m).reference(torch.float32) for m in matrices])
            assert torch.equal(part.packed(leaf).reference(torch.float32), expected)
        else:
            assert torch.equal(part.get_parameter(leaf), parameter)


def test_few_dense_matrices_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_model(num_hidden_layers=4).save_pretrained(tmp_path)
    live: weakref.WeakSet[Tensor] = weakref.WeakSet()
    most, reads, read = 0, 0, TensorReader.read
    lock, both = threading.Lock(), threading.Barrier(2, timeout=60)

    def counted(self: TensorReader, entry: Any) -> Tensor:
        nonlocal most, reads
        tensor = read(self, entry)
        if "proj" in names[entry.start]:
            with lock:
                live.add(tensor)
                reads += 1
                first = reads <= 2
                most = max(most, len(live))
            if first:
                both.wait()
        return tensor

    entries = read_checkpoint(tmp_path).entries.items()
    names = {entry.start: name for name, entry in entries}
    monkeypatch.setattr(TensorReader, "read", counted)
    load_module(str(tmp_path), CPU, torch.float32, quantize="int4")
    assert 1 < most <= AHEAD + 1 and reads == 28


def test_quantize_of_a_quantized_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoints.write_llama(tmp_path, "awq")
    with pytest.raises(ModelError, match=r"is quantized already, and quantize is 'fp8'"):
        load_module(str(tmp_path), CPU, quantize="fp8")


def test_a_weight_that_is_not_finite_is_not_quantized(tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    change(tmp_path, f"{UP}.weight", lambda t: t / 0)
    with pytest.raises(ModelError, match=rf"{UP}.weight cannot be read .*: a weight is not finite"):
        load_module(str(tmp_path), CPU, torch.float32, quantize="fp8")


def test_fp8_rounds_to_nearest() -> None:
    matrix = torch.randn(40, 64)
    matrix[3] = 0
    packed = quantize_fp8(matrix)
    error = (packed.reference(torch.float32) - matrix).abs()
    scales = packed.scales
    # Half of the distance of numbers: 3 bits of mantissa, and 2 ** -9 for the smallest.
    bound = torch.maximum(matrix.abs() / 16, scales * 2**-10)
    assert bool((error <= bound * 1.001).all())
    assert torch.equal(
        quantize_fp8(matrix).values.view(torch.uint8), packed.values.view(torch.uint8)
    )


def test_int4_is_better_than_rounding_in_the_whole_range() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(64, 300) ** 3
    matrix[3], matrix[4] = 0, 5
    packed = quantize_int4(matrix)
    decoded = packed.reference(torch.float32)
    assert torch.equal(decoded[3], matrix[3])
    simple = torch.zeros_like(matrix)
    for start in range(0, 300, 128):
        part = matrix[:, start : start + 128]
        low, high = part.amin(1, keepdim=True), part.amax(1, keepdim=True)
        low, high = low.clamp(max=0), high.clamp(min=0)
        scale = ((high - low) / 15).clamp(min=1e-9)
        zero = (-low / scale).round()
        codes = (part / scale + zero).round().clamp(0, 15)
        simple[:, start : start + 128] = (codes - zero) * scale
    errors = [(each - matrix).square().mean() for each in (decoded, simple)]
    assert errors[0] < errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fp8", "int4"])
def test_an_engine_with_quantized_weights_follows_its_model(name: str) -> None:
    """The fused engine writes the tokens of the module's own forward, also from the cache."""
    folder = str(models.path("tiny"))
    module: Any = load_module(folder, CPU, torch.float32, quantize=name)
    prompt = torch.tensor([load_tokenizer(folder)(PROMPT).input_ids])
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False}
    with torch.inference_mode():
        expected = module.generate(prompt, **options)[0, prompt.shape[1] :].tolist()
    with Engine("tiny", device="cpu", quantize=name) as engine:
        for cached in (False, True):
            output = engine.generate(PROMPT, max_new_tokens=8, temperature=0)
            assert output.token_ids == expected
            assert bool(output.cached_tokens) == cached


FAMILY_NAMES = [name for name in FAMILIES if name not in ("gpt2", "falcon")]  # no nn.Linear
HYBRID_NAMES = ["qwen3_5_moe_text", "jamba", "zamba2", "mamba", "lfm2_moe", "falcon_h1"]


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILY_NAMES, *HYBRID_NAMES])
def test_families_follow_their_quantized_model(family: str, tmp_path: Path) -> None:
    model = hybrid_model(family) if family in HYBRID_NAMES else random_model(family)
    model.save_pretrained(tmp_path)
    module: Any = load_module(str(tmp_path), CPU, torch.float32, quantize="int4")
    prompt = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        tokens = module.generate(prompt, max_new_tokens=6, do_sample=False)[0, 4:].tolist()
    with Engine(str(tmp_path), device="cpu", quantize="int4") as engine:
        output = engine.generate(prompt[0].tolist(), max_new_tokens=6, temperature=0)
    assert output.token_ids == tokens[: len(output.token_ids)]


@pytest.mark.parametrize("family", ["gpt2", "falcon"])
def test_models_without_linear_modules_are_refused(family: str, tmp_path: Path) -> None:
    random_model(family).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"quantize='int4' finds no linear module in \w+"):
        load_module(str(tmp_path), CPU, quantize="int4")


def test_an_unknown_format_of_an_engine_is_refused() -> None:
    with pytest.raises(OptionError, match=r"unknown quantize 'int5'\n.*did you mean 'int4'"):
        Engine("tiny", quantize="int5")
    with pytest.raises(ModelError, match=r"quantize='fp8' applies while weights are read"):
        Engine(random_model(), device="cpu", quantize="fp8")
