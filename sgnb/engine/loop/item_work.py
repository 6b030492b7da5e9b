"""Encoding of images, videos and sounds between the steps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..device.faults import is_device_lost
from ..items import EncoderQueue, EngineItem
from ..request.request_state import Finish, RequestState
from .endings import failed
from .journal import Journal


class ItemWork:
    """Items of waiting requests and their rows, logged. Does nothing for a model of text."""

    def __init__(self, encoder: EncoderQueue | None, journal: Journal) -> None:
        self._encoder, self._journal = encoder, journal

    def __bool__(self) -> bool:
        """True if items wait."""
        return bool(self._encoder)

    def run(self, states: Iterable[RequestState]) -> list[tuple[RequestState, Finish]]:
        """Encode the next items. Returns the requests of `states` with an item that cannot be
        encoded. Raises the error of a lost device."""
        if not self._encoder:
            return []
        began = time.perf_counter()
        encoded, failures = self._encoder.run()
        if encoded:
            self._journal.encoded(encoded, time.perf_counter() - began)

        ends = []
        for item, error in failures:
            if is_device_lost(error):
                raise error
            finish = failed(error, "an image, video or sound cannot be encoded")
            ends += [(state, finish) for state in states if _has(state, item)]
        return ends

    def statistics(self) -> dict[str, Any]:
        """See `EncoderQueue.statistics`."""
        return {} if self._encoder is None else self._encoder.statistics()

    def flush(self) -> None:
        """Drop unused rows."""
        if self._encoder is not None:
            self._encoder.flush()

    def drop(self) -> None:
        """Drop all rows, because the weights changed. No request may be running."""
        if self._encoder is not None:
            self._encoder.drop()


def _has(state: RequestState, item: EngineItem) -> bool:
    request = state.request
    if request.items is None:
        return False
    placed = request.items.items if request.node is None else request.items_in_use
    return any(each.item is item for each in placed)
