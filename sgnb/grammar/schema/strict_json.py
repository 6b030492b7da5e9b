"""JSON from untrusted sources: bounded in size, without NaN, repeated keys and extreme numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, NoReturn

from ...errors import shown
from ...sequences import exceeds_depth

MAX_CONTAINERS, MAX_COMMAS = 100_000, 200_000
"""Limits per JSON text: the C parser holds the GIL, and many objects trigger a garbage collection.
"""

MAX_DEPTH = 500
"""Maximum number of nested arrays and objects."""

_TOO_DEEP = f"JSON of at most {MAX_DEPTH} levels"
_BLANKS = " \t\n\r"


class NumberLimits(NamedTuple):
    """Limits of the numbers in a JSON text."""

    digits: int  # of a number without a point and without an exponent
    decimal_digits: int  # of other numbers
    exponent: int


DOUBLES = NumberLimits(digits=1000, decimal_digits=1000, exponent=308)


class InvalidAnswer(Exception):
    """A text is not JSON, or not a value of its schema. The message completes "is not"."""


def read_json(text: str, limits: NumberLimits = DOUBLES) -> Any:
    """Parse JSON strictly: no NaN, no repeated keys, no numbers beyond the limits.

    Args:
        text: JSON text.
        limits: limits of the numbers; by default the range of a double.

    Returns:
        The value; numbers with a point or an exponent are `Decimal`.

    Raises:
        InvalidAnswer: the text is not strict JSON, or exceeds the limits.
    """
    value, end = read_prefix(text, limits)
    if text[end:].strip(_BLANKS):
        raise InvalidAnswer(f"JSON: a value and {shown(text[end : end + 60])} after it")
    return value


def read_prefix(text: str, limits: NumberLimits = DOUBLES) -> tuple[Any, int]:
    """Parse the JSON value at the start of `text`.

    Args:
        text: JSON value, followed by any text.
        limits: limits of the numbers.

    Returns:
        The value, and the index of its end.

    Raises:
        InvalidAnswer: see `read_json`.
    """
    if text.count("[") + text.count("{") > MAX_CONTAINERS or text.count(",") > MAX_COMMAS:
        raise InvalidAnswer(f"JSON of at most {MAX_CONTAINERS:,} arrays and objects")
    try:
        value, end = _decoder(limits).raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
    except RecursionError:
        raise InvalidAnswer(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidAnswer(f"JSON: {error}") from None
    if exceeds_depth(value, MAX_DEPTH):
        raise InvalidAnswer(_TOO_DEEP)
    return value, end


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same key twice")
    return members


@cache
def _decoder(limits: NumberLimits) -> json.JSONDecoder:
    def parse_decimal(text: str) -> Decimal:
        try:
            number = Decimal(text)
        except ArithmeticError:  # an exponent beyond the limits of Decimal
            number = None
        if number is None or not (
            len(number.as_tuple().digits) <= limits.decimal_digits
            and abs(number.adjusted()) <= limits.exponent
        ):
            raise ValueError(f"the number {text:.40} is out of range")
        return number

    def parse_integer(text: str) -> int:
        if len(text) > limits.digits:
            raise ValueError(f"the number {text:.40}... is out of range")
        return int(text)

    return json.JSONDecoder(
        parse_float=parse_decimal,
        parse_int=parse_integer,
        parse_constant=_refuse_constant,
        object_pairs_hook=_object,
    )
