"""A worker of a fleet: an executor of one engine, and the stream of the engine's events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...errors import EngineError
from ...events import (
    Columns,
    EventLog,
    NodePinned,
    Record,
    RequestFinished,
    RequestQueued,
    StepRan,
)
from ..local import LocalExecutor
from .block_index import BlockIndex
from .fleet_call import FleetCall
from .tree_feed import TreeFeed


def end_reason(executor: LocalExecutor) -> str:
    """Return the reason of the end of an executor's engine; "" while the engine runs."""
    error = executor.engine.failure
    return error.message if error else ""


class FleetWorker:
    """A worker with sent calls.

    Args:
        number: Number of the worker in the fleet.
        executor: Executor of the worker's engine.
        index: The index of all workers.
        log: The log of the fleet, with the clock of all times.

    Attributes:
        engine: Number of the engine in the fleet's log.
        calls: Open calls by run and branch.
        pins: Number of pins in the engine's cache.
        has_answered: A call has got its first token, or has ended.

    Raises:
        EngineError: The engine has ended.
    """

    def __init__(
        self, number: int, executor: LocalExecutor, index: BlockIndex, log: EventLog
    ) -> None:
        self.number, self.executor = number, executor
        self.calls: dict[tuple[str, str], FleetCall] = {}
        self.pins = 0
        self.has_answered = False
        self.engine = log.join(executor.log)
        self._requests: dict[int, FleetCall] = {}  # without a first token, by request
        self._log, self._read_seq = executor.log, executor.log.last
        self._offset = log.ahead_of(executor.log)
        engine = executor.engine
        identity = executor.tokenizer_id, engine.vocab_size
        self._feed = TreeFeed(index, number, *identity, seq=self._read_seq)
        self._restore()

    @property
    def failure(self) -> str:
        """Reason of the engine's end; "" while the engine runs."""
        return end_reason(self.executor)

    def read(self) -> Iterator[tuple[FleetCall, float]]:
        """Apply the new events of the engine to the index. Yield the calls with a first token, and
        the time of the token."""
        records, _ = self._log.read(self._read_seq)
        if not records:
            return
        self._read_seq = records[-1].seq
        self._feed.apply(records)
        for record in records:
            if isinstance(record.event, NodePinned) and record.t > self._pins_since:
                self.pins += record.event.delta
        if self._feed.stale:
            with suppress(EngineError):  # the engine ends
                self._restore()
        for record in records:
            for call in self._first_tokens(record):
                yield call, record.t + self._offset

    def _restore(self) -> None:
        """Replace the index's blocks by a snapshot."""
        snapshot = self.executor.engine.snapshot()
        self._feed.restore(snapshot)
        self._pins_since = snapshot.time
        self.pins = sum(isinstance(event, NodePinned) for event in snapshot.events)

    def _first_tokens(self, record: Record) -> list[FleetCall]:
        """Return the calls with a first token in an event."""
        event: Any = record.event
        if isinstance(event, RequestQueued):
            call = self.calls.get((event.run, event.branch))
            if call is not None and call in (call.group.waiting if call.group else ()):
                self._requests[event.request] = call
        elif isinstance(event, StepRan) and self._requests:
            rows = event.sampled
            sampled = rows.column("request") if isinstance(rows, Columns) else [r[0] for r in rows]
            return [self._requests.pop(number) for number in self._requests.keys() & set(sampled)]
        elif isinstance(event, RequestFinished):
            self._requests.pop(event.request, None)
        return []
