"""JSON from untrusted sources: bounded in size, without NaN, repeated keys and extreme numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from ...errors import shown

MAX_CONTAINERS, MAX_COMMAS = 100_000, 200_000
"""Limits per JSON text: the C parser holds the GIL, and many objects trigger a garbage collection.
"""

MAX_DIGITS = 1000
MAX_EXPONENT = 308  # of a double

_BLANKS = " \t\n\r"


class InvalidAnswer(Exception):
    """A text is not JSON, or not a value of its schema. The message completes "is not"."""


def read_json(text: str) -> Any:
    """Parse JSON strictly: no NaN, no repeated keys, no numbers beyond the range of a double.

    Args:
        text: JSON text.

    Returns:
        The value; numbers with a point or an exponent are `Decimal`.

    Raises:
        InvalidAnswer: the text is not strict JSON, or exceeds the limits.
    """
    value, end = read_prefix(text)
    if text[end:].strip(_BLANKS):
        raise InvalidAnswer(f"JSON: a value and {shown(text[end : end + 60])} after it")
    return value


def read_prefix(text: str) -> tuple[Any, int]:
    """Parse the JSON value at the start of `text`.

    Args:
        text: JSON value, followed by any text.

    Returns:
        The value, and the index of its end.

    Raises:
        InvalidAnswer: see `read_json`.
    """
    if text.count("[") + text.count("{") > MAX_CONTAINERS or text.count(",") > MAX_COMMAS:
        raise InvalidAnswer(f"JSON of at most {MAX_CONTAINERS:,} arrays and objects")
    try:
        return _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
    except RecursionError:
        raise InvalidAnswer("JSON of a depth that can be read") from None
    except ValueError as error:
        raise InvalidAnswer(f"JSON: {error}") from None


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:  # an exponent beyond the limits of Decimal
        number = None
    if number is None or len(text) > MAX_DIGITS or abs(number.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"the number {text:.40} is out of range")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {text:.40}... is out of range")
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same key twice")
    return members


_DECODER = json.JSONDecoder(
    parse_float=_decimal,
    parse_int=_integer,
    parse_constant=_refuse_constant,
    object_pairs_hook=_object,
)
