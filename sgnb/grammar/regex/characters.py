"""Sets of characters: their algebra, classes of Python's `re` and of ECMAScript, case folding.

Knows no syntax of patterns. What `re` means is asked of `re` itself, so that it holds for the
Unicode version of any Python.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable
from functools import cache, lru_cache

from ..syntax import Ranges

SCALARS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""All Unicode scalar values: the code points without the surrogates."""

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
    """The union of sets, each of inclusive ranges in any order; surrogates are left out."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pair for pairs in sets for pair in pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return intersection(tuple(merged), SCALARS)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """The characters in both."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        first, last = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if first <= last:
            found.append((first, last))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for first, last in ranges:
        gaps.append((start, first - 1))
        start = last + 1
    gaps.append((start, 0x10FFFF))
    return intersection(tuple((first, last) for first, last in gaps if first <= last), SCALARS)


@cache
def category(letter: str, ascii_only: bool = False) -> Ranges:
    r"""What \d, \w, \s, \D, \W or \S matches in a str pattern, by its letter."""
    if letter.isupper():
        return complement(category(letter.lower(), ascii_only))
    runs = re.compile(rf"\{letter}+", re.ASCII if ascii_only else 0).finditer
    return tuple(
        (first + run.start(), first + run.end() - 1)
        for first, last in SCALARS
        for run in runs(_text(first, last))
    )


@cache
def ecmascript_category(letter: str) -> Ranges:
    r"""The same for ECMAScript (ECMA-262, CharacterClassEscape)."""
    return complement(_ECMASCRIPT[letter.lower()]) if letter.isupper() else _ECMASCRIPT[letter]


@lru_cache(maxsize=4096)
def ignore_case(ranges: Ranges, ascii_only: bool = False) -> Ranges:
    r"""All that these characters match with re.IGNORECASE, each as a pattern of its own.

    Two errors of `re` itself (CPython 3.11) are not imitated. In classes it loses some cased
    characters above U+FFFF: `(?i)[\U00010400x]` matches neither case of the first, though
    `(?i)\U00010400` does. And in ranges that end there it ignores the case beyond ASCII in spite of
    re.ASCII: `(?ai)[é-\U00010428]` matches "\xb5".
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
    """The characters that some case mapping changes; re.IGNORECASE does nothing for others."""
    found: list[tuple[int, int]] = []
    for start, stop in SCALARS:
        for first in range(start, stop + 1, 256):
            block = _text(first, min(first + 255, stop))
            if block.lower() != block or block.upper() != block:
                found += ((ord(c), ord(c)) for c in block if c.lower() != c or c.upper() != c)
    return union(found)


def _text(first: int, last: int) -> str:
    codec = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    return array("I", range(first, last + 1)).tobytes().decode(codec)
