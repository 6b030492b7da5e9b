"""Bounded, append-only event log, shared by all writers and readers of an engine. Does no I/O."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from sys import getsizeof
from typing import Any, NamedTuple

from ..home_process import HomeProcess
from .columns import Columns, TokenIds
from .kinds import EVENT_KINDS, RequestWaits
from .program_kinds import BranchPaused


class Record(NamedTuple):
    """An event with sequence number and time. `seq` counts from 1 without gaps; `t` is in seconds
    since the start of the log."""

    seq: int
    t: float
    event: Any
    engine: int = 0  # 0 for the log's own engine, else the number of a joined log


class Read(NamedTuple):
    """Result of a read: the records after the reader's position, and the number of lost records."""

    records: list[Record]
    lost: int


LOG_MEMORY = 32 << 20
RECORD_BYTES = 200
"""Fixed bytes per record, without the event's variable-size fields."""

_NUMBERS = ("int", "Signed", "float", "bool")

_GROWING = {
    kind: tuple(f.name for f in fields(kind) if f.type not in _NUMBERS)
    for kind in EVENT_KINDS.values()
}
"""Variable-size fields per event kind."""

_SCALAR = {
    kind: attrgetter(*names)
    for kind in EVENT_KINDS.values()
    if len(names := [f.name for f in fields(kind) if f.type in (*_NUMBERS, "str")])
    == len(fields(kind))
    > 1
}
"""Getter of all values, for event kinds with at least two fields, all numbers or strings."""


class EventLog:
    """Bounded, append-only log, safe to use from any thread. Each reader keeps a position (a
    `seq`).

    Records are stored as tuples (time, bytes, event). Kinds in `_SCALAR` are stored as (time,
    bytes, kind name, *values), because the garbage collector untracks tuples of numbers and
    strings.

    Args:
        memory: Approximate limit in bytes. Live readers need only the records of a polling
            interval; older records serve later readers.
    """

    def __init__(self, memory: int = LOG_MEMORY) -> None:
        self.home = HomeProcess("an engine or executor")
        """The process whose threads emit to the log. `emit` does not check it."""
        self._records: deque[tuple[Any, ...]] = deque()
        self._spare = memory
        self._lock = threading.Lock()
        self._begin = time.perf_counter()
        self.last = 0
        self.joined: list[tuple[weakref.ref[EventLog], int]] = []
        """Logs of other engines, each with the last record at the time of the join."""
        self.on_stop: list[Callable[[], None]] = []
        """Called on the emitting thread after each stop of a paused run. Must not block."""

    def emit(self, event: Any, at: float | None = None) -> None:
        """Append `event` and drop the oldest records when full. Does no I/O.

        Args:
            event: Event of a kind in `EVENT_KINDS`.
            at: Time on the clock `time.perf_counter`, for an event of another process; by default
                now. Times in the log never decrease.
        """
        kind = type(event)
        size = RECORD_BYTES
        for name in _GROWING[kind]:
            value = getattr(event, name)
            value_type = type(value)
            if value_type is str:
                size += getsizeof(value)
            elif value_type is Columns or value_type is TokenIds:
                size += value.nbytes
            else:
                size += 60 * len(value)

        values = _SCALAR.get(kind)
        stored = (kind.__name__, *values(event)) if values else (event,)
        with self._lock:
            self.last += 1
            now = time.perf_counter()
            if at is not None:
                latest = self._records[-1][0] if self._records else self._begin
                now = min(now, max(at, latest))
            self._records.append((now, size, *stored))
            self._spare -= size
            while self._spare < 0:
                self._spare += self._records.popleft()[1]

        if kind is BranchPaused or (kind is RequestWaits and event.reason == "paused"):
            for notify in self.on_stop:
                notify()

    def join(self, other: EventLog) -> int:
        """Join the log of another engine: readers of this log also receive the records of `other`.

        Returns:
            The engine number of `other`, from 1; the same number on repeated calls.
        """
        with self._lock:
            for number, (log, _) in enumerate(self.joined, 1):
                if log() is other:
                    return number
            self.joined.append((weakref.ref(other), other.last))
            return len(self.joined)

    def now(self) -> float:
        """Return the seconds since the start of the log."""
        return time.perf_counter() - self._begin

    @property
    def begin(self) -> float:
        """Start of the log on the clock `time.perf_counter`."""
        return self._begin

    def ahead_of(self, other: EventLog) -> float:
        """Return the offset in seconds from times of `other` to times of this log."""
        return other._begin - self._begin

    def read(self, after: int = 0) -> Read:
        """Return the records with seq > `after`, oldest first. Changes no state.

        Args:
            after: Sequence number of the last record already read.

        Raises:
            EngineError: The process is a forked child, where the lock may stay taken.
        """
        self.home.check()
        with self._lock:
            new = self.last - after
            have = min(new, len(self._records))
            last = self.last
            newest = list(itertools.islice(reversed(self._records), have))

        begin = self._begin
        records = [
            Record(
                seq,
                t - begin,
                EVENT_KINDS[stored[0]](*stored[1:]) if len(stored) > 1 else stored[0],
            )
            for seq, (t, _, *stored) in enumerate(reversed(newest), last - have + 1)
        ]
        return Read(records, new - have)
