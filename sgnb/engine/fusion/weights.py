"""Weights of linear modules, dense or packed, merged without a second copy in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..quantization.modules import QuantizedExperts, QuantizedLinear
from ..quantization.packed import PackedWeight, can_cat, cat
from .kernel_weights import dot_block
from .reduction import Reduce, RowParallelLinear, reduction_of


class DenseWeight(NamedTuple):
    """Matrix [N, K] of a linear module, or matrices [E, N, K] of experts."""

    data: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.data.numel() * self.data.element_size()


Weight = DenseWeight | PackedWeight
"""Matrix of a linear module, or of experts. Rows are in the order of the N outputs."""

LINEARS: tuple[type[nn.Module], ...] = (nn.Linear, RowParallelLinear, QuantizedLinear)
"""Classes of linear modules."""


def decoded(weight: Weight, dtype: torch.dtype) -> Tensor:
    """Return the matrix in `dtype`; a dense matrix is returned as stored."""
    if isinstance(weight, DenseWeight):
        return weight.data
    if weight.values.is_cuda and find_spec("triton") is not None:
        from .decode_kernel import decode

        return decode(weight, dtype)
    return weight.reference(dtype)


def read_linear(module: Any) -> Weight:
    """Return the present weight of a linear module, sharing its memory."""
    if isinstance(module, QuantizedLinear):
        return module.packed()
    return DenseWeight(module.weight.data)


def read_experts(module: Any, matrix: str) -> Weight:
    """Return the matrices [E, N, K] of an experts module by their name, sharing the memory."""
    if isinstance(module, QuantizedExperts) and matrix in module.formats:
        return module.packed(matrix)
    data = getattr(module, matrix).data
    return DenseWeight(data.transpose(1, 2) if module.is_transposed else data)


def decoded_elements(model: nn.Module) -> int:
    """Return the largest number of elements that the packed weights of one module decode to at
    once: of all linear modules of a parent, because fusion merges some, or of all matrices of
    experts, unless a fused forward reads the packed matrices."""
    most = 0

    for module in model.modules():
        weights = [part.packed() for part in module.children() if isinstance(part, QuantizedLinear)]
        if isinstance(module, QuantizedExperts):
            fused = "forward" in vars(module)
            matrices = [module.packed(matrix) for matrix in module.formats]
            weights += [matrix for matrix in matrices if not (fused and dot_block(matrix))]
        most = max(most, sum(math.prod(weight.shape) for weight in weights))
    return most


class Projection(NamedTuple):
    """Weight [sum of outputs, K] and bias of linear modules with one input, concatenated. rows:
    outputs of each source after padding with zeros; 0 without padding."""

    weight: Weight
    bias: Tensor | None
    sources: list[Any]
    rows: int = 0

    @property
    def out_features(self) -> int:
        return sum(self._widths)

    @property
    def reduce(self) -> Reduce | None:
        """Sum over the ranks that completes a product with the weight, before the bias."""
        return reduction_of(self.sources[0])

    @property
    def _widths(self) -> list[int]:
        return [self.rows or source.out_features for source in self.sources]

    def adopt(self) -> None:
        """Turn the sources' tensors into views of the merged tensors, and free their memory."""
        for source in self.sources:
            if isinstance(self.weight, PackedWeight):
                source.block = self.weight.block
        for tensor, view in self._views():
            tensor.data = view

    def refresh(self) -> None:
        """Copy sources with new memory into the merged tensors. Make these sources views again."""
        for tensor, view in self._views():
            if tensor.data_ptr() != view.data_ptr():
                view.copy_(tensor.data)
                tensor.data = view

    def _views(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each tensor of the sources with its rows in the merged tensor."""
        if isinstance(self.weight, PackedWeight):
            yield from self._packed_views(self.weight)
        else:
            tensors = [source.weight for source in self.sources]
            for tensor, part in zip(tensors, self.weight.data.split(self._widths), strict=True):
                yield tensor, part[tuple(map(slice, tensor.shape))]
        if self.bias is not None:
            for source, part in zip(self.sources, self.bias.split(self._widths), strict=True):
                if source.bias is not None:
                    yield source.bias, part[: len(source.bias)]

    def _packed_views(self, weight: PackedWeight) -> Iterator[tuple[Tensor, Tensor]]:
        blocks = [-(-width // weight.block[0]) for width in self._widths]
        for name, merged in weight.parts().items():
            tensors = [getattr(source, name) for source in self.sources]
            if name == "order":  # equal for all sources
                yield from ((tensor, merged) for tensor in tensors)
                continue
            sizes = self._widths if name == "values" else blocks
            yield from zip(tensors, merged.split(sizes), strict=True)


def merge(sources: Sequence[Any]) -> Projection:
    """Concatenate the weights of linear modules of one format; a single source is not copied."""
    weights = [read_linear(source) for source in sources]
    biases = [None if source.bias is None else source.bias.data for source in sources]
    if len(weights) == 1:
        return Projection(weights[0], biases[0], list(sources))

    weight = _cat(weights)
    template = next((bias for bias in biases if bias is not None), None)
    if template is None:
        return Projection(weight, None, list(sources))

    full = [
        template.new_zeros(source.out_features) if bias is None else bias
        for source, bias in zip(sources, biases, strict=True)
    ]
    return Projection(weight, torch.cat(full), list(sources))


def _cat(weights: Sequence[Weight]) -> Weight:
    packed = [weight for weight in weights if isinstance(weight, PackedWeight)]
    if packed:
        return cat(packed)
    return DenseWeight(torch.cat([weight.data for weight in weights]))  # type: ignore[union-attr]


def padded(projection: Projection, *, rows: int = 0, columns: int = 0) -> Projection:
    """Return a copy with zeros up to `rows` outputs of each source and `columns` inputs. Requires a
    dense weight."""
    weight, bias, sources, _ = projection
    assert isinstance(weight, DenseWeight)
    height = len(sources) * rows or projection.out_features
    copy = Projection(
        DenseWeight(weight.data.new_zeros(height, columns or weight.data.shape[1])),
        None if bias is None else bias.new_zeros(height),
        sources,
        rows,
    )
    for tensor, view in copy._views():
        view.copy_(tensor.data)
    return copy


def find_linears(module: nn.Module, choices: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the first choice of names with linear modules that `merge` can merge, or []."""
    for names in choices:
        parts: list[Any] = [getattr(module, name, None) for name in names]
        kinds = {type(part) for part in parts}
        if kinds in ({nn.Linear}, {RowParallelLinear}):
            if len({part.in_features for part in parts}) == 1:
                return parts
        elif kinds == {QuantizedLinear} and can_cat([part.packed() for part in parts]):
            return parts
    return []
