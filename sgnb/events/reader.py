"""A log together with those that joined it, in the order in which things happened."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from .kinds import (
    BranchFinished,
    BranchStarted,
    ChoiceMade,
    ComparisonDone,
    EngineStopped,
    GenerationDone,
    ModelAnswered,
    ModelAsked,
    ProgramCalled,
    RecordsLost,
    RunFinished,
    RunStarted,
    TextAppended,
    VariantRan,
)
from .log import EventLog, Read, Record

OF_PROGRAMS = frozenset(
    (
        *(RunStarted, ProgramCalled, BranchStarted, TextAppended, ModelAsked, ModelAnswered),
        *(GenerationDone, ChoiceMade, BranchFinished, RunFinished, VariantRan, ComparisonDone),
    )
)
"""What programs say. Of those that run on another engine only that one's own log tells."""


class Reader:
    """Keeps its place in a log and in those that joined it. Records of these have the number of
    their engine; all times are the log's own."""

    def __init__(self, log: EventLog, after: int = 0) -> None:
        self._log = log
        self._parts = [_Part(log, 0, after)]
        self.before: list[Record] = []
        """What the logs that the last `read` took in had said until they joined."""

    def read(self) -> Read:
        """The records since the last time, and how many were lost."""
        until = self._log.now()
        self._meet()
        parts = [part.read(until) for part in self._parts]
        lost = sum(part.lost for part in parts)
        if len(parts) == 1:
            return Read(parts[0].records, lost)
        return Read(list(merge(*(part.records for part in parts), key=attrgetter("t"))), lost)

    def again(self, after: int) -> Read:
        """What was read already, from the record after `after` of the log's own on."""
        records, lost = Reader(self._log, after).read()
        places = {part.engine: part.after for part in self._parts}
        return Read([one for one in records if one.seq <= places.get(one.engine, 0)], lost)

    def _meet(self) -> None:
        """Take in the logs that have joined."""
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
    """A place in one log; None for one that nobody has any more, or whose engine has stopped."""

    log: EventLog | None
    engine: int
    after: int
    ahead: float = 0.0  # seconds to add to its times

    def read(self, until: float = float("inf"), last: int | None = None) -> Read:
        """The records up to a time, or up to a seq. Any that come later wait: those of another log
        may come before them."""
        if self.log is None:
            return Read([], 0)
        records, lost = self.log.read(self.after)
        until -= self.ahead
        while records and (records[-1].t > until or (last is not None and records[-1].seq > last)):
            records.pop()
        self.after += lost + len(records)
        if not self.engine:
            return Read(records, lost)
        if any(isinstance(one.event, EngineStopped) for one in records):
            self.log = None
        of_engine = (one for one in records if type(one.event) not in OF_PROGRAMS)
        moved = [Record(seq, t + self.ahead, event, self.engine) for seq, t, event, _ in of_engine]
        return Read(moved, lost)
