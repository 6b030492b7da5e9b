"""The bounded log that everyone emits to and reads from."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque
from dataclasses import fields
from operator import attrgetter
from sys import getsizeof
from typing import Any, NamedTuple

from .columns import Columns, Tokens
from .kinds import EVENT_KINDS


class Record(NamedTuple):
    """`seq` counts from 1 without gaps; `t` is seconds since the log began."""

    seq: int
    t: float
    event: Any
    engine: int = 0  # whose record it is: 0, the log's own, or that of a log that joined it


class Read(NamedTuple):
    """What a reader got: the records after its place, and how many it lost because it was slow."""

    records: list[Record]
    lost: int


LOG_MEMORY = 32 << 20
RECORD_BYTES = 200
"""What a record takes beside what grows with its event."""

_NUMBERS = ("int", "Signed", "float", "bool")

_GROWING = {
    kind: tuple(f.name for f in fields(kind) if f.type not in _NUMBERS)
    for kind in EVENT_KINDS.values()
}
"""The fields of an event that can be of any size."""

_SCALAR = {
    kind: attrgetter(*names)
    for kind in EVENT_KINDS.values()
    if len(names := [f.name for f in fields(kind) if f.type in (*_NUMBERS, "str")])
    == len(fields(kind))
    > 1
}
"""The getter of all values of an event that has only numbers and strings, two or more."""


class EventLog:
    """Bounded, append-only, safe to use from any thread. Readers keep their own place (a `seq`).

    memory: bytes that the records may take, about. A reader that follows the log needs the records
    of its interval; what is left before them is for whoever begins to read later.

    A record is kept as a tuple (time, bytes, event), or, of `_SCALAR` kinds, as (time, bytes, the
    kind's name, *values): the garbage collector untracks tuples of numbers and strings.
    """

    def __init__(self, memory: int = LOG_MEMORY) -> None:
        self._records: deque[tuple[Any, ...]] = deque()
        self._spare = memory
        self._lock = threading.Lock()
        self._begin = time.perf_counter()
        self.last = 0
        self.joined: list[tuple[weakref.ref[EventLog], int]] = []
        """The logs of other engines, each with the last record that it had when it joined."""

    def emit(self, event: Any) -> None:
        """Append `event`. Drops the oldest records when full. Does no I/O."""
        kind = type(event)
        size = RECORD_BYTES
        for name in _GROWING[kind]:
            value = getattr(event, name)
            held = type(value)
            if held is str:
                size += getsizeof(value)
            elif held is Columns or held is Tokens:
                size += value.nbytes
            else:
                size += 60 * len(value)
        values = _SCALAR.get(kind)
        kept = (kind.__name__, *values(event)) if values else (event,)
        with self._lock:
            self.last += 1
            self._records.append((time.perf_counter(), size, *kept))
            self._spare -= size
            while self._spare < 0:
                self._spare += self._records.popleft()[1]

    def join(self, other: EventLog) -> int:
        """Whoever follows this log follows `other` too from now on, see `Reader`. The number of its
        engine, from 1; the same one each time."""
        with self._lock:
            for number, (log, _) in enumerate(self.joined, 1):
                if log() is other:
                    return number
            self.joined.append((weakref.ref(other), other.last))
            return len(self.joined)

    def now(self) -> float:
        """Seconds since the log began."""
        return time.perf_counter() - self._begin

    def ahead_of(self, other: EventLog) -> float:
        """Seconds to add to the other's times for those of this log."""
        return other._begin - self._begin

    def read(self, after: int = 0) -> Read:
        """The records with seq > `after`, oldest first. Changes nothing."""
        with self._lock:
            new = self.last - after
            have = min(new, len(self._records))
            last = self.last
            found = list(itertools.islice(reversed(self._records), have))
        begin = self._begin
        records = [
            Record(seq, t - begin, EVENT_KINDS[kept[0]](*kept[1:]) if len(kept) > 1 else kept[0])
            for seq, (t, _, *kept) in enumerate(reversed(found), last - have + 1)
        ]
        return Read(records, new - have)
