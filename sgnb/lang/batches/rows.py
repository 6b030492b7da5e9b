"""Rows of a batch: conversion of the argument of `run_batch` to arguments, and of results to a data
frame. Independent of execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from importlib import import_module
from typing import Any

from ...errors import OptionError, shown
from ..location import caller

Row = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


class Rows:
    """Rows of a batch, for a single iteration.

    Args:
        batch: Argument of `run_batch`.
        known: Columns of a data frame that are arguments; None for all columns.
    """

    def __init__(self, batch: Any, names: Iterable[str] | None) -> None:
        self.batch = batch
        self.total: int | None = None  # number of rows; None for an iterator
        self._rows = iter(self._read(batch, None if names is None else set(names)))

    def __iter__(self) -> Iterator[Row]:
        return map(_row, self._rows)

    def _read(self, batch: Any, names: set[str] | None) -> Iterable[Any]:
        if is_frame(batch):
            as_dicts = getattr(batch, "to_dicts", None)  # method of polars
            records: list[dict[str, Any]] = as_dicts() if as_dicts else batch.to_dict("records")
            self.total = len(records)
            return [
                {name: value for name, value in record.items() if names is None or name in names}
                for record in records
            ]
        if isinstance(batch, Mapping):
            rows = _by_columns(batch)
            self.total = len(rows)
            return rows
        if isinstance(batch, (str, bytes)) or not isinstance(batch, Iterable):
            hint = "give a list of dicts or tuples, a dict of columns, or a data frame"
            raise OptionError(f"{caller()}: {shown(batch)} is no batch", hint)
        if isinstance(batch, Sized):
            self.total = len(batch)
        return batch

    def columns(self, arguments: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Return the columns of the batch's own data frame, or of the arguments."""
        if is_frame(self.batch):
            return {name: list(self.batch[name])[: len(arguments)] for name in self.batch.columns}
        return {name: [row.get(name) for row in arguments] for name in _names(arguments)}

    def results(
        self,
        arguments: Sequence[Mapping[str, Any]],
        variables: Sequence[Mapping[str, Any]],
        **more: list[Any],
    ) -> dict[str, list[Any]]:
        """Return a column per variable and the columns `more`. A name that is taken gets the suffix
        "_out"."""
        names = set(self.batch.columns if is_frame(self.batch) else _names(arguments))
        results = {name: [row.get(name) for row in variables] for name in _names(variables)}
        columns = {}
        for name, values in (*results.items(), *more.items()):
            while name in names:
                name += "_out"
            names.add(name)
            columns[name] = values
        return columns

    def frame(
        self, arguments: Sequence[Mapping[str, Any]], results: Mapping[str, list[Any]]
    ) -> Any:
        """Return a data frame of the rows and results: the batch's own data frame with further
        columns, or a pandas data frame."""
        if hasattr(self.batch, "to_dicts"):
            own = self.batch[: len(arguments)]
            return type(own)({**own.to_dict(), **results}, strict=False)
        if hasattr(self.batch, "assign"):
            rows = getattr(self.batch, "iloc", self.batch)  # pandas slices by labels otherwise
            return rows[: len(arguments)].assign(**results)
        return _pandas().DataFrame({**self.columns(arguments), **results})


def is_frame(batch: Any) -> bool:
    """Return whether `batch` is a data frame of pandas, polars or a compatible library."""
    return hasattr(batch, "to_dict") and hasattr(batch, "columns")


def is_program(value: Any) -> bool:
    """Return whether `value` runs batches. The class of a program is no program."""
    return hasattr(value, "run_batch") and not isinstance(value, type)


def _by_columns(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    for name, column in batch.items():
        if isinstance(column, (str, bytes, Mapping)) or not isinstance(column, Iterable):
            message = f"{caller()}: the batch's column {name!r} is {shown(column)}"
            raise OptionError(message, "a dict holds a list for each argument; one row: [row]")
    columns = {name: list(column) for name, column in batch.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        message = f"{caller()}: the batch's columns have different lengths: {lengths}"
        raise OptionError(message, "a dict holds a list for each argument, all of one length")
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _row(row: Any) -> Row:
    if isinstance(row, Mapping):
        return (), dict(row)
    if isinstance(row, (tuple, list)):
        return tuple(row), {}
    hint = "a batch holds dicts or tuples of arguments"
    raise OptionError(f"{caller()}: {shown(row)} is no set of arguments", hint)


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the distinct keys of all rows, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError:
        hint = "pip install 'sgnb[frame]', or read states.columns(), a dict of lists"
        raise OptionError("a data frame needs pandas, which is not installed", hint) from None
