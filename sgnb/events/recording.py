"""Recorded logs: JSON Lines files with one event per line. The live page reads the same format.

The rows of a step are stored by column: `"sampled": {"request": [...], "token": [...], ...}`. Knows
no engine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import repeat
from pathlib import Path
from types import GenericAlias
from typing import Any, get_type_hints

from ..codec import build, parse, reading, writer
from ..errors import shown
from ..latch import Latch
from .columns import Columns
from .event_log import EventLog, Record
from .kinds import (
    EVENT_KINDS,
    Alternatives,
    AutomatonDrawn,
    Extended,
    Jumped,
    Masked,
    NodeAdded,
    Sampled,
    StepRan,
    TokensNamed,
)
from .program_kinds import (
    BranchStarted,
    ChoiceMade,
)
from .reader import LogReader


class Recorder:
    """Background thread that writes a log and all joined logs to a JSON Lines file.

    Use as a context manager, or call `close`.

    Args:
        log: Log to record.
        path: File to create or overwrite.
        after: Sequence number of the last record to skip.
    """

    def __init__(self, log: EventLog, path: str | Path, after: int = 0) -> None:
        self.path = Path(path)
        self.lost = 0
        self._reader = LogReader(log, after)
        self._file = self.path.open("w", encoding="utf-8")
        self._stop = Latch()
        self._thread = threading.Thread(target=self._run, name="sgnb-recorder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._drain()

    def _drain(self) -> None:
        records, lost = self._reader.read()
        self.lost += lost
        self._file.writelines(encode(record) + "\n" for record in (*self._reader.before, *records))

    def close(self) -> None:
        """Write the remaining records and close the file. Idempotent."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._drain()
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def encode(record: Record) -> str:
    """Encode a record as one line of JSON."""
    event = record.event
    kind = type(event)
    line = {"seq": record.seq, "t": round(record.t, 6), "kind": kind.__name__}
    if record.engine:
        line["of_engine"] = record.engine
    for name in _NAMES[kind]:
        line[name] = getattr(event, name)
    if kind is StepRan:
        for name, row in ROWS.items():
            line[name] = _columns(row, line[name])
    return _write(line)


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in EVENT_KINDS.values()}
_write = writer(default=list, separators=(",", ":"))


ROWS = {"extended": Extended, "sampled": Sampled, "masked": Masked}
"""Fields of `StepRan` with rows, and the row types."""

_COLUMNS: dict[type, dict[str, Any]] = {
    row: {
        name: GenericAlias(tuple, (hint, ...))
        for name, hint in get_type_hints(row, include_extras=True).items()
    }
    for row in ROWS.values()
}


def _columns(kind: Any, rows: Any) -> dict[str, tuple[Any, ...]]:
    if isinstance(rows, Columns):
        return {name: rows.column(name) for name in kind._fields}
    return dict(zip(kind._fields, zip(*rows, strict=True) if rows else repeat(()), strict=False))


@dataclass
class _Head:
    """Keys of a line that precede the event's fields."""

    seq: int
    t: float
    kind: str
    of_engine: int = 0


def decode(line: str | bytes) -> Record:
    """Decode a line written by `encode`.

    Raises:
        RecordError: The line is damaged, or the kind is unknown.
    """
    with reading("the line", _HINT):
        record = _record(parse(line))
        if record is None:
            raise ValueError("its kind is unknown")
    return record


def load(path: str | Path) -> Iterator[Record]:
    """Read a file written by `Recorder`; skip unknown kinds.

    Raises:
        RecordError: A line is damaged.
    """
    with Path(path).open("rb") as file:
        yield from replay(file, str(path))


def replay(lines: Iterable[str | bytes], source: str = "the recording") -> Iterator[Record]:
    """Decode lines; skip unknown kinds.

    Args:
        lines: Lines of a recording.
        source: Name of the recording in error messages.

    Raises:
        RecordError: A line is damaged; the message has the line number.
    """
    for number, line in enumerate(lines, 1):
        with reading(f"line {number} of {source}", _HINT):
            record = _record(parse(line))
        if record is not None:
            yield record


_HINT = "Use a file that events.Recorder or trace.save has written."


def _record(line: Any) -> Record | None:
    """Decode the keys of a line. Return None for an unknown kind; raise ValueError for a damaged
    line."""
    head = build(_Head, line)
    kind = EVENT_KINDS.get(head.kind)
    if kind is None:
        return None
    if kind is StepRan:
        rows: dict[str, Any] = {name: _rows(row, line[name]) for name, row in ROWS.items()}
        event = replace(build(StepRan, line | dict.fromkeys(ROWS, ())), **rows)
    else:
        event = build(kind, line)
    _check(event)
    return Record(head.seq, head.t, event, head.of_engine)


def _rows(kind: Any, table: Any) -> Columns[Any]:
    """Build rows from a mapping of column names to values."""
    columns = [build(column, table[name]) for name, column in _COLUMNS[kind].items()]
    if len(set(map(len, columns))) > 1:
        raise ValueError(f"the columns of {kind.__name__} have different lengths")
    return Columns(kind, *columns)


def _check(event: Any) -> None:
    """Raise ValueError if fields of the event contradict each other."""
    match event:
        case TokensNamed():
            _check_lengths(event, "ids", "pieces")
            "".join(event.pieces).encode("latin-1")
        case Jumped():
            event.data.encode("latin-1")
        case Alternatives():
            _check_lengths(event, "tokens", "logprobs", "allowed")
        case ChoiceMade():
            _check_lengths(event, "choices", "scores")
        case NodeAdded() if not event.tokens:
            raise ValueError("a node without tokens")
        case BranchStarted() if event.parent and not event.branch.startswith(f"{event.parent}."):
            raise ValueError(f"{shown(event.parent)} is not the parent of {shown(event.branch)}")
        case AutomatonDrawn():
            _check_drawing(event)


def _check_drawing(event: AutomatonDrawn) -> None:
    _check_lengths(event, "states", "columns", "rows")
    _check_lengths(event, "starts", "targets", "ways", "parts", "tracks")
    _check_lengths(event, "texts", "paths")
    sizes = {
        "columns": len(event.states),
        "rows": len(event.states),
        "starts": len(event.states),
        "targets": len(event.states),
        "ways": len(event.texts),
        "parts": len(event.part_names),
        "tracks": len(event.starts),
    }

    for name, size in sizes.items():
        if max(getattr(event, name), default=-1) >= size:
            raise ValueError(f"{name}: {max(getattr(event, name))} is outside of {size}")
    if not event.states or not all(paths and all(map(any, paths)) for paths in event.paths):
        raise ValueError("a drawing without states, or an edge without a path")


def _check_lengths(event: Any, *names: str) -> None:
    if len({len(getattr(event, name)) for name in names}) > 1:
        raise ValueError(f"{', '.join(names)} have different lengths")
