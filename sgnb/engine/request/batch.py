"""Requests of one step. Built by the scheduler; `step_builder.py` turns a batch into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np

from ..cache.checkpoints import StatePlan
from ..cache.radix import Ints
from ..step_input import Longs, Spans, StepInput
from .request import Request
from .rng import first_states

NO_ROW = -1

_items = attrgetter("items")


class DecodeSeries:
    """Consecutive decode steps of the same requests, one token each, without an event in between.

    Row i of a step samples at row i. Created after the first step of the series.

    Attributes:
        requests: The requests.
        ids: Ids of the requests.
        lengths: Number of tokens of each request in a step: 1 for each request.
        first_states: Mixed seeds of the requests, see `rng.first_states`.
        prompt_lengths: Numbers of prompt tokens.
        wants_only_tokens: True if no request wants more than tokens.
        appends_only: True if each new token is only appended, unless a text ends.
        remaining: Number of steps until the first request samples its last token.
        input: Input of a step of the series, for the parts that are equal in all steps. None before
            the first such input, and if other parts change.
    """

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests
        self.ids = np.array([request.id for request in requests], np.int64)
        self.lengths = np.ones(len(requests), np.int64)
        seeds = np.array([request.seed for request in requests], np.uint64)
        self.first_states = first_states(seeds)
        prompt_lengths = [request.num_prompt_tokens for request in requests]
        self.prompt_lengths = np.array(prompt_lengths, np.int64)
        self.wants_only_tokens = all(map(attrgetter("wants_only_tokens"), requests))
        self.appends_only = all(map(attrgetter("appends_only"), requests))
        self.remaining = min([r.max_len - r.num_tokens_with_placeholders for r in requests])
        self.input: StepInput | None = None


class Batch(Spans):
    """Tokens starts[i] .. ends[i] of requests[i]. Only `sample_rows`, `has_cascade` and
    `cache_plans` may change.

    Attributes:
        series: Series that the step belongs to, except for the first step of a series.
        new_slots: KV slot of each token, int32[num_tokens], for a step of a series.
    """

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
        self._count_rows()
        self.ends = self.starts + self.lengths
        self.series: DecodeSeries | None = None
        self.new_slots: Ints | None = None
        # True for requests that sample a token
        self.samples = [True] * len(requests) if samples is None else samples
        self.sample_rows = self._ranks()  # row of each request among the samples, or NO_ROW
        self.has_cascade = False  # attention read a shared prefix once for several requests
        self.cache_plans: list[StatePlan] = []  # see `CacheManager.plan`

    @classmethod
    def repeated(cls, series: DecodeSeries, starts: Longs, new_slots: Ints) -> Batch:
        """Return a step of a series."""
        batch = cls(series.requests, starts, series.lengths)
        batch.series, batch.new_slots = series, new_slots
        return batch

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
        self.requests, self.series = [], None
