"""A log as a file, one JSON object a line; the live page reads the same lines.

The rows of a step are written by column: `"sampled": {"request": [...], "token": [...], ...}`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import repeat
from pathlib import Path
from typing import Any

from ..latch import Latch
from .columns import Columns
from .kinds import EVENT_KINDS, Extended, Masked, Sampled, StepRan
from .log import EventLog, Record
from .reader import Reader


class Recorder:
    """Writes a log, with those that joined it, to a JSON Lines file, on a thread of its own. Close
    it, or use `with`."""

    def __init__(self, log: EventLog, path: str | Path, after: int = 0) -> None:
        self.path = Path(path)
        self.lost = 0
        self._reader = Reader(log, after)
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
        self._file.writelines(encode(one) + "\n" for one in (*self._reader.before, *records))

    def close(self) -> None:
        """Write what is left and close the file. Harmless when repeated."""
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
    """One record as one line of JSON."""
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
    return _encoder.encode(line)


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in EVENT_KINDS.values()}
_encoder = json.JSONEncoder(default=list, separators=(",", ":"))


ROWS = {"extended": Extended, "sampled": Sampled, "masked": Masked}
"""The fields of `StepRan` that hold rows."""


def _columns(kind: Any, rows: Any) -> dict[str, tuple[Any, ...]]:
    if isinstance(rows, Columns):
        return {name: rows.column(name) for name in kind._fields}
    return dict(zip(kind._fields, zip(*rows, strict=True) if rows else repeat(()), strict=False))


def decode(line: str) -> Record:
    """The inverse of `encode`. An unknown kind is a KeyError; `load` skips such lines."""
    body = json.loads(line)
    seq, t, kind = body.pop("seq"), body.pop("t"), body.pop("kind")
    engine = body.pop("of_engine", 0)
    cls = EVENT_KINDS[kind]
    values = {name: _tuples(value) for name, value in body.items()}
    if cls is StepRan:
        for name, row in ROWS.items():
            values[name] = Columns(row, *body[name].values())
    return Record(seq, t, cls(**values), engine)


def load(path: str | Path) -> Iterator[Record]:
    """The records of a file written by `Recorder`, without kinds that this version lacks."""
    with Path(path).open(encoding="utf-8") as file:
        yield from replay(file)


def replay(lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        if json.loads(line)["kind"] in EVENT_KINDS:
            yield decode(line)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
