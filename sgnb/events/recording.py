"""Recorded logs: JSON Lines files with one event per line. The live page reads the same format.

The rows of a step are stored by column: `"sampled": {"request": [...], "token": [...], ...}`. In
prompts and nodes, a pair `[first, count]` stands for consecutive token ids, as of an image. Knows
no engine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
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
    MediaNamed,
    NodeAdded,
    RequestQueued,
    Sampled,
    StepRan,
    TokensNamed,
)
from .program_kinds import (
    BranchStarted,
    ChoiceMade,
    PartsOrdered,
)
from .reader import LogReader
from .tier_kinds import BlocksNamed


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
    elif kind in WITH_RUNS:
        line[WITH_RUNS[kind]] = _packed(getattr(event, WITH_RUNS[kind]))
    return _write(line)


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in EVENT_KINDS.values()}
_write = writer(default=list, separators=(",", ":"))


WITH_RUNS: dict[type, str] = {
    RequestQueued: "prompt",
    NodeAdded: "tokens",
    BlocksNamed: "tokens",
}
"""Fields with pairs for runs of consecutive token ids."""

LEAST_RUN = 16
MAX_TOKENS = 1 << 22
"""Minimum length of such a run, and maximum number of tokens of a field with runs."""

THUMBNAIL = re.compile("[A-Za-z0-9+/]*={0,2}")


def _packed(tokens: Sequence[int]) -> Sequence[Any]:
    """Replace runs of consecutive ids by pairs [first, count]."""
    ids = tuple(tokens)
    # Each run contains eight ids from a multiple of eight on; text has no such eight.
    if all(last - first != 7 for first, last in zip(ids[::8], ids[7::8], strict=False)):
        return ids
    packed, begin = list[Any](), 0
    for i in range(1, len(ids) + 1):
        if i < len(ids) and ids[i] == ids[i - 1] + 1:
            continue
        packed += [[ids[begin], i - begin]] if i - begin >= LEAST_RUN else ids[begin:i]
        begin = i
    return packed


def _unpacked(tokens: Any) -> Any:
    """Return the ids of a list with pairs; other values unchanged, for `build` to refuse."""
    if not isinstance(tokens, list) or not any(isinstance(token, list) for token in tokens):
        return tokens
    ids = list[Any]()
    for token in tokens:
        first, count = build(tuple[int, int], token) if isinstance(token, list) else (token, 1)
        if len(ids) + count > MAX_TOKENS:
            raise ValueError(f"more than {MAX_TOKENS:,} tokens")
        ids += range(first, first + count) if isinstance(token, list) else [token]
    return ids


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
        name = WITH_RUNS.get(kind)
        event = build(kind, line if name is None else line | {name: _unpacked(line[name])})
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
        case PartsOrdered() if sorted(event.order) != list(range(len(event.order))):
            raise ValueError("the order of parts is not a permutation")
        case NodeAdded() if not event.tokens:
            raise ValueError("a node without tokens")
        case BlocksNamed():
            _check_blocks(event)
        case BranchStarted() if event.parent and not event.branch.startswith(f"{event.parent}."):
            raise ValueError(f"{shown(event.parent)} is not the parent of {shown(event.branch)}")
        case AutomatonDrawn():
            _check_drawing(event)
        case MediaNamed():
            _check_media(event)


def _check_media(event: MediaNamed) -> None:
    if event.media not in ("image", "video", "audio"):
        raise ValueError(f"media is {shown(event.media)}, not image, video or audio")
    if not 0 < event.count <= MAX_TOKENS:
        raise ValueError(f"an item of {event.count:,} tokens")
    if not THUMBNAIL.fullmatch(event.thumbnail):
        raise ValueError("thumbnail is not base64")


def _check_blocks(event: BlocksNamed) -> None:
    if not event.parent < event.first or not 0 < event.count <= len(event.tokens):
        raise ValueError(f"{event.count} blocks from {event.first} after {event.parent}")
    if len(event.tokens) % event.count:
        raise ValueError(f"{len(event.tokens)} tokens in {event.count} equal blocks")


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
