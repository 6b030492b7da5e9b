"""Fast path for a decode step that repeats the last step: the same requests, one token each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.manager import CacheManager
from .batch import Batch
from .request import Request


class PlainDecode:
    """Series of decode steps of all running requests, without an event in between."""

    def __init__(self) -> None:
        self._next: _Decode | None = None
        self._requests: list[Request] | None = None  # of the last plain decode step

    def clear(self) -> None:
        """End the series, because a request starts, ends or is rewritten."""
        self._next = self._requests = None

    def next_batch(self, cache: CacheManager, max_tokens: int) -> Batch | None:
        """Return the next step of the series, with its slots. Return None without a series, beyond
        `max_tokens`, and if memory is missing."""
        decode, self._next = self._next, None
        if decode is None or len(decode.requests) > max_tokens:
            return None
        requests, starts = decode
        allocated = cache.allocate(len(requests))
        if allocated is None:
            return None
        for request, start, slot in zip(requests, starts.tolist(), allocated.tolist(), strict=True):
            request.slots[start] = slot
            request.num_slots = start + 1
        return Batch(requests, starts, np.ones(len(requests), np.int64))

    def includes(self, batch: Batch) -> bool:
        """Return whether a step repeats the last plain decode step."""
        return batch.requests is self._requests

    def record(self, batch: Batch, last: list[Request], num_running: int) -> None:
        """Record a launched step.

        Args:
            batch: The step.
            last: Requests whose last token the step samples.
            num_running: Number of running requests.
        """
        if self._goes_on(batch, last, num_running):
            self._next = _Decode(batch.requests, batch.ends)

    def _goes_on(self, batch: Batch, last: list[Request], num_running: int) -> bool:
        """Return whether the next step decodes the same requests: one token and slot each, beyond
        the prompt and without scores."""
        if last or not batch.requests or not batch.is_decode or len(batch) != num_running:
            return False
        if self.includes(batch):
            return True
        rows = zip(batch.requests, batch.starts.tolist(), batch.samples, strict=True)
        plain = all(
            samples
            and request.num_prompt_tokens <= start == request.num_slots - 1
            and not request.params.return_logprob
            and not request.params.num_alternatives
            for request, start, samples in rows
        )
        self._requests = batch.requests if plain else None
        return plain


class _Decode(NamedTuple):
    """A decode step of all running requests that may follow the last step."""

    requests: list[Request]
    starts: NDArray[np.int64]


def complete_decode(batch: Batch) -> list[Request]:
    """Fast twin of `Scheduler.complete` for a batch that repeats the last plain decode."""
    last = []
    rows = zip(batch.requests, batch.ends.tolist(), batch.sample_rows, strict=True)
    for request, end, row in rows:
        request.num_computed = end
        request.sample_row = row
        request.num_tokens_with_placeholders = end = end + 1
        if end == request.max_len:
            last.append(request)
    return last
