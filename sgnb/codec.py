"""JSON of saved records: snapshots, graphs, recordings, rows of batches.

Files come from other people. `parse` bounds the depth; `build` checks values against the types of
fields. Both raise ValueError, and `reading` turns the error into a RecordError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache
from inspect import signature
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from .errors import RecordError, shown
from .sequences import exceeds_depth

DEPTH = 200
"""Levels of a document. Printing and copying such a value stays below Python's recursion limit."""

LARGEST = 1e100
"""Sums and products of numbers up to this size are finite."""

T = TypeVar("T")
Decoder = Callable[[Any], Any]


class Range(NamedTuple):
    """Bounds of a number, as metadata of `Annotated`; by default an int is at least 0."""

    low: float
    high: float = LARGEST


@contextmanager
def reading(record: str, hint: str) -> Iterator[None]:
    """Turn the errors of a damaged `record` into a RecordError."""
    try:
        yield
    except RecordError:
        raise
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise RecordError(f"{record} cannot be read: {reason}", hint) from None


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON document of at most `DEPTH` levels."""
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    if _may_be_deep(text) and exceeds_depth(value, DEPTH):
        raise _too_deep()
    return value


def dumps(value: Any, **options: Any) -> str:
    """Return `value` as JSON text for `parse`.

    Args:
        value: plain data.
        options: arguments of `json.JSONEncoder`.

    Raises:
        ValueError: `value` has a cycle or more than `DEPTH` levels.
        TypeError: `value` contains an object other than plain data.
    """
    return writer(**options)(value)


def writer(**options: Any) -> Callable[[Any], str]:
    """Return `dumps` with fixed `options`, for many values."""
    encoder = json.JSONEncoder(**options)

    def write(value: Any) -> str:
        try:
            text = encoder.encode(value)
        except RecursionError:
            raise _too_deep() from None
        if _may_be_deep(text):
            parse(text)
        return text

    return write


def check_version(document: Any, key: str, version: int) -> None:
    """Raise ValueError if a parsed document has another version than `version` at `key`."""
    if document[key] != version:
        raise ValueError(f"{key} is {shown(document[key])}, not {version}")


def build(kind: type[T], value: Any) -> T:
    """Return `value`, a part of a parsed document, as an instance of `kind`.

    A dataclass is read from an object, a named tuple and a tuple from an array. Unknown keys of an
    object are ignored.

    Raises:
        ValueError: a key is missing, or a value does not have the type of its field.
    """
    decoder: Callable[[Any], T] = _decoder(cast(Any, kind))
    return decoder(value)


def _may_be_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > DEPTH


def _too_deep() -> ValueError:
    return ValueError(f"the document has more than {DEPTH} levels")


@cache
def _decoder(kind: Any) -> Decoder:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if kind in (int, float):
        return _number(kind, Range(0 if kind is int else -LARGEST))
    if origin is Annotated:
        return _number(*arguments)
    if origin is Literal:
        return _instance(kind, lambda value: isinstance(value, str) and value in arguments)
    if origin in (Union, UnionType):
        return _union(kind, [_decoder(argument) for argument in arguments])
    if origin is Callable:
        return _instance(kind, callable)
    if origin in (tuple, list, Sequence):
        return _array(origin, arguments)
    if origin is dict:
        return _object(_decoder(arguments[1]))
    if is_dataclass(kind) or issubclass(kind, tuple):
        return _record(kind)
    return _instance(kind, lambda value: type(value) is kind)


def _refusal(value: Any, kind: Any) -> ValueError:
    return ValueError(f"{shown(value)} is not {getattr(kind, '__name__', kind)}")


def _instance(kind: Any, fits: Callable[[Any], bool]) -> Decoder:
    def decode(value: Any) -> Any:
        if not fits(value):
            raise _refusal(value, kind)
        return value

    return decode


def _number(kind: type, bounds: Range) -> Decoder:
    low, high = bounds
    accepted = (int,) if kind is int else (int, float)

    def decode(value: Any) -> Any:
        if type(value) not in accepted or not low <= value <= high:
            raise _refusal(value, f"{kind.__name__} from {low:g} to {high:g}")
        return kind(value)

    return decode


def _union(kind: Any, decoders: Sequence[Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        for decoder in decoders:
            try:
                return decoder(value)
            except ValueError:
                continue
        raise _refusal(value, kind)

    return decode


def _array(kind: type, items: tuple[Any, ...]) -> Decoder:
    """items: the type arguments of a tuple, a list or a sequence, which becomes a tuple."""
    fixed = kind is tuple and ... not in items
    decoders = [_decoder(item) for item in items if item is not ...]
    collect = list if kind is list else tuple

    def decode(value: Any) -> Any:
        if not isinstance(value, list | tuple) or (fixed and len(value) != len(decoders)):
            raise _refusal(value, kind)
        if fixed:
            return tuple(decoder(item) for decoder, item in zip(decoders, value, strict=True))
        return collect(map(decoders[0], value))

    return decode


def _object(decoder: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not dict or not all(type(key) is str for key in value):
            raise _refusal(value, dict)
        return {key: decoder(item) for key, item in value.items()}

    return decode


def _record(kind: Any) -> Decoder:
    """Return a decoder of JSON to `kind`, a dataclass or named tuple. Instances pass unchanged."""

    def decode(value: Any) -> Any:
        if type(value) is kind:
            return value
        decoders, required = _fields(kind)
        is_array = issubclass(kind, tuple) and isinstance(value, list | tuple)
        if is_array and len(value) <= len(decoders):
            value = dict(zip(decoders, value, strict=False))
        if not isinstance(value, dict):
            raise _refusal(value, kind)
        if absent := required - value.keys():
            raise ValueError(f"{kind.__name__} without {sorted(absent)[0]!r}")

        arguments, name = {}, ""
        try:
            for name, decoder in decoders.items():
                if name in value:
                    arguments[name] = decoder(value[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return kind(**arguments)

    return decode


@cache
def _fields(kind: Any) -> tuple[dict[str, Decoder], frozenset[str]]:
    """The decoders of all fields, and the names of required fields."""
    hints = get_type_hints(kind, include_extras=True)
    parameters = signature(kind).parameters.values()
    required = frozenset(field.name for field in parameters if field.default is field.empty)
    return {field.name: _decoder(hints[field.name]) for field in parameters}, required
