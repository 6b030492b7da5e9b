"""Thread of an executor: delivers results to programs and sends the next calls."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

_log = logging.getLogger(__name__)

MAX_BATCHED_CALLS = 512
"""Maximum number of deliveries and calls processed before the calls are sent."""

Delivery = Callable[[], None]


class Sendable(Protocol):
    """A call for the engine."""

    @property
    def executor(self) -> Any: ...  # `submit(calls)` sends calls together


_Items = queue.SimpleQueue[list[Delivery] | Sendable | None]


class Mail:
    """Deliveries of results to programs, and calls for the engine, in the order of arrival.

    The results of one step of the engine are one item: the thread wakes once per step, and the
    calls that follow from the results are sent together. A wake-up per result costs more than the
    delivery, because both threads need the GIL.

    Args:
        before_next_step: Runs a function on the engine's thread after the results of the step.
    """

    def __init__(self, before_next_step: Callable[[Delivery], None]) -> None:
        self._before_next_step = before_next_step
        self._items: _Items = queue.SimpleQueue()
        self._results: list[Delivery] = []  # of the present step
        serve = partial(_serve, self._items)
        threading.Thread(target=serve, name="sgnb-programs", daemon=True).start()

    def put(self, delivery: Delivery) -> None:
        """Run `delivery` on the thread."""
        self._items.put([delivery])

    def send(self, call: Sendable) -> None:
        """Send `call` together with the calls that arrive at the same time."""
        self._items.put(call)

    def put_result(self, delivery: Delivery) -> None:
        """Run `delivery` together with other results of the step. Call on the engine's thread."""
        self._results.append(delivery)
        if len(self._results) == 1:
            self._before_next_step(self._put_results)

    def close(self) -> None:
        """End the thread after the items so far."""
        self._items.put(None)

    def _put_results(self) -> None:
        results, self._results = self._results, []
        self._items.put(results)


def _serve(items: _Items) -> None:
    """Deliver results and send calls until None arrives."""
    item = items.get()
    while item is not None:
        calls: list[Sendable] = []
        opened = 0

        while item is not None:
            if isinstance(item, list):
                _deliver(item)
                opened += len(item)
            else:
                calls.append(item)
                opened += 1
            if opened >= MAX_BATCHED_CALLS or items.empty():
                break
            item = items.get()

        if calls:
            logged(partial(calls[0].executor.submit, calls))
        ended = item is None
        del calls, item  # may hold the executor, whose finalizer ends this thread
        item = None if ended else items.get()


def _deliver(results: list[Delivery]) -> None:
    for delivery in results:
        logged(delivery)


def logged(work: Delivery) -> None:
    """Run `work`; log an exception and continue."""
    try:
        work()
    except BaseException:
        _log.exception("a listener of a program's step failed")
