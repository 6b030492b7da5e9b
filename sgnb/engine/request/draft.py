"""The next step's batch in the making."""

from __future__ import annotations

from .batch import SHORT, Batch
from .request import Request

SCORED_CHUNK = 256
"""Tokens per step where prompt log-probabilities are wanted: each of them needs a row of logits."""


class Draft:
    """First requests of one token, then `add` as the budget allows."""

    def __init__(self, budget: int) -> None:
        """budget: tokens, at most."""
        self.budget = budget
        self._has_long = False
        self.clear()

    def clear(self) -> None:
        self.requests: list[Request] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.samples: list[bool] = []

    def begin(self) -> None:
        """The requests that are there have one token each; those beyond the budget must wait."""
        for column in (self.requests, self.starts, self.samples):
            del column[self.budget :]
        self.lengths = [1] * len(self.requests)
        self.budget -= len(self.requests)

    def add(self, request: Request) -> None:
        """Take the request's next tokens, at most the budget that is left."""
        if self.budget <= 0:
            return
        start, size = request.num_computed, request.num_tokens_with_placeholders
        length = min(size - start, self.budget)
        length = min(length, max(0, request.score_from - 1 - start) + SCORED_CHUNK)
        self.requests.append(request)
        self.starts.append(start)
        self.lengths.append(length)
        self.samples.append(start + length == size < request.max_len and not request.closed)
        self.budget -= length
        self._has_long |= length > SHORT

    def batch(self) -> Batch:
        columns = self.requests, self.starts, self.lengths, self.samples
        if self._has_long:
            rows = sorted(zip(*columns, strict=True), key=lambda row: row[2] > SHORT)
            columns = tuple(map(list, zip(*rows, strict=True)))  # type: ignore[assignment]
        return Batch(*columns)
