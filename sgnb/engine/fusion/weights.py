"""Weights of several linear modules as one matrix, without keeping them twice."""

from __future__ import annotations

from collections.abc import Sequence
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
        if len(self.sources) == 1:
            return
        sizes = [source.out_features for source in self.sources]
        for source, weight in zip(self.sources, self.weight.split(sizes), strict=True):
            source.weight.data = weight
        if self.bias is not None:
            for source, bias in zip(self.sources, self.bias.split(sizes), strict=True):
                if source.bias is not None:
                    source.bias.data = bias


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
