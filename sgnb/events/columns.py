"""Compact storage of token ids and rows in events. Knows no event kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

_Row = TypeVar("_Row")


class TokenIds(Sequence[int]):
    """Token ids as int32, equal to a tuple of the same ids. Access converts to Python integers."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        """Wrap `data`, the buffer of an int32 array."""
        self._data = data

    @property
    def nbytes(self) -> int:
        return len(self._data)

    @property
    def _ids(self) -> memoryview[int]:
        return memoryview(self._data).cast("i")

    def __len__(self) -> int:
        return len(self._data) // 4

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __getitem__(self, place: Any) -> Any:
        return tuple(self._ids[place]) if isinstance(place, slice) else self._ids[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (TokenIds, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return TokenIds, (self._data,)

    def __repr__(self) -> str:
        return repr(tuple(self))


FEW_ROWS = 8
"""Arrays of at most this length take more memory than a tuple of numbers."""


def _compact(column: Any) -> Any:
    if not hasattr(column, "tolist"):
        return tuple(column)
    return tuple(column.tolist()) if len(column) <= FEW_ROWS else column


def _as_tuple(column: Any) -> tuple[Any, ...]:
    return column if isinstance(column, tuple) else tuple(column.tolist())


class Columns(Sequence[_Row]):
    """Rows of a named tuple class, stored by column; equal to the tuple of rows.

    A log holds millions of rows. The cyclic garbage collector would scan all rows repeatedly and
    stall the engine, but untracks tuples of numbers.
    """

    __slots__ = ("_columns", "_kind")

    def __init__(self, kind: Any, *columns: Iterable[Any]) -> None:
        """Store columns of equal lengths.

        Args:
            kind: Named tuple class of the rows.
            columns: A sequence per field. Arrays longer than `FEW_ROWS` are kept
                without copying and must not change.
        """
        self._kind = kind
        self._columns: tuple[Any, ...] = tuple([_compact(c) for c in columns])

    @property
    def nbytes(self) -> int:
        """Return the approximate size in bytes. A loop, because a generator takes three times as
        long per step."""
        size = 0
        for column in self._columns:
            size += 100 + (32 * len(column) if type(column) is tuple else column.nbytes)
        return size

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns as stored: tuples and arrays."""
        return self._columns

    def column(self, name: str) -> tuple[Any, ...]:
        place: int = self._kind._fields.index(name)
        return _as_tuple(self._columns[place])

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[_Row]:
        return map(self._kind, *map(_as_tuple, self._columns))

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Columns, tuple)):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
