"""Weights of linear modules in a storage format, merged without a second copy in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Weight(NamedTuple):
    """Matrix [N, K] of a linear module, or matrices [E, N, K] of experts, in a storage format. Rows
    of data and scales are in the order of the N outputs."""

    data: Tensor
    scales: Tensor | None
    format: WeightFormat

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """Return the matrix in `dtype`; a dense matrix is returned as stored."""
        return self.format.decode(self, dtype)


class WeightFormat(NamedTuple):
    """Storage format: attributes of a module with data and scales, and the decoder. `{matrix}` in
    an attribute stands for the name of a matrix of experts."""

    data: str
    scales: str | None
    decode: Callable[[Weight, torch.dtype], Tensor]

    def read(self, module: nn.Module, matrix: str = "") -> Weight:
        """Return the present weight of `module`, sharing its memory. matrix: name, for experts."""
        data = getattr(module, self.data.format(matrix=matrix)).data
        if self.scales is None:
            return Weight(data, None, self)
        return Weight(data, getattr(module, self.scales.format(matrix=matrix)).data, self)


DENSE = WeightFormat("weight", None, lambda weight, dtype: weight.data)
DENSE_EXPERTS = WeightFormat("{matrix}", None, lambda weight, dtype: weight.data)

FORMATS: dict[type[nn.Module], WeightFormat] = {nn.Linear: DENSE}
"""Storage format of each class of linear modules."""

EXPERT_FORMATS: dict[type[nn.Module], WeightFormat] = {}
"""Storage format of each class of experts modules whose weights are not dense."""


def dense(matrix: Tensor) -> Weight:
    """Return a matrix, or the matrices of experts, as a weight."""
    return Weight(matrix, None, DENSE)


def read_experts(module: Any, matrix: str) -> Weight:
    """Return the matrices [E, N, K] of an experts module by their name, sharing the memory."""
    weight = EXPERT_FORMATS.get(type(module), DENSE_EXPERTS).read(module, matrix)
    return weight._replace(data=weight.data.transpose(1, 2)) if module.is_transposed else weight


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
    def _widths(self) -> list[int]:
        return [self.rows or source.out_features for source in self.sources]

    def adopt(self) -> None:
        """Turn the sources' tensors into views of the merged tensors, and free their memory."""
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
        storage = self.weight.format
        names = [(storage.data, self.weight.data), (storage.scales, self.weight.scales)]
        for name, merged in names:
            if name is not None and merged is not None:
                tensors = [getattr(source, name) for source in self.sources]
                sizes = [self.rows or len(tensor) for tensor in tensors]
                for tensor, part in zip(tensors, merged.split(sizes), strict=True):
                    yield tensor, part[tuple(map(slice, tensor.shape))]
        if self.bias is not None:
            for source, part in zip(self.sources, self.bias.split(self._widths), strict=True):
                if source.bias is not None:
                    yield source.bias, part[: len(source.bias)]


def merge(sources: Sequence[Any]) -> Projection:
    """Concatenate the weights of linear modules of one format; a single source is not copied."""
    storage = FORMATS[type(sources[0])]
    weights = [storage.read(source) for source in sources]
    biases = [None if source.bias is None else source.bias.data for source in sources]
    if len(weights) == 1:
        return Projection(weights[0], biases[0], list(sources))

    data = torch.cat([weight.data for weight in weights])
    scales = [weight.scales for weight in weights if weight.scales is not None]
    weight = Weight(data, torch.cat(scales) if scales else None, storage)
    template = next((bias for bias in biases if bias is not None), None)
    if template is None:
        return Projection(weight, None, list(sources))

    full = [
        template.new_zeros(source.out_features) if bias is None else bias
        for source, bias in zip(sources, biases, strict=True)
    ]
    return Projection(weight, torch.cat(full), list(sources))


def padded(projection: Projection, *, rows: int = 0, columns: int = 0) -> Projection:
    """Return a copy with zeros up to `rows` outputs of each source and `columns` inputs."""
    weight, bias, sources, _ = projection
    height = len(sources) * rows or projection.out_features
    data = weight.data.new_zeros(height, columns or weight.data.shape[1])
    copy = Projection(
        weight._replace(data=data),
        None if bias is None else bias.new_zeros(height),
        sources,
        rows,
    )
    for tensor, view in copy._views():
        view.copy_(tensor.data)
    return copy


def find_linears(module: nn.Module, choices: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return the first choice of names with linear modules of one format and input size, or []."""
    for names in choices:
        parts: list[Any] = [getattr(module, name, None) for name in names]
        kinds = {(FORMATS.get(type(part)), getattr(part, "in_features", None)) for part in parts}
        if len(kinds) == 1 and type(parts[0]) in FORMATS:
            return parts
    return []
