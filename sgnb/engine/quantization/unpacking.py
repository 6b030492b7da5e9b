"""Unpacking of the tensors of each checkpoint format to the layout of `packed`.

Each function takes the tensors of a matrix by role ("values", "scales", "zeros", "groups",
"shape") and the shape of the matrix, and raises ValueError for tensors that do not fit. Tensors on
the meta device pass the comparisons of numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .packed import PackedWeight, pack_nibbles, unpack_nibbles

Tensors = dict[str, Tensor]

AWQ_NIBBLES = (0, 4, 1, 5, 2, 6, 3, 7)
"""AWQ: output j of eight is in this nibble of a 32-bit word."""

MX_BLOCK = 32
"""Columns per scale in MXFP4."""

NOT_A_NUMBER = 255
"""The exponent of a damaged scale in MXFP4."""


def awq(tensors: Tensors, shape: tuple[int, ...], *, group: int | None) -> PackedWeight:
    """Unpack qweight int32 [K, N / 8], qzeros int32 [G, N / 8] and scales [G, N]."""
    rows, columns = shape
    group = group or columns
    groups = -(-columns // group)
    _expect(tensors, "values", (columns, rows // 8))
    scales = _expect(tensors, "scales", (groups, rows))
    codes = _awq_codes(tensors["values"]).t()
    zeros = None
    if "zeros" in tensors:
        zeros = _awq_codes(_expect(tensors, "zeros", (groups, rows // 8))).t().contiguous()
    return _int4(codes, scales.t(), zeros, None, group)


def gptq(
    tensors: Tensors, shape: tuple[int, ...], *, group: int | None, ordered: bool, added: int
) -> PackedWeight:
    """Unpack qweight int32 [K / 8, N], qzeros int32 [G, N / 8], scales [G, N] and g_idx [K].

    Args:
        ordered: The groups of g_idx are not in the order of the inputs.
        added: Number to add to the stored zero points, modulo 16.
    """
    rows, columns = shape
    group = group or columns
    groups = -(-columns // group)
    words = _expect(tensors, "values", (columns // 8, rows))
    scales = _expect(tensors, "scales", (groups, rows))
    zeros = _nibbles(_expect(tensors, "zeros", (groups, rows // 8)))
    # Four bytes of a word hold eight inputs of an output.
    pairs = words.contiguous().view(torch.uint8).view(columns // 8, rows, 4)
    codes = unpack_nibbles(pairs.transpose(0, 1).reshape(rows, columns // 2))
    order = _order(tensors, columns, group, ordered)
    return _int4(codes, scales.t(), ((zeros + added) & 15).t(), order, group)


def compressed_int4(
    tensors: Tensors, shape: tuple[int, ...], *, group: int | None, ordered: bool
) -> PackedWeight:
    """Unpack weight_packed int32 [N, ceil(K / 8)], weight_scale [N, G], weight_zero_point int32
    [ceil(N / 8), G] and weight_g_idx [K]."""
    rows, columns = shape
    group = group or columns
    groups = -(-columns // group)
    words = _expect(tensors, "values", (rows, -(-columns // 8)))
    scales = _expect(tensors, "scales", (rows, groups))
    if "shape" in tensors:
        stored = _expect(tensors, "shape", (2,))
        expected = torch.tensor([rows, columns], device=stored.device)
        _demand(stored == expected, f"weight_shape is not [{rows}, {columns}]")
    codes = unpack_nibbles(words.contiguous().view(torch.uint8))[:, :columns]
    zeros = None
    if "zeros" in tensors:
        words = _expect(tensors, "zeros", (-(-rows // 8), groups))
        zeros = _nibbles(words.t())[:, :rows].t()
    order = _order(tensors, columns, group, ordered)
    return _int4(codes, scales, zeros, order, group)


def fp8(
    tensors: Tensors, shape: tuple[int, ...], *, block: tuple[int, int] | None, fp8_inputs: bool
) -> PackedWeight:
    """Take weight float8_e4m3fn [N, K] with a scale per block. Without `block`, the checkpoint has
    a scale per row, or a single scale, which is repeated for each row."""
    rows, columns = shape
    values = _expect(tensors, "values", (rows, columns))
    scales = tensors["scales"]
    if scales.dtype == torch.float8_e8m0fnu:
        scales = scales.float()
    if block is not None:
        _expect(tensors, "scales", (-(-rows // block[0]), -(-columns // block[1])))
        scales = scales.contiguous()
        return _finite(PackedWeight("fp8", values, scales, None, None, block, fp8_inputs))
    if scales.numel() not in (1, rows):
        raise ValueError(f"the scales have shape {list(scales.shape)}, not [{rows}, 1] or [1]")
    scales = scales.reshape(-1, 1).expand(rows, 1).contiguous()
    return _finite(PackedWeight("fp8", values, scales, None, None, (1, columns), fp8_inputs))


def mxfp4(tensors: Tensors, shape: tuple[int, ...]) -> PackedWeight:
    """Take blocks uint8 [..., N, K / 32, 16] and exponents uint8 [..., N, K / 32]."""
    *outer, columns = shape
    blocks = _expect(tensors, "values", (*outer, columns // MX_BLOCK, MX_BLOCK // 2))
    scales = _expect(tensors, "scales", (*outer, columns // MX_BLOCK)).contiguous()
    if scales.dtype != torch.uint8 or columns % MX_BLOCK:
        raise ValueError(f"the scales are {scales.dtype}, for {columns} columns")
    values = blocks.flatten(-2).contiguous()
    _demand(scales != NOT_A_NUMBER, "a scale is not a number")
    return PackedWeight("mxfp4", values, scales, None, None, (1, MX_BLOCK))


def _int4(
    codes: Tensor, scales: Tensor, zeros: Tensor | None, order: Tensor | None, group: int
) -> PackedWeight:
    """Return a matrix of codes uint8 [N, K]."""
    if codes.shape[1] % 2:
        raise ValueError(f"{codes.shape[1]} columns do not fill whole bytes")
    if order is not None:
        codes = codes.index_select(1, order)
    scales = scales.contiguous()
    zeros = None if zeros is None else zeros.to(torch.uint8).contiguous()
    return _finite(PackedWeight("int4", pack_nibbles(codes), scales, zeros, order, (1, group)))


def _order(tensors: Tensors, columns: int, group: int, ordered: bool) -> Tensor | None:
    """Return the inputs in the order of their groups, or None for the order of the inputs."""
    if "groups" not in tensors:
        return None
    groups = _expect(tensors, "groups", (columns,)).long()
    order = torch.argsort(groups, stable=True) if ordered else torch.arange(columns)
    expected = torch.arange(columns, device=groups.device) // group
    _demand(
        groups[order.to(groups.device)] == expected,
        "the group index does not divide the columns into groups"
        if ordered
        else "the group index is not in the order of the columns, as desc_act=False says",
    )
    return order.int() if ordered else None


def _awq_codes(words: Tensor) -> Tensor:
    """Return the codes [R, N] of words [R, N / 8] in AWQ's order."""
    nibbles = unpack_nibbles(words.contiguous().view(torch.uint8)).unflatten(1, (-1, 8))
    return nibbles[..., list(AWQ_NIBBLES)].flatten(1)


def _nibbles(words: Tensor) -> Tensor:
    """Return the codes [R, 8 * n] of words int32 [R, n], the lowest four bits first."""
    return unpack_nibbles(words.contiguous().view(torch.uint8))


def _finite(packed: PackedWeight) -> PackedWeight:
    _demand(packed.scales.isfinite(), "a scale is not finite")
    return packed


def _expect(tensors: Tensors, role: str, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of a role. Raises ValueError for another shape."""
    tensor = tensors[role]
    if tuple(tensor.shape) != shape:
        raise ValueError(f"the {role} have shape {list(tensor.shape)}, not {list(shape)}")
    return tensor


def _demand(condition: Tensor, message: str) -> None:
    """Raise ValueError unless all numbers meet the condition."""
    if not condition.is_meta and not bool(condition.all()):
        raise ValueError(message)
