"""Weights of several linear modules as one matrix, without keeping them twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Merged(NamedTuple):
    """weight [sum of outputs, K] and bias (or None) of the `sources`, one after the other."""

    weight: Tensor
    bias: Tensor | None
    sources: list[nn.Linear]

    def adopt(self) -> None:
        """Make the sources' own weights views of these, so that their old memory is free and they
        still work."""
        for parameter, part in self._parts():
            parameter.data = part

    def refresh(self) -> None:
        """Copy sources with new memory into the merged tensors. Make these sources views again."""
        for parameter, part in self._parts():
            if parameter.data_ptr() != part.data_ptr():
                part.copy_(parameter.data)
                parameter.data = part

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of a source parameter and the rows of `weight` or `bias` for the parameter."""
        sizes = [source.out_features for source in self.sources]
        weights = (source.weight for source in self.sources)
        yield from zip(weights, self.weight.split(sizes), strict=True)
        if self.bias is not None:
            biases = (source.bias for source in self.sources)
            pairs = zip(biases, self.bias.split(sizes), strict=True)
            yield from ((bias, part) for bias, part in pairs if bias is not None)


def merge(sources: list[nn.Linear]) -> Merged:
    """The weights of the sources, copied; those of a single source as they are."""
    if len(sources) == 1:
        bias = sources[0].bias
        return Merged(sources[0].weight.data, None if bias is None else bias.data, sources)
    weight = torch.cat([source.weight.data for source in sources])
    if all(source.bias is None for source in sources):
        return Merged(weight, None, sources)
    biases = [weight.new_zeros(s.out_features) if s.bias is None else s.bias.data for s in sources]
    return Merged(weight, torch.cat(biases), sources)


def find_linears(module: nn.Module, choices: Sequence[tuple[str, ...]]) -> list[nn.Linear]:
    """The first of the choices of names that are nn.Linear modules of one input; else empty."""
    for names in choices:
        found = [getattr(module, name, None) for name in names]
        linears = [part for part in found if type(part) is nn.Linear]
        if len(linears) == len(names) and len({part.in_features for part in linears}) == 1:
            return linears
    return []
