"""Input of one step. Built by the scheduler; read by runner, CUDA graphs, sampler and attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..cache.checkpoints import StatePlan
from ..cache.radix import Ints
from .request import Request

Longs = NDArray[np.int64]

SHORT = 16
"""Maximum number of tokens of a short request. Short requests come first in a batch, and attention
processes their tokens as rows, as in decode."""

NO_ROW = -1


class Batch:
    """Tokens starts[i] .. ends[i] of requests[i], one request after the other: the rows of the
    step.

    Requests with at most `SHORT` tokens come first. Only `sample_rows`, `has_cascade` and
    `recurrent_plans` may change.
    """

    def __init__(
        self,
        requests: list[Request],
        starts: Sequence[int] | Longs,
        lengths: Sequence[int] | Longs,
        samples: Sequence[bool] | None = None,
    ) -> None:
        self.requests = requests
        self.starts: Longs = np.asarray(starts, np.int64)  # position of each request's first token
        self.lengths: Longs = np.asarray(lengths, np.int64)
        self.num_tokens = int(self.lengths.sum())  # rows of the step
        # True for requests that sample a token
        self.samples = [True] * len(requests) if samples is None else samples
        self.sample_rows = self._ranks()  # row of each request among the samples, or NO_ROW
        self.has_cascade = False  # attention reads a shared prefix once for several requests
        self.recurrent_plans: list[StatePlan] = []  # per request; empty without recurrent layers

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def is_decode(self) -> bool:
        """True if every request has one token."""
        return self.num_tokens == len(self.requests)

    @cached_property
    def ends(self) -> Longs:
        return self.starts + self.lengths

    @cached_property
    def last_rows(self) -> Longs:
        """Row of each request's last token."""
        return self.lengths.cumsum() - 1

    @cached_property
    def first_rows(self) -> Longs:
        """Row of each request's first token."""
        return self.lengths.cumsum() - self.lengths

    @cached_property
    def num_short(self) -> int:
        """Number of requests with at most `SHORT` tokens."""
        return len(self) if self.is_decode else int((self.lengths <= SHORT).sum())

    @cached_property
    def positions(self) -> Longs:
        """Position of each row in its request, int64[num_tokens]."""
        if self.is_decode:
            return self.starts
        return np.arange(self.num_tokens) + (self.starts - self.first_rows).repeat(self.lengths)

    def tokens(self) -> Ints:
        """Token of each row, int32[num_tokens]; -1 - sample_row for an unread placeholder."""
        if self.is_decode:
            rows = zip(self.requests, self.starts.tolist(), strict=True)
            return np.array([request.token_at(start) for request, start in rows], np.int32)
        spans = zip(self.requests, self.starts.tolist(), self.ends.tolist(), strict=True)
        return np.concatenate([request.span(start, end) for request, start, end in spans])

    def new_slots(self) -> Ints:
        """KV slot written by each row, int32[num_tokens]."""
        if self.is_decode:
            rows = zip(self.requests, self.starts.tolist(), strict=True)
            return np.array([request.slots.item(start) for request, start in rows], np.int32)
        spans = zip(self.requests, self.starts.tolist(), self.ends.tolist(), strict=True)
        return np.concatenate([request.slots[start:end] for request, start, end in spans])

    def part(self, begin: int, end: int) -> Batch:
        """Return a batch of the requests begin .. end."""
        span = slice(begin, end)
        part = Batch(self.requests[span], self.starts[span], self.lengths[span], self.samples[span])
        part.recurrent_plans = self.recurrent_plans[span]
        return part

    def _ranks(self) -> Sequence[int]:
        if all(self.samples):
            return range(len(self.samples))
        ranks = np.cumsum(self.samples) - 1
        rows: list[int] = np.where(self.samples, ranks, NO_ROW).tolist()
        return rows

    def clear(self) -> None:
        """Drop the references to requests; a stale batch then holds only numbers."""
        self.requests = []
