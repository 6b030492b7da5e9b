"""Writers of small quantized checkpoints, one per format, from the public descriptions of the
formats. A writer draws codes and scales, and returns the stored tensors together with the matrix
that they stand for, computed directly from the codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

Array = np.ndarray[Any, Any]
Stored = tuple[dict[str, Tensor], Array]
"""Tensors by the ending of their names, and the matrix [N, K] in float64."""

Writer = Callable[[np.random.Generator, int, int], Stored]

GROUP = 16
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Nibble i of a word of AWQ has this output of eight."""

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def words(codes: Array, order: tuple[int, ...] = tuple(range(8))) -> Tensor:
    """Pack codes [R, 8 n] along the rows into int32 [R, n]: nibble i of a word has the code at
    order[i] of eight."""
    rows, columns = codes.shape
    packed = np.zeros((rows, columns // 8), np.uint32)
    for row in range(rows):
        for word in range(columns // 8):
            for i in range(8):
                packed[row, word] |= np.uint32(int(codes[row, 8 * word + order[i]]) << 4 * i)
    return torch.from_numpy(packed.view(np.int32))


def draw_int4(
    rng: np.random.Generator, rows: int, columns: int, symmetric: bool = False
) -> tuple[Array, Array, Array]:
    """Return codes [N, K], float16 scales [N, G] and zero points [N, G]."""
    groups = -(-columns // GROUP)
    codes = rng.integers(0, 16, (rows, columns))
    scales = rng.uniform(0.01, 0.05, (rows, groups)).astype(np.float16)
    zeros = np.full((rows, groups), 8) if symmetric else rng.integers(0, 16, (rows, groups))
    return codes, scales, zeros


def dense_int4(codes: Array, scales: Array, zeros: Array, group_of: Array) -> Array:
    """Return the matrix; group_of: group of each column."""
    matrix = np.zeros(codes.shape)
    for n in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            group = group_of[k]
            matrix[n, k] = (int(codes[n, k]) - int(zeros[n, group])) * float(scales[n, group])
    return matrix


def in_order(columns: int) -> Array:
    return np.arange(columns) // GROUP


def awq(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    codes, scales, zeros = draw_int4(rng, rows, columns)
    tensors = {
        ".qweight": words(codes.T, AWQ_ORDER),
        ".qzeros": words(zeros.T, AWQ_ORDER),
        ".scales": torch.from_numpy(scales.T.copy()),
    }
    return tensors, dense_int4(codes, scales, zeros, in_order(columns))


def gptq(
    rng: np.random.Generator, rows: int, columns: int, act_order: bool = False, added: int = 1
) -> Stored:
    codes, scales, zeros = draw_int4(rng, rows, columns)
    group_of = in_order(columns)
    if act_order:
        group_of = rng.permutation(group_of)
    tensors = {
        ".qweight": words(codes).T.contiguous(),  # eight inputs per word
        ".qzeros": words((zeros.T - added) % 16),
        ".scales": torch.from_numpy(scales.T.copy()),
        ".g_idx": torch.from_numpy(group_of.astype(np.int32)),
    }
    return tensors, dense_int4(codes, scales, zeros, group_of)


def gptq_act_order(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return gptq(rng, rows, columns, act_order=True)


def gptq_v2(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return gptq(rng, rows, columns, added=0)


def compressed(
    rng: np.random.Generator,
    rows: int,
    columns: int,
    symmetric: bool = True,
    act_order: bool = False,
) -> Stored:
    codes, scales, zeros = draw_int4(rng, rows, columns, symmetric)
    group_of = in_order(columns)
    tensors = {
        ".weight_packed": words(codes),
        ".weight_scale": torch.from_numpy(scales).bfloat16(),
        ".weight_shape": torch.tensor([rows, columns]),
    }
    scales = tensors[".weight_scale"].float().numpy()
    if not symmetric:
        tensors[".weight_zero_point"] = words(zeros.T).T.contiguous()  # eight outputs per word
    if act_order:
        group_of = rng.permutation(group_of)
        tensors[".weight_g_idx"] = torch.from_numpy(group_of.astype(np.int32))
    return tensors, dense_int4(codes, scales, zeros, group_of)


def compressed_asymmetric(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return compressed(rng, rows, columns, symmetric=False)


def compressed_act_order(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return compressed(rng, rows, columns, act_order=True)


def draw_fp8(rng: np.random.Generator, rows: int, columns: int) -> Tensor:
    numbers = torch.from_numpy(rng.normal(size=(rows, columns)) * 50)
    return numbers.to(torch.float8_e4m3fn)


def fp8_blocks(
    rng: np.random.Generator,
    rows: int,
    columns: int,
    ending: str = ".weight_scale_inv",
    dtype: torch.dtype = torch.float32,
) -> Stored:
    weight = draw_fp8(rng, rows, columns)
    shape = -(-rows // GROUP), -(-columns // GROUP)
    scales = torch.from_numpy(rng.uniform(0.0005, 0.001, shape)).to(dtype)
    matrix = weight.double().numpy()
    for n in range(rows):
        for k in range(columns):
            matrix[n, k] *= float(scales[n // GROUP, k // GROUP])
    return {".weight": weight, ending: scales}, matrix


def fp8_power_blocks(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return fp8_blocks(rng, rows, columns, dtype=torch.float8_e8m0fnu)


def fp8_compressed_blocks(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    return fp8_blocks(rng, rows, columns, ending=".weight_scale", dtype=torch.bfloat16)


def fp8_rows(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    weight = draw_fp8(rng, rows, columns)
    scales = torch.from_numpy(rng.uniform(0.0005, 0.001, (rows, 1))).float()
    return {".weight": weight, ".weight_scale": scales}, (weight.double() * scales).numpy()


def fp8_tensor(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    weight, scale = draw_fp8(rng, rows, columns), torch.tensor([rng.uniform(0.0005, 0.001)])
    scale = scale.float()
    tensors = {".weight": weight, ".weight_scale": scale, ".input_scale": torch.ones(1)}
    return tensors, (weight.double() * scale).numpy()


def mxfp4(rng: np.random.Generator, rows: int, columns: int) -> Stored:
    """Return blocks [N, K / 32, 16] and exponents [N, K / 32]."""
    numbers = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)
    codes = rng.integers(0, 16, (rows, columns))
    exponents = rng.integers(118, 123, (rows, columns // 32)).astype(np.uint8)
    blocks = np.zeros((rows, columns // 32, 16), np.uint8)
    matrix = np.zeros((rows, columns))
    for n in range(rows):
        for k in range(columns):
            blocks[n, k // 32, k % 32 // 2] |= np.uint8(codes[n, k] << 4 * (k % 2))
            matrix[n, k] = numbers[codes[n, k]] * 2.0 ** (int(exponents[n, k // 32]) - 127)
    return {"_blocks": torch.from_numpy(blocks), "_scales": torch.from_numpy(exponents)}, matrix


def pack_config(**weights: Any) -> dict[str, Any]:
    """Return a config of compressed-tensors."""
    is_int = weights["type"] == "int"
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized" if is_int else "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


INT4: dict[str, Any] = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP}
GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False}
FP8: dict[str, Any] = {"num_bits": 8, "type": "float"}

FORMATS: dict[str, tuple[Writer, dict[str, Any]]] = {
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True}),
    "gptq": (gptq, GPTQ),
    "gptq with act-order": (gptq_act_order, GPTQ | {"desc_act": True}),
    "gptq v2": (gptq_v2, GPTQ | {"checkpoint_format": "gptq_v2"}),
    "compressed int4": (compressed, pack_config(**INT4, symmetric=True)),
    "compressed int4 with zero points": (
        compressed_asymmetric, pack_config(**INT4, symmetric=False),
    ),
    "compressed int4 with act-order": (
        compressed_act_order, pack_config(**INT4, symmetric=True, actorder="group"),
    ),
    "fp8 in blocks": (fp8_blocks, {"quant_method": "fp8", "weight_block_size": [GROUP, GROUP]}),
    "fp8 in blocks with exponents": (
        fp8_power_blocks, {"quant_method": "fp8", "weight_block_size": [GROUP, GROUP]},
    ),
    "fp8 per tensor": (fp8_tensor, {"quant_method": "fp8", "activation_scheme": "static"}),
    "compressed fp8 per row": (fp8_rows, pack_config(**FP8, strategy="channel")),
    "compressed fp8 per tensor": (fp8_tensor, pack_config(**FP8, strategy="tensor")),
    "compressed fp8 in blocks": (
        fp8_compressed_blocks,
        pack_config(**FP8, strategy="block", block_structure=[GROUP, GROUP]),
    ),
}  # fmt: skip
"""Format -> (writer of a linear module, its config)."""


def write_llama(folder: Path, name: str, seed: int = 0) -> PreTrainedModel:
    """Write a Llama checkpoint in a format, and return the model with the same dense weights."""
    writer, settings = FORMATS[name]
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    tensors = model_tensors(model, folder)
    quantize_linears(model, tensors, writer, np.random.default_rng(seed))
    write(folder, tensors, settings)
    return model


def quantize_linears(
    model: PreTrainedModel, tensors: dict[str, Tensor], writer: Writer, rng: np.random.Generator
) -> None:
    """Replace the weights of projections in `tensors`, and give the model the dense weights."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name.endswith("proj"):
            stored, matrix = writer(rng, module.out_features, module.in_features)
            module.weight.data.copy_(torch.from_numpy(matrix))
            del tensors[f"{name}.weight"]
            tensors |= {f"{name}{ending}": tensor for ending, tensor in stored.items()}


def write_gpt_oss(folder: Path, seed: int = 0) -> PreTrainedModel:
    """Write a gpt-oss checkpoint in MXFP4, and return the model with the same dense weights."""
    sizes = SIZES | {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 3}
    torch.manual_seed(seed)
    model = GptOssForCausalLM(GptOssConfig(**sizes, num_experts_per_tok=2)).eval()
    tensors = model_tensors(model, folder)
    rng = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, columns, rows = parameter.shape  # transposed in the model
            drawn = [mxfp4(rng, rows, columns) for _ in range(experts)]
            parameter.data.copy_(torch.from_numpy(np.stack([m.T for _, m in drawn])))
            del tensors[name]
            for ending in ("_blocks", "_scales"):
                tensors[name + ending] = torch.stack([stored[ending] for stored, _ in drawn])
    write(folder, tensors, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
    return model


def write_qwen_moe(folder: Path, name: str, seed: int = 0) -> PreTrainedModel:
    """Write a Qwen 3 MoE checkpoint in a format, and return the model with the dense weights."""
    writer, settings = FORMATS[name]
    sizes = SIZES | {"num_experts": 3, "moe_intermediate_size": 24, "num_experts_per_tok": 2}
    torch.manual_seed(seed)
    model: Any = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes)).eval()
    tensors = model_tensors(model, folder)
    rng = np.random.default_rng(seed)
    quantize_linears(model, tensors, writer, rng)
    for name in [name for name in tensors if ".experts." in name]:
        *_, expert, part, _ = name.split(".")
        rows, columns = tensors.pop(name).shape
        stored, matrix = writer(rng, rows, columns)
        experts = model.model.layers[0].mlp.experts
        target = experts.down_proj if part == "down_proj" else experts.gate_up_proj
        first = rows if part == "up_proj" else 0  # up stands below gate
        target.data[int(expert), first : first + rows] = torch.from_numpy(matrix)
        prefix = name.removesuffix(".weight")
        tensors |= {f"{prefix}{ending}": tensor for ending, tensor in stored.items()}
    write(folder, tensors, settings)
    return model


def model_tensors(model: PreTrainedModel, folder: Path) -> dict[str, Tensor]:
    """Save the model, and return the tensors of the file."""
    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def write(folder: Path, tensors: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Write the tensors, and the format to the config."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quantization_config": settings}))
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})
