"""Reader that merges a log with joined logs, in order of time. Interprets no events except the end
of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from .event_log import EventLog, Read, Record
from .kinds import EngineStopped, RecordsLost
from .program_kinds import PROGRAM_KINDS


class LogReader:
    """Position in a log and in all joined logs.

    Records of joined logs carry the number of their engine. All times are relative to the main log.
    """

    def __init__(self, log: EventLog, after: int = 0) -> None:
        self._log = log
        self._parts = [_Part(log, 0, after)]
        self.before: list[Record] = []
        """Records from before the join, of logs first seen by the last `read`."""

    def read(self) -> Read:
        """Return the records since the last call, and the number of lost records."""
        until = self._log.now()
        self._meet()
        parts = [part.read(until) for part in self._parts]
        lost = sum(part.lost for part in parts)
        if len(parts) == 1:
            return Read(parts[0].records, lost)
        return Read(list(merge(*(part.records for part in parts), key=attrgetter("t"))), lost)

    def again(self, after: int) -> Read:
        """Return records that were already read.

        Args:
            after: Sequence number in the main log; later records are returned.
        """
        records, lost = LogReader(self._log, after).read()
        places = {part.engine: part.after for part in self._parts}
        return Read(
            [record for record in records if record.seq <= places.get(record.engine, 0)], lost
        )

    def _meet(self) -> None:
        """Add a part for each newly joined log."""
        self.before = []
        for number in range(len(self._parts), len(self._log.joined) + 1):
            reference, last = self._log.joined[number - 1]
            log = reference()
            part = _Part(log, number, 0, 0.0 if log is None else self._log.ahead_of(log))
            self._parts.append(part)
            records, lost = part.read(last=last)
            self.before += [Record(0, 0.0, RecordsLost(lost), number)] if lost else []
            self.before += records


@dataclass(slots=True)
class _Part:
    """Position in one log. `log` is None after garbage collection of the log or the stop of the
    engine."""

    log: EventLog | None
    engine: int
    after: int
    ahead: float = 0.0  # offset to the main log's clock, in seconds

    def read(self, until: float = float("inf"), last: int | None = None) -> Read:
        """Return records up to a time or a seq. Later records wait, because another log may have
        earlier records."""
        if self.log is None:
            return Read([], 0)
        records, lost = self.log.read(self.after)
        until -= self.ahead
        while records and (records[-1].t > until or (last is not None and records[-1].seq > last)):
            records.pop()
        self.after += lost + len(records)
        if not self.engine:
            return Read(records, lost)
        if any(isinstance(record.event, EngineStopped) for record in records):
            self.log = None

        of_engine = (
            record for record in records if type(record.event).__name__ not in PROGRAM_KINDS
        )
        moved = [Record(seq, t + self.ahead, event, self.engine) for seq, t, event, _ in of_engine]
        return Read(moved, lost)
