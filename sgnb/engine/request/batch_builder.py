"""Construction of the next step's batch within a token budget."""

from __future__ import annotations

from ..step_input import SHORT
from .batch import Batch
from .request import Request

SCORED_CHUNK = 256
"""Tokens per step while prompt log-probabilities are computed: each token needs a row of logits."""


class BatchBuilder:
    """Batch under construction: first all requests with one token, then longer ones by `add`.

    Args:
        budget: Maximum number of tokens of the step.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._has_long = False
        self.clear()

    def clear(self) -> None:
        """Remove all requests."""
        self.requests: list[Request] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.samples: list[bool] = []

    def begin(self) -> None:
        """Fix the requests with one token each. Requests beyond the budget wait for a later
        step."""
        for column in (self.requests, self.starts, self.samples):
            del column[self.budget :]
        self.lengths = [1] * len(self.requests)
        self.budget -= len(self.requests)

    def add(self, request: Request) -> None:
        """Add the request's next tokens, at most the remaining budget."""
        if self.budget <= 0:
            return
        start, size = request.num_computed, request.num_tokens_with_placeholders
        length = min(size - start, self.budget)
        length = min(length, max(0, request.score_from - 1 - start) + SCORED_CHUNK)
        self.requests.append(request)
        self.starts.append(start)
        self.lengths.append(length)
        self.samples.append(start + length == size < request.max_len and not request.sealed)
        self.budget -= length
        self._has_long |= length > SHORT

    def batch(self) -> Batch:
        """Return the batch, with requests of at most `SHORT` tokens first."""
        columns = self.requests, self.starts, self.lengths, self.samples
        if self._has_long:
            rows = sorted(zip(*columns, strict=True), key=lambda row: row[2] > SHORT)
            columns = tuple(map(list, zip(*rows, strict=True)))  # type: ignore[assignment]
        return Batch(*columns)
