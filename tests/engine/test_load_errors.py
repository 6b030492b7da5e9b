"""Errors for damaged or mismatched model folders name the place and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgnb.engine import sizing
from sgnb.engine.device import memory
from sgnb.engine.engine import Engine
from sgnb.engine.model import decoder
from sgnb.engine.model.loading import load_module
from sgnb.engine.model.safetensors_reader import TensorReader
from sgnb.errors import ModelError, OptionError

from ..random_models import random_model

CPU = torch.device("cpu")
Tensors = dict[str, Tensor]
FP8 = {"quant_method": "fp8", "weight_block_size": [32, 32]}
MXFP4 = {"quant_method": "mxfp4"}
UP, DOWN = "model.layers.1.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    random_model().save_pretrained(folder)
    return folder


def configure(folder: Path, **settings: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def change(folder: Path, function: Callable[[Tensors], Tensors]) -> None:
    file = folder / "model.safetensors"
    tensors = function(load_file(file))
    save_file({n: t.contiguous() for n, t in tensors.items()}, file, metadata={"format": "pt"})


def quantize(dtype: torch.dtype, scale: str = "") -> Callable[[Tensors], Tensors]:
    """Cast projections to `dtype`; add tensors named `scale` per block of 32 x 32."""

    def function(tensors: Tensors) -> Tensors:
        for name in [name for name in tensors if "proj" in name]:
            weight = tensors[name]
            tensors[name] = weight.to(dtype)
            if scale:
                blocks = [-(-size // 32) for size in weight.shape]
                tensors[name.replace("weight", scale)] = torch.full(blocks, 2.0)
        return tensors

    return function


def quantize_fp8(
    folder: Path, settings: dict[str, Any] | None = None, scale: str = "weight_scale_inv"
) -> None:
    """Quantize a folder in blocks of 32 x 32. settings: quantization_config; None for `FP8`."""
    configure(folder, quantization_config=settings or FP8)
    change(folder, quantize(torch.float8_e4m3fn, scale))


def unused_scales(tensors: Tensors) -> Tensors:
    return tensors | {f"{name}_scale": torch.ones(1) for name in tensors if "proj" in name}


def refused(said: str, hint: str) -> Any:
    return pytest.raises(ModelError, match=rf"(?s)^.*{said}.*\n  hint: .*{hint}")


def write(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def link_to_nothing(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("blobs/4f2a")


CASES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json", "give the folder"),
    "cut config": (write("config.json", '{"a":'), "config.json' is not valid JSON", "copy config"),
    "deep config": (write("config.json", "[" * 10**5), "is not valid JSON", "copy config.json"),
    "list config": (write("config.json", "[1]"), "holds a list instead of", "copy config.json"),
    "unknown type": (
        lambda f: configure(f, model_type="llamma"),
        "model_type 'llamma', which transformers .* does not have", "did you mean 'llama'",
    ),
    "own code": (
        lambda f: configure(f, model_type="own", auto_map={"AutoConfig": "own.Config"}),
        "needs code of the repository", "of a type that transformers",
    ),
    "unknown dtype": (
        lambda f: configure(f, dtype="float15"), "dtype 'float15', which torch", "use bfloat16",
    ),
    "other shape": (
        lambda f: change(f, lambda t: t | {UP: t[UP][:50]}),
        rf"{UP} has shape \[50, \d+\] in its checkpoint and \[\d+, \d+\] by", "its own config.json",
    ),
    "other shapes": (
        lambda f: configure(f, vocab_size=111),
        r"\[97, \d+\] in its checkpoint and \[111, \d+\] by .* for 1 more", "its own config.json",
    ),
    "far more parameters": (
        lambda f: configure(f, vocab_size=10**7),
        r"its checkpoint has [\d,]+ parameters, and its config.json describes 1,\d{3},\d{3},\d{3}",
        "saved with the weights",
    ),
    "fewer layers": (
        lambda f: configure(f, num_hidden_layers=1, layer_types=None),
        r"its checkpoint has 2 layers \(model.layers\), and its config.json 1", "num_hidden_layers",
    ),
    "unused scales": (
        lambda f: change(f, unused_scales),
        "does not use .*down_proj.weight_scale.* and 11 more", "with its quantization_config",
    ),
    "broken link": (
        link_to_nothing, "is a link to 'blobs/4f2a', which is missing", "copy the file again",
    ),
    "pointer of Git LFS": (
        write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:4f\n"),
        "is a pointer of Git LFS", "git lfs pull",
    ),
    "quantization unknown": (
        lambda f: configure(f, quantization_config={"quant_method": "mxfp44"}),
        "quant_method 'mxfp44', which sgnb does not support", "did you mean 'mxfp4'",
    ),
    "quantization without method": (
        lambda f: configure(f, quantization_config={"bits": 4}),
        r"quantization_config without quant_method: \{'bits': 4\}", "saved with the quantized",
    ),
    "quantization no object": (
        lambda f: configure(f, quantization_config="int8"),
        "quantization_config without quant_method: 'int8'", "saved with the quantized",
    ),
    "quantized by an unsupported method": (
        lambda f: configure(f, quantization_config={"quant_method": "aqlm"}),
        "quant_method 'aqlm', which sgnb does not support", "awq, gptq, compressed-tensors",
    ),
    "quantized by bitsandbytes": (
        lambda f: configure(f, quantization_config={"load_in_4bit": True}),
        "quant_method 'bitsandbytes', which sgnb does not support", 'with quantize="int4"',
    ),
    "quantized in eight bits": (
        lambda f: configure(f, quantization_config={"quant_method": "gptq", "bits": 8}),
        "quantization_config of gptq that sgnb does not support: bits is 8", "awq, gptq",
    ),
    "quantized and cut": (
        lambda f: (
            quantize_fp8(f),
            (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        ),
        "model.safetensors' cannot be loaded: it ends after", "copy the file again",
    ),
    "quantized and incomplete": (
        lambda f: (
            quantize_fp8(f),
            change(f, lambda t: {n: w for n, w in t.items() if not n.startswith(UP)}),
        ),
        f"its checkpoint has no {UP}, which would have random values", "the whole checkpoint",
    ),
    "quantized with other scales": (
        lambda f: quantize_fp8(f, scale="weight_scale"),
        f"{DOWN} is stored as FP8 in blocks of 32 x 32, and the checkpoint has no {DOWN}_scale_inv",
        "that was saved with the weights",
    ),
    "quantized by another method": (
        lambda f: quantize_fp8(f, MXFP4),
        "its config.json describes MXFP4, and no tensor of its checkpoint is stored in this",
        "with its quantization_config",
    ),
    "quantized in part by another method": (
        lambda f: (
            quantize_fp8(f),
            change(f, lambda t: t | {UP: t[UP].view(torch.int8)}),
        ),
        "has weights in int8, which need scales", "with a quantization_config",
    ),
    "quantized with other blocks": (
        lambda f: quantize_fp8(f, FP8 | {"weight_block_size": [16, 32]}),
        f"{DOWN} cannot be read as FP8 in blocks of 16 x 32: the scales have shape",
        "that was saved with the weights",
    ),
    "quantized without scales": (
        lambda f: (configure(f, quantization_config=FP8), change(f, quantize(torch.float8_e4m3fn))),
        f"the checkpoint has no {DOWN}_scale_inv", "that was saved with the weights",
    ),
    "a scale that is not finite": (
        lambda f: (
            quantize_fp8(f),
            change(f, lambda t: t | {f"{UP}_scale_inv": t[f"{UP}_scale_inv"] / 0}),
        ),
        f"{UP} cannot be read as FP8 in blocks of 32 x 32: a scale is not finite",
        "give the whole checkpoint",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_folder_is_refused(case: str, folder: Path) -> None:
    damage, said, hint = CASES[case]
    damage(folder)
    with refused(said, hint):
        load_module(str(folder), CPU)


def test_layers_for_multi_token_prediction_may_be_unused(folder: Path) -> None:
    configure(folder, num_hidden_layers=1, layer_types=None, num_nextn_predict_layers=1)
    module = load_module(str(folder), CPU)
    assert len(module.model.layers) == 1


def test_quantized_weights_with_their_scales_load(folder: Path) -> None:
    before = load_file(folder / "model.safetensors")[UP]
    quantize_fp8(folder)
    module = load_module(str(folder), CPU, torch.float32)
    loaded: Any = module.get_submodule(UP.removesuffix(".weight"))
    decoded = loaded.packed().reference(torch.float32)
    assert torch.equal(decoded, 2 * before.to(torch.float8_e4m3fn).float())


def test_scales_of_activations_may_be_unused(folder: Path) -> None:
    scales = {f"model.layers.0.self_attn.{name}": torch.ones(1) for name in ("k_scale", "v_scale")}
    change(folder, lambda t: t | scales | {UP.replace("weight", "input_scale"): torch.ones(1)})
    load_module(str(folder), CPU)


def test_a_linked_folder_loads(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    load_module(str(tmp_path / "link"), CPU)


def test_a_file_in_place_of_a_folder(folder: Path) -> None:
    with refused("model.safetensors' is a file", re.escape(f"give its folder: {str(folder)!r}")):
        load_module(str(folder / "model.safetensors"), CPU)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_may_not_be_read(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated: root may read every file."""
    own_open = Path.open

    def guarded(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return own_open(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", guarded)
    with refused(f"{name}' cannot be read: permission denied", "chmod -R"):
        load_module(str(folder), CPU)


@pytest.mark.parametrize("is_quantized", [False, True])
def test_weights_larger_than_the_memory_of_the_host(
    is_quantized: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_quantized:
        quantize_fp8(folder)
    monkeypatch.setattr(memory, "free_host_bytes", lambda: 1000)
    monkeypatch.setattr(TensorReader, "read", lambda *args: pytest.fail("it was read"))
    said = r"the weights of .* take 0\.0 GiB.*, and 0\.0 GiB are free on this machine"
    with refused(said, "load a smaller model"):
        load_module(str(folder), CPU, torch.float32)


def test_memory_that_ends_beside_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the cache is allocated, so a smaller cache does not help."""

    def fail(*args: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(decoder, "reference_logits", fail)
    monkeypatch.setattr(decoder, "passed_record", lambda *args: None)
    with refused("is left next to its weights: DefaultCPU", "load a smaller model") as got:
        Engine(random_model(), device="cpu")
    assert "max_step_tokens" not in str(got.value)


def test_no_room_for_any_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "free_host_bytes", lambda: 100)
    with pytest.raises(OptionError, match=r"KV pool of 1 tokens.*\n.*load a smaller model") as got:
        Engine(random_model(), device="cpu")
    assert "at most 0" not in str(got.value)
