"""Events of an engine as data: arrays travel as bytes, other fields as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ...engine.cache.tree_events import EngineSnapshot
from ...events import (
    EVENT_KINDS,
    BlocksNamed,
    Columns,
    Extended,
    Masked,
    NodeAdded,
    Record,
    RequestQueued,
    Sampled,
    StepRan,
    TokenIds,
)
from .wire import SAME_VERSION, WireError

DTYPES = frozenset({"<i4", "<i8", "<f4", "<f8"})
"""Types of arrays that are accepted."""

_ROWS: dict[str, Any] = {"extended": Extended, "sampled": Sampled, "masked": Masked}
"""Fields of `StepRan` with rows, and the kinds of the rows."""

_TOKENS = {RequestQueued: "prompt", NodeAdded: "tokens", BlocksNamed: "tokens"}
"""Fields with token ids."""


class WireEvent(NamedTuple):
    """An event as data."""

    t: float  # `time.perf_counter` of the host
    kind: str
    values: list[Any]  # of the fields in order


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in EVENT_KINDS.values()}


def encode_event(record: Record, begin: float) -> WireEvent:
    """Return a record as data. begin: start of the log on the clock of the process."""
    event = record.event
    kind = type(event)
    values = [getattr(event, name) for name in _NAMES[kind]]
    if kind is StepRan:
        for name in _ROWS:
            place = _NAMES[kind].index(name)
            values[place] = _encode_rows(values[place])
    elif kind in _TOKENS:
        place = _NAMES[kind].index(_TOKENS[kind])
        values[place] = np.asarray(values[place], "<i4").tobytes()
    return WireEvent(record.t + begin, kind.__name__, values)


WireSnapshot = tuple[int, float, list[WireEvent]]
"""An `EngineSnapshot` as data, with the time of `WireEvent`."""


def encode_snapshot(snapshot: EngineSnapshot, begin: float) -> WireSnapshot:
    """Return a snapshot as data. begin: as in `encode_event`."""
    t = snapshot.time
    events = [encode_event(Record(0, t, event), begin) for event in snapshot.events]
    return snapshot.last, t + begin, events


def _encode_rows(rows: Any) -> list[Any]:
    if not isinstance(rows, Columns):
        return [list(column) for column in zip(*rows, strict=True)]
    return [_encode_column(column) for column in rows.columns]


def _encode_column(column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.dtype.str in DTYPES:
        return column.dtype.str, column.tobytes()
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def decode_event(wire: WireEvent) -> Any:
    """Return the event of received data. Raises WireError for other data."""
    kind = EVENT_KINDS.get(wire.kind)
    try:
        if kind is None:
            raise ValueError("its kind is unknown")
        return _decode(kind, dict(zip(_NAMES[kind], wire.values, strict=True)))
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        message = f"invalid event {wire.kind[:40]!r} from the engine host: {error}"
        raise WireError(message, SAME_VERSION) from None


def _decode(kind: type, values: dict[str, Any]) -> Any:
    arrays: dict[str, Any] = {}
    if kind is StepRan:
        arrays = {name: _decode_rows(row, values[name]) for name, row in _ROWS.items()}
    elif kind in _TOKENS:
        arrays = {_TOKENS[kind]: _decode_tokens(values[_TOKENS[kind]])}
    event: Any = msgspec.convert(values | dict.fromkeys(arrays, ()), kind)
    return replace(event, **arrays) if arrays else event


def _decode_tokens(data: Any) -> Sequence[int]:
    if not isinstance(data, bytes) or len(data) % 4:
        raise ValueError("token ids are not an array of int32")
    return TokenIds(data)


def _decode_rows(row: Any, columns: Any) -> Any:
    decoded = [_decode_column(column) for column in msgspec.convert(columns, list[Any])]
    if not decoded:
        return ()
    if len(decoded) != len(row._fields) or len(set(map(len, decoded))) > 1:
        raise ValueError(f"the columns of {row.__name__} do not fit")
    return Columns(row, *decoded)


def _decode_column(column: Any) -> Any:
    if len(column) == 2 and isinstance(column[1], bytes):
        dtype, data = column
        if dtype not in DTYPES:
            raise ValueError("an array has an unknown type")
        return np.frombuffer(data, dtype)
    return msgspec.convert(column, tuple[int | float | None, ...])
