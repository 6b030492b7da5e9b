"""What one step computes. The scheduler makes it once; runner, graphs, sampler and attention take it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .request import Request

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

SHORT = 16
"""Requests with at most so many tokens in a step come first in it: attention takes those tokens as rows, as in decode."""


class Batch:
    """Tokens starts[i] .. ends[i] of requests[i], one request after the other: the rows of the step.

    Requests with at most `SHORT` tokens come first. The numbers do not change; the requests do.
    """

    def __init__(
        self, requests: list[Request], starts: Sequence[int] | Longs, lengths: Sequence[int] | Longs
    ) -> None:
        self.requests = requests
        self.starts: Longs = np.asarray(starts, np.int64)  # position of each request's first token
        self.lengths: Longs = np.asarray(lengths, np.int64)
        self.num_tokens = int(self.lengths.sum())  # rows of the step

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def is_decode(self) -> bool:
        """Whether every request has one token."""
        return self.num_tokens == len(self.requests)

    @cached_property
    def ends(self) -> Longs:
        return self.starts + self.lengths

    @cached_property
    def first_rows(self) -> Longs:
        """The row of each request's first token."""
        return self.lengths.cumsum() - self.lengths

    @cached_property
    def num_short(self) -> int:
        """How many of the requests have at most `SHORT` tokens."""
        return len(self) if self.is_decode else int((self.lengths <= SHORT).sum())

    @cached_property
    def positions(self) -> Longs:
        """Of each row in its request, int64[num_tokens]."""
        if self.is_decode:
            return self.starts
        return np.arange(self.num_tokens) + (self.starts - self.first_rows).repeat(self.lengths)

    def new_slots(self) -> Ints:
        """Where each row's keys and values go, int32[num_tokens]."""
        spans = zip(self.requests, self.starts.tolist(), self.ends.tolist(), strict=True)
        if self.is_decode:
            return np.array([request.slots[start] for request, start, _ in spans], np.int32)
        return np.concatenate([request.slots[start:end] for request, start, end in spans])

    def part(self, begin: int, end: int) -> Batch:
        """The requests begin .. end alone."""
        span = slice(begin, end)
        return Batch(self.requests[span], self.starts[span], self.lengths[span])
