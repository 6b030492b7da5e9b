"""Part of a tensor of a checkpoint."""

from __future__ import annotations

from typing import NamedTuple

Range = tuple[int, int]


class TensorPart(NamedTuple):
    """Part of a tensor: ranges of one dimension, counted from the last dimension."""

    dim: int  # negative
    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        return sum(end - begin for begin, end in self.ranges)

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the part of a tensor."""
        shape = list(whole)
        shape[self.dim] = self.size
        return tuple(shape)
