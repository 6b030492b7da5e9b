"""Type-checked fields of answers: a service may send any JSON value in any field."""

from __future__ import annotations

import math
from typing import Any

from ...errors import shown
from .endpoint import Triple
from .guard import Refusal

MAX_COUNT = 2**53
MAX_TEXT = 2**20
"""Maximum number of characters of an answer's texts. Views and logs hold whole texts."""

MAX_NAME = 200
"""Maximum number of characters of a finish reason, an id or a model name."""


def count_of(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def text_of(value: Any) -> str:
    """Return a text, "" for None, without halves of surrogate pairs, which no prompt can have.

    Raises:
        ValueError: `value` is neither.
        Refusal: The text is longer than `MAX_TEXT`.
    """
    if not isinstance(value, str | None):
        raise ValueError(f"its content is {shown(value)}")
    check_length(len(value or ""))
    return (value or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_length(length: int) -> None:
    """Raise Refusal for texts of more than `MAX_TEXT` characters."""
    if length > MAX_TEXT:
        message = f"its text has more than {MAX_TEXT:,} characters"
        raise Refusal("too large", message, "ask for fewer tokens or samples")


def name_of(value: Any) -> str:
    """Return a short text. Raises ValueError as `text_of`."""
    return text_of(value)[:MAX_NAME]


def logprob_of(value: Any) -> float | None:
    """Return a log-probability, None for None. Raises ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"a log-probability is {shown(value)}")
    return float(value)


def score_of(value: Any) -> float:
    """Return a log-probability of a choice's token. Raises ValueError for anything else."""
    logprob = logprob_of(value)
    if logprob is None:
        raise ValueError("a choice has a token without a log-probability")
    return logprob


def triple_of(row: Any) -> Triple:
    """Return SGLang's (log-probability, token, text). Raises ValueError for anything else."""
    if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[1], int):
        raise ValueError(f"a token's log-probability is {shown(row)}")
    return logprob_of(row[0]), row[1], None if row[2] is None else text_of(row[2])
