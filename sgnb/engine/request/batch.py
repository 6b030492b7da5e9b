"""Requests of one step. Built by the scheduler; `step_builder.py` turns a batch into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np

from ..cache.checkpoints import StatePlan
from ..step_input import Longs, Spans
from .request import Request

NO_ROW = -1

_items = attrgetter("items")


class Batch(Spans):
    """Tokens starts[i] .. ends[i] of requests[i]. Only `sample_rows`, `has_cascade` and
    `cache_plans` may change."""

    def __init__(
        self,
        requests: list[Request],
        starts: Sequence[int] | Longs,
        lengths: Sequence[int] | Longs,
        samples: Sequence[bool] | None = None,
    ) -> None:
        self.requests = requests
        self.starts = np.asarray(starts, np.int64)
        self.lengths = np.asarray(lengths, np.int64)
        # True for requests that sample a token
        self.samples = [True] * len(requests) if samples is None else samples
        self.sample_rows = self._ranks()  # row of each request among the samples, or NO_ROW
        self.has_cascade = False  # attention read a shared prefix once for several requests
        self.cache_plans: list[StatePlan] = []  # see `CacheManager.plan`

    def part(self, begin: int, end: int) -> Batch:
        """Return a batch of the requests begin .. end."""
        span = slice(begin, end)
        part = Batch(self.requests[span], self.starts[span], self.lengths[span], self.samples[span])
        part.cache_plans = self.cache_plans[span]
        return part

    @cached_property
    def has_items(self) -> bool:
        """True if a prompt has images, videos or sounds."""
        return any(map(_items, self.requests))

    @property
    def rotary_positions(self) -> Longs:
        """Rotary positions of the rows, int64[num_tokens], or int64[axes, num_tokens] if items have
        axes that differ. Equal to `kv_positions` without items."""
        if not self.has_items:
            return self.kv_positions
        rows = zip(self.requests, self.starts.tolist(), self.ends.tolist(), strict=True)
        spans = [
            np.arange(start, end) if r.items is None else r.items.rotary_span(start, end)
            for r, start, end in rows
        ]
        axes = max(len(span) if span.ndim == 2 else 0 for span in spans)
        if not axes:
            return np.concatenate(spans)
        return np.concatenate([np.broadcast_to(span, (axes, span.shape[-1])) for span in spans], -1)

    def _ranks(self) -> Sequence[int]:
        if all(self.samples):
            return range(len(self.samples))
        ranks = np.cumsum(self.samples) - 1
        rows: list[int] = np.where(self.samples, ranks, NO_ROW).tolist()
        return rows

    def clear(self) -> None:
        """Drop the references to requests; a stale batch then holds only numbers."""
        self.requests = []
