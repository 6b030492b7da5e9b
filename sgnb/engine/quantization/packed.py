"""Packed matrices: the one layout of quantized weights in memory, for every checkpoint format.

Kernels read this layout. A matrix has N rows (outputs) and K columns (inputs), the tensors of
experts have a leading dimension E. All tensors are contiguous.

- `values`: "fp8" is float8_e4m3fn [N, K]. "int4" and "mxfp4" are uint8 [N, K / 2]: byte i has
  column 2i in the lower four bits and column 2i + 1 in the upper four bits. A code of "int4" is a
  number from 0 to 15; a code of "mxfp4" is an index of `E2M1`.
- `scales`: [ceil(N / rows), ceil(K / columns)] with (rows, columns) = `block`: the scale of value
  [n, k] is scales[n // rows, k // columns]. "mxfp4" stores exponents, uint8: the scale is
  2 ** (exponent - 127). Other kinds store float32, float16 or bfloat16. A scale per row has
  `block` (1, K).
- `zeros`: uint8 in the shape of `scales`, for "int4" only; None stands for 8 everywhere.
- `order`: int32 [K], or None for the order of the inputs: column j of `values`, and of the groups
  of `block`, belongs to input order[j] (GPTQ's act-order).
- `fp8_inputs`: the format describes products of FP8 inputs and FP8 weights. A large product may
  round each row of inputs to FP8, with a scale per row.

Weight [n, order[j]] = (value[n, j] - zero) * scale, computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Kind = Literal["fp8", "int4", "mxfp4"]

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Values of the codes 0 to 7 of MXFP4; codes 8 to 15 are their negatives (OCP MX specification)."""

SYMMETRIC_ZERO = 8
"""Zero point of "int4" without `zeros`."""

CHUNK = 1 << 22
"""Maximum number of elements decoded at once: limits the memory of float32 intermediates."""

PARTS = ("values", "scales", "zeros", "order")


