"""Fast path for a decode step that repeats the last step: the same requests, one token each."""

from __future__ import annotations

from typing import NamedTuple

from ..cache.manager import CacheManager
from ..step_input import Longs
from .batch import Batch, DecodeSeries
from .request import Request


class PlainDecode:
    """Series of decode steps of all running requests, without an event in between."""

    def __init__(self) -> None:
        self._next: _Decode | None = None
        self._series: DecodeSeries | None = None  # of the last decode step

    def clear(self) -> None:
        """End the series, because a request starts, ends or is rewritten."""
        self._next = self._series = None

    def next_batch(self, cache: CacheManager, max_tokens: int) -> Batch | None:
        """Return the next step of the series, with its slots. Return None without a series, beyond
        `max_tokens`, and if memory is missing."""
        decode, self._next = self._next, None
        if decode is None or len(decode.starts) > max_tokens:
            return None
        series, starts = decode
        allocated = cache.allocate(len(starts))
        if allocated is None:
            return None
        rows = zip(series.requests, starts.tolist(), allocated.tolist(), strict=True)
        for request, start, slot in rows:
            request.slots[start] = slot
            request.num_slots = start + 1
        return Batch.repeated(series, starts, allocated)

    def record(self, batch: Batch, last: list[Request], num_running: int) -> None:
        """Record a launched step.

        Args:
            batch: The step.
            last: Requests whose last token the step samples.
            num_running: Number of running requests.
        """
        if last or not batch.requests or not batch.is_decode or len(batch) != num_running:
            return
        series = batch.series
        if series is None or series is not self._series:
            series = self._series = DecodeSeries(batch.requests) if _is_plain(batch) else None
        if series is not None:
            self._next = _Decode(series, batch.ends)


def _is_plain(batch: Batch) -> bool:
    """Return whether all requests of a decode step get one token and slot each in the next step,
    beyond the prompt and without scores."""
    rows = zip(batch.requests, batch.starts.tolist(), batch.samples, strict=True)
    return all(
        samples
        and request.num_prompt_tokens <= start == request.num_slots - 1
        and not request.params.return_logprob
        and not request.params.num_alternatives
        for request, start, samples in rows
    )


class _Decode(NamedTuple):
    """A decode step of all running requests that may follow the last step."""

    series: DecodeSeries
    starts: Longs


def complete_decode(batch: Batch, series: DecodeSeries) -> list[Request]:
    """Fast twin of `Scheduler.complete` for a step of a series."""
    for request, end in zip(batch.requests, batch.ends.tolist(), strict=True):
        request.num_computed = end
        request.num_tokens_with_placeholders = end + 1
    series.remaining -= 1
    if series.remaining:
        return []
    return [r for r in batch.requests if r.num_tokens_with_placeholders == r.max_len]
