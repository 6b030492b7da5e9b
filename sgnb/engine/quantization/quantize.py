"""Quantization of dense matrices during a load, without calibration data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from .packed import CHUNK, PackedWeight, pack_nibbles, stack
from .schemes import Scheme

FP8_MAX = 448.0
"""Largest number of float8_e4m3fn."""

GROUP = 128
"""Columns per scale of int4."""

SHRINKS = tuple(1 - 0.05 * i for i in range(7))
"""Tried factors of a group's range. A narrower range rounds most weights finer and clips a few."""

FLOATS = frozenset({torch.bfloat16, torch.float16, torch.float32})


def load_scheme(name: str) -> Scheme:
    """Return the scheme that packs dense matrices as read: "fp8" has a scale per row, "int4" has a
    scale and a zero point per 128 columns."""
    return Scheme(
        name=f"quantize={name!r}",
        roles={"values": ("",)},
        required=frozenset({"values"}),
        stored=FLOATS,
        dense="",
        pack=partial(_pack, quantize=QUANTIZERS[name]),
        in_model_layout=True,
    )


def _pack(
    tensors: dict[str, Tensor], shape: tuple[int, ...], quantize: Callable[[Tensor], PackedWeight]
) -> PackedWeight:
    tensor = tensors["values"]
    if tuple(tensor.shape) != shape:
        raise ValueError(f"the weights have shape {list(tensor.shape)}, not {list(shape)}")
    if not tensor.is_meta and not bool(tensor.isfinite().all()):
        raise ValueError("a weight is not finite")
    if tensor.dim() == 2:
        return quantize(tensor)
    return stack([quantize(matrix) for matrix in tensor])


def quantize_fp8(matrix: Tensor) -> PackedWeight:
    """Return the matrix [N, K] in FP8 with a float32 scale per row."""
    rows, columns = matrix.shape
    values = torch.empty(matrix.shape, dtype=torch.float8_e4m3fn, device=matrix.device)
    scales = torch.empty(rows, 1, device=matrix.device)
    step = max(1, CHUNK // columns)
    for start in range(0, rows, step):
        part = matrix[start : start + step].float()
        scale = part.abs().amax(1, keepdim=True) / FP8_MAX
        scale = torch.where(scale == 0, 1.0, scale)
        scales[start : start + step] = scale
        values[start : start + step] = (part / scale).clamp(-FP8_MAX, FP8_MAX).to(values.dtype)
    return PackedWeight("fp8", values, scales, None, None, (1, columns), fp8_inputs=True)


def quantize_int4(matrix: Tensor) -> PackedWeight:
    """Return the matrix [N, K] in int4 with a scale and a zero point per group, of the range with
    the smallest error."""
    rows, columns = matrix.shape
    groups = -(-columns // GROUP)
    dtype = torch.float16 if matrix.dtype == torch.float16 else torch.bfloat16
    values = torch.empty(rows, columns // 2, dtype=torch.uint8, device=matrix.device)
    scales = torch.empty(rows, groups, dtype=dtype, device=matrix.device)
    zeros = torch.empty(rows, groups, dtype=torch.uint8, device=matrix.device)
    step = max(1, CHUNK // columns)
    for start in range(0, rows, step):
        place = slice(start, start + step)
        part = matrix[place].float()
        padded = torch.nn.functional.pad(part, (0, groups * GROUP - columns))
        codes, scales[place], zeros[place] = _best_range(
            padded.unflatten(1, (groups, GROUP)), dtype
        )
        values[place] = pack_nibbles(codes.flatten(1)[:, :columns])
    return PackedWeight("int4", values, scales, zeros, None, (1, GROUP))


def _best_range(groups: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes [N, G, GROUP], scales [N, G] rounded to `dtype` and zero points [N, G] of the
    range with the smallest error for each group."""
    low = groups.amin(2, keepdim=True).clamp(max=0)
    high = groups.amax(2, keepdim=True).clamp(min=0)
    least = torch.full_like(low, torch.inf)
    scale, zero = torch.ones_like(low), torch.zeros_like(low)
    for shrink in SHRINKS:
        tried = ((high - low) * (shrink / 15)).to(dtype).float()
        tried = torch.where(tried == 0, 1.0, tried)
        point = (-low * shrink / tried).round().clamp(0, 15)
        error = (_codes(groups, tried, point) - point).mul_(tried).sub_(groups)
        error = error.square_().sum(2, keepdim=True)
        better = error < least
        least = torch.where(better, error, least)
        scale, zero = torch.where(better, tried, scale), torch.where(better, point, zero)
    codes = _codes(groups, scale, zero).to(torch.uint8)
    return codes, scale[..., 0].to(dtype), zero[..., 0].to(torch.uint8)


def _codes(groups: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (groups / scale).add_(zero).round_().clamp_(0, 15)


QUANTIZERS: dict[str, Callable[[Tensor], PackedWeight]] = {
    "fp8": quantize_fp8,
    "int4": quantize_int4,
}
"""Value of the option `quantize` -> quantizer of a matrix."""