class PackedWeight(NamedTuple):
    """Quantized matrix [N, K], or matrices [E, N, K], in the layout of this module."""

    kind: Kind
    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    order: Tensor | None
    block: tuple[int, int]  # rows and columns that share a scale
    fp8_inputs: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded matrix."""
        *outer, columns = self.values.shape
        return (*outer, columns if self.kind == "fp8" else 2 * columns)

    def parts(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        named = zip(PARTS, (self.values, self.scales, self.zeros, self.order), strict=True)
        return {name: tensor for name, tensor in named if tensor is not None}

    def with_parts(self, parts: dict[str, Tensor]) -> PackedWeight:
        """Return the matrix with other tensors, by name."""
        changed: Any = parts
        return self._replace(**changed)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(part.numel() * part.element_size() for part in self.parts().values())

    def reference(self, dtype: torch.dtype) -> Tensor:
        """Return the decoded matrix in `dtype`, columns in the order of the inputs."""
        decoded = torch.empty(self.shape, dtype=dtype, device=self.values.device)
        for matrix, out in zip(self._matrices(), decoded.view(-1, *self.shape[-2:]), strict=True):
            matrix._decode_into(out)
        return decoded

    def _matrices(self) -> Iterator[PackedWeight]:
        """Yield each matrix of experts, or the only matrix."""
        if self.values.dim() == 2:
            yield self
            return
        for i in range(len(self.values)):
            yield self.with_parts({name: part[i] for name, part in self.parts().items()})

    def _decode_into(self, out: Tensor) -> None:
        rows, columns = self.shape
        high, wide = self.block
        step = max(1, CHUNK // columns // high) * high  # whole blocks
        for start in range(0, rows, step):
            place = slice(start, min(start + step, rows))
            blocks = slice(start // high, -(-place.stop // high))
            codes = _numbers(self.kind, self.values[place])
            if self.kind == "int4":
                codes = codes - (
                    SYMMETRIC_ZERO
                    if self.zeros is None
                    else _spread(self.zeros[blocks].float(), high, wide, *codes.shape)
                )
            scales = _scale_numbers(self.kind, self.scales[blocks])
            numbers = codes * _spread(scales, high, wide, *codes.shape)
            if self.order is None:
                out[place] = numbers
            else:
                out[place, self.order.long()] = numbers.to(out.dtype)


def _numbers(kind: Kind, values: Tensor) -> Tensor:
    """Return the codes as float32 numbers without scale, [N, K]."""
    if kind == "fp8":
        return values.float()
    codes = unpack_nibbles(values)
    if kind == "int4":
        return codes.float()
    table = torch.tensor(E2M1 + tuple(-number for number in E2M1), device=values.device)
    return table[codes.int()]


def _scale_numbers(kind: Kind, scales: Tensor) -> Tensor:
    if kind != "mxfp4":
        return scales.float()
    # The bits of float32: exponent 0 is the subnormal number 2 ** -127.
    exponents = scales.int()
    return torch.where(exponents == 0, 1 << 22, exponents << 23).view(torch.float32)


def _spread(blocks: Tensor, high: int, wide: int, rows: int, columns: int) -> Tensor:
    """Return the number of each element, [rows, columns], for a number per block; a single column
    of blocks stays one column."""
    if high > 1:
        blocks = blocks.repeat_interleave(high, 0)[:rows]
    if blocks.shape[1] > 1:
        blocks = blocks.repeat_interleave(wide, 1)[:, :columns]
    return blocks


def from_parts(
    kind: Kind,
    block: tuple[int, int],
    parts: Mapping[str, Tensor | None],
    fp8_inputs: bool = False,
) -> PackedWeight:
    """Return the matrix with the tensors `parts`, by name."""
    values, scales = parts["values"], parts["scales"]
    assert values is not None and scales is not None
    zeros, order = parts.get("zeros"), parts.get("order")
    return PackedWeight(kind, values, scales, zeros, order, block, fp8_inputs)


def pack_nibbles(codes: Tensor) -> Tensor:
    """Return codes from 0 to 15, [..., K] with even K, as uint8 [..., K / 2]."""
    codes = codes.to(torch.uint8)
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def unpack_nibbles(values: Tensor) -> Tensor:
    """Return the codes, uint8 [..., K], of bytes [..., K / 2]."""
    return torch.stack([values & 15, values >> 4], -1).flatten(-2)


def can_cat(parts: Sequence[PackedWeight]) -> bool:
    """True if `cat` can merge the matrices: equal kinds, inputs, column groups, orders of columns
    and dtypes. Different numbers of rows per scale become one row per scale. Orders on the meta
    device count as equal."""
    first = parts[0]
    return all(_traits(part) == _traits(first) for part in parts) and all(
        _same_order(part.order, first.order) for part in parts
    )


def cat(parts: Sequence[PackedWeight]) -> PackedWeight:
    """Return the matrices [N, K] below each other. Requires `can_cat`."""
    first = parts[0]
    high = {part.block[0] for part in parts}
    ends_on_block = all(part.shape[-2] % part.block[0] == 0 for part in parts[:-1])
    if len(high) > 1 or not ends_on_block:
        parts = [_with_row_scales(part) for part in parts]
    merged = {
        name: _join(partial(torch.cat, dim=-2), [part.parts()[name] for part in parts])
        for name in first.parts()
        if name != "order"
    }
    return parts[0].with_parts(merged)


def stack(parts: Sequence[PackedWeight]) -> PackedWeight:
    """Return matrices [N, K] of equal shapes as matrices [E, N, K]."""
    names = parts[0].parts()
    return parts[0].with_parts(
        {name: _join(torch.stack, [part.parts()[name] for part in parts]) for name in names}
    )


def _join(join: Callable[[list[Tensor]], Tensor], tensors: list[Tensor]) -> Tensor:
    """Return `join` of the tensors. FP8 is joined as bytes, because some versions of torch do not
    join FP8 on a GPU."""
    dtype = tensors[0].dtype
    if dtype != torch.float8_e4m3fn:
        return join(tensors)
    return join([tensor.view(torch.uint8) for tensor in tensors]).view(dtype)


def _traits(part: PackedWeight) -> tuple[Any, ...]:
    dtypes = {name: tensor.dtype for name, tensor in part.parts().items()}
    return part.kind, part.shape[-1], part.block[1], part.fp8_inputs, dtypes


def _same_order(order: Tensor | None, other: Tensor | None) -> bool:
    if order is None or other is None:
        return order is other
    return order is other or order.is_meta or torch.equal(order, other)


def _with_row_scales(part: PackedWeight) -> PackedWeight:
    """Return the matrix with a scale in each row."""
    high, wide = part.block
    rows = part.shape[-2]
    spread: dict[str, Tensor] = {
        name: part.parts()[name].repeat_interleave(high, -2)[..., :rows, :].contiguous()
        for name in ("scales", "zeros")
        if name in part.parts()
    }
    return part._replace(block=(1, wide)).with_parts(spread)
