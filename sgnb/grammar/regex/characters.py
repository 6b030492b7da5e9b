"""Character sets: set operations, classes of Python's `re` and of ECMAScript, case folding.

Knows no pattern syntax. The sets are queried from `re` itself, so they match the Unicode version of
the running Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from ..syntax import Ranges

SCALARS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""All Unicode scalar values: code points without surrogates."""

_ASCII_LETTERS: Ranges = ((0x41, 0x5A), (0x61, 0x7A))

_ECMASCRIPT: dict[str, Ranges] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": (
        (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
        (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
    ),
}  # fmt: skip


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Return the union of the sets, without surrogates.

    Args:
        sets: inclusive ranges in any order.
    """
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pair for pairs in sets for pair in pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return intersection(tuple(merged), SCALARS)


def intersection(a: Ranges, b: Ranges) -> Ranges:
    """Return the characters in both sets.

    Args:
        a: first set.
        b: second set.
    """
    overlaps: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        first, last = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if first <= last:
            overlaps.append((first, last))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(overlaps)


def complement(ranges: Ranges) -> Ranges:
    """Return all characters outside of the set.

    Args:
        ranges: the set.
    """
    gaps: list[tuple[int, int]] = []
    start = 0
    for first, last in ranges:
        gaps.append((start, first - 1))
        start = last + 1
    gaps.append((start, 0x10FFFF))
    return intersection(tuple((first, last) for first, last in gaps if first <= last), SCALARS)


@cache
def category(letter: str, ascii_only: bool = False) -> Ranges:
    r"""Return the characters that \d, \w, \s, \D, \W or \S matches in a str pattern.

    Args:
        letter: letter of the escape.
        ascii_only: True under re.ASCII.
    """
    if letter.isupper():
        return complement(category(letter.lower(), ascii_only))
    return runs(re.compile(rf"\{letter}+", re.ASCII if ascii_only else 0))


def runs(pattern: Any) -> Ranges:
    """Return the characters of all matches in the text of all scalar values, in order.

    Args:
        pattern: compiled pattern of `re` or `regex`, a repeated class.
    """
    return tuple(
        (first + run.start(), first + run.end() - 1)
        for first, last in SCALARS
        for run in pattern.finditer(_text(first, last))
    )


@cache
def ecmascript_category(letter: str) -> Ranges:
    """Return the characters of a category escape in ECMAScript (ECMA-262, CharacterClassEscape).

    Args:
        letter: letter of the escape, as in `category`.
    """
    return complement(_ECMASCRIPT[letter.lower()]) if letter.isupper() else _ECMASCRIPT[letter]


@lru_cache(maxsize=4096)
def ignore_case(ranges: Ranges, ascii_only: bool = False) -> Ranges:
    r"""Return all characters that `ranges` match with re.IGNORECASE, each as a separate pattern.

    Two bugs of `re` (CPython 3.11) are not reproduced. In classes, `re` misses some cased
    characters above U+FFFF: `(?i)[\U00010400x]` matches neither case of the first character,
    although `(?i)\U00010400` does. In ranges that end above U+FFFF, `re` ignores case beyond ASCII
    despite re.ASCII: `(?ai)[é-\U00010428]` matches "\xb5".

    Args:
        ranges: characters.
        ascii_only: True under re.ASCII.
    """
    cased = _ASCII_LETTERS if ascii_only else _cased()
    both = intersection(ranges, cased)
    if not both:
        return ranges
    members = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in both)
    candidates = "".join(_text(first, last) for first, last in cased)
    flags = re.IGNORECASE | (re.ASCII if ascii_only else re.UNICODE)
    return union(ranges, ((ord(c), ord(c)) for c in re.findall(f"[{members}]", candidates, flags)))


@lru_cache(maxsize=1)
def _cased() -> Ranges:
    """Return the characters changed by a case mapping; re.IGNORECASE affects no others."""
    cased: list[tuple[int, int]] = []
    for start, stop in SCALARS:
        for first in range(start, stop + 1, 256):
            block = _text(first, min(first + 255, stop))
            if block.lower() != block or block.upper() != block:
                cased += ((ord(c), ord(c)) for c in block if c.lower() != c or c.upper() != c)
    return union(cased)


def _text(first: int, last: int) -> str:
    import numpy as np  # not needed for most patterns

    return np.arange(first, last + 1, dtype="<u4").tobytes().decode("utf-32-le")
