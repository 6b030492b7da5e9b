"""Construction of the next step's batch within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..cache.radix import Ints
from ..step_input import SHORT
from .batch import Batch
from .request import Request

SCORED_CHUNK = 256
"""Tokens per step while prompt log-probabilities are computed: each token needs a row of logits."""


class Growth(NamedTuple):
    """Tokens that running requests have to compute.

    Attributes:
        prefills: Requests with several tokens to compute.
        growing: Requests with tokens without slots.
        num_slots: Number of missing slots.
    """

    prefills: list[Request]
    growing: list[Request]
    num_slots: int

    def take(self, slots: Ints) -> None:
        """Distribute the missing slots, in order."""
        new, first = slots.tolist(), 0
        for request in self.growing:
            begin, end = request.num_slots, request.num_tokens_with_placeholders
            last = first + end - begin
            if last == first + 1:  # as in every decode step: a slice costs several times more
                request.slots[begin] = new[first]
            else:
                request.slots[begin:end] = slots[first:last]
            request.num_slots, first = end, last


class BatchBuilder:
    """Batch under construction: first all running requests with one token by `collect` and `begin`,
    then others by `add`.

    Args:
        budget: Maximum number of tokens of the step.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._has_long = False

    def collect(self, running: Sequence[Request]) -> Growth:
        """Start with the running requests that have one token to compute; `begin` must follow."""
        self.requests: list[Request] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.samples: list[bool] = []

        prefills: list[Request] = []
        growing: list[Request] = []
        num_slots = 0
        for request in running:
            size, computed = request.num_tokens_with_placeholders, request.num_computed
            if size == computed or (size == request.max_len and request.idle):
                continue
            if size == computed + 1:
                self.requests.append(request)
                self.starts.append(computed)
                self.samples.append(size < request.max_len and not request.sealed)
            else:
                prefills.append(request)
            if request.num_slots < size:
                growing.append(request)
                num_slots += size - request.num_slots
        return Growth(prefills, growing, num_slots)

    def begin(self) -> None:
        """Fix the requests with one token each. Requests beyond the budget wait for a later
        step."""
        for column in (self.requests, self.starts, self.samples):
            del column[self.budget :]
        self.lengths = [1] * len(self.requests)
        self.budget -= len(self.requests)

    def add(self, request: Request) -> None:
        """Add the request's next tokens, at most the remaining budget; a block of
        an item may exceed the budget."""
        if self.budget <= 0:
            return
        start, size = request.num_computed, request.num_tokens_with_placeholders
        end = min(size, request.split) if start < request.split else size
        length = min(end - start, self.budget)
        length = min(length, max(0, request.score_from - 1 - start) + SCORED_CHUNK)
        if request.items is not None:
            length = request.items.cut(start, start + length) - start
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
