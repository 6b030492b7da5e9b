r"""Character sets of `[...]`, `.`, \d and plain letters, under the flags of the pattern.

Flags are the active inline flags as letters: i, m, s, x and a.
"""

from __future__ import annotations

from functools import lru_cache

from ..syntax import Ranges
from .characters import (
    SCALARS,
    category,
    complement,
    ecmascript_category,
    ignore_case,
    intersection,
    union,
)
from .pattern_reader import PatternReader

Flags = frozenset[str]

_LINE_BREAK: Ranges = ((10, 10),)
_ECMASCRIPT_LINE_BREAKS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))


def any_character(flags: Flags, portable: bool) -> Ranges:
    """Return the characters that the dot matches.

    Args:
        flags: active flags.
        portable: True for the common subset of Python and ECMAScript.
    """
    if "s" in flags:
        return SCALARS
    return complement(_ECMASCRIPT_LINE_BREAKS if portable else _LINE_BREAK)


@lru_cache(maxsize=4096)
def characters(
    members: Ranges, letters: str, negated: bool, flags: Flags, portable: bool
) -> Ranges:
    """Return the characters that a class matches. Ignoring case adds nothing to a category, as in
    `re`.

    Args:
        members: characters and ranges of the class.
        letters: letters of category escapes in the class.
        negated: True for `[^...]`.
        flags: active flags.
        portable: True for the common subset of Python and ECMAScript.
    """
    ascii_only = "a" in flags
    ranges = ignore_case(members, ascii_only) if "i" in flags else members
    for letter in letters:
        category_ranges = category(letter, ascii_only)
        if portable:
            category_ranges = (union if negated else intersection)(
                category_ranges, ecmascript_category(letter)
            )
        ranges = union(ranges, category_ranges)
    return complement(ranges) if negated else ranges


def check_scalar(reader: PatternReader, code: int, column: int) -> int:
    """Return the code point if it is a scalar value.

    Args:
        reader: pattern, for the error message.
        code: code point.
        column: position in the pattern, from 0.

    Raises:
        GrammarError: the code point is a surrogate.
    """
    if 0xD800 <= code <= 0xDFFF:
        hint = r"no text contains it; write the whole character, as \Uhhhhhhhh"
        raise reader.error(f"lone surrogate \\u{code:04x}", column, hint)
    return code


def read_class(reader: PatternReader, flags: Flags, portable: bool) -> Ranges:
    """Read the next class, including its brackets, and return its characters.

    Args:
        reader: pattern, positioned at the opening bracket.
        flags: active flags.
        portable: True for the common subset of Python and ECMAScript.
    """
    start = reader.at
    reader.take()
    negated = reader.skip("^")
    if portable and reader.peek == "]":
        hint = r"only Python reads it as a character; write \]"
        raise reader.error("] at the start of a class", reader.at, hint)

    members: list[tuple[int, int]] = []
    letters = ""
    while not (reader.peek == "]" and (members or letters)):
        column = reader.at
        first = _member(reader, start)
        if _range_follows(reader):
            members.append(_range(reader, first, column, start))
        elif isinstance(first, str):
            letters += first
        elif isinstance(first, tuple):
            members += first
        else:
            members.append((check_scalar(reader, first, column),) * 2)

    reader.take()
    ranges = union(members)
    if members and not ranges and not letters and not negated:
        hint = "no text contains surrogates; remove the class"
        raise reader.error("class that contains only surrogates", start, hint)
    return characters(ranges, "".join(sorted(set(letters))), negated, flags, portable)


def _member(reader: PatternReader, start: int) -> int | str | Ranges:
    token = reader.peek
    if not token:
        hint = r"close it with ], or write \[ for the bracket itself"
        raise reader.error("class without its ]", start, hint)
    return reader.escape(inside=True) if token[0] == "\\" else ord(reader.take())


def _range_follows(reader: PatternReader) -> bool:
    """True if the next token is a dash that forms a range, not the last character of the class."""
    return reader.peek == "-" and not reader.pattern.startswith("-]", reader.at)


def _range(
    reader: PatternReader, first: int | str | Ranges, column: int, start: int
) -> tuple[int, int]:
    reader.take()
    last = _member(reader, start)
    hint = r"for the dash itself, write \-"
    if isinstance(first, int) and isinstance(last, int):
        if first <= last:
            return first, last
        hint = "the first character must not come after the last"
    raise reader.error(f"bad range {reader.pattern[column : reader.at]}", column, hint)
