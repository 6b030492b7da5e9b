r"""Translation of ECMAScript's regex syntax to Python's `re`: `\p{L}`, `(?<n>...)`, `\u{1F600}`,
`\cA`.

Knows no trees.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from .characters import complement, union

_PART = re.compile(
    r"\\([pP])\{([^}]*)\}|\\u\{([0-9a-fA-F]{1,6})\}|\\c([A-Za-z])|\\.|\(\?<(?![=!])|[\[\]]", re.S
)
_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M",
    "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Punctuation": "P", "Symbol": "S",
    "Separator": "Z",
}  # fmt: skip


@lru_cache(maxsize=512)
def to_python(pattern: str) -> str:
    """Translate `pattern` to the syntax of Python's `re`.

    Args:
        pattern: pattern in ECMAScript's syntax; constructs without a counterpart stay unchanged.
    """
    inside = False

    def changed(match: re.Match[str]) -> str:
        nonlocal inside
        text, (kind, name, code, control) = match[0], match.groups()
        if kind:
            ranges = _category(_NAMES.get(name.removeprefix("General_Category="), name))
            if not ranges:
                return text
            shown = "".join(map(_shown, complement(ranges) if kind == "P" else ranges))
            return shown if inside else f"[{shown}]"

        if code:
            return f"\\U{int(code, 16):08x}"
        if control:
            return f"\\x{ord(control) % 32:02x}"
        if text == "(?<" and not inside:
            return "(?P<"
        if text in "[]":
            inside = text == "["
        return text

    return _PART.sub(changed, pattern)


def _shown(span: tuple[int, int]) -> str:
    return "-".join(f"\\U{code:08x}" for code in span)


@cache
def _category(name: str) -> tuple[tuple[int, int], ...]:
    """Return the characters whose general category begins with `name`, per Python's Unicode
    version."""
    names = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    return union(
        [
            span
            for key, spans in _categories().items()
            if key.startswith(names) and name
            for span in spans
        ]
    )


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    spans: dict[str, list[tuple[int, int]]] = {}
    begin, previous = 0, unicodedata.category(chr(0))
    for code in range(1, 0x110001):
        kind = unicodedata.category(chr(code)) if code < 0x110000 else ""
        if kind != previous:
            if previous != "Cs":
                spans.setdefault(previous, []).append((begin, code - 1))
            begin, previous = code, kind
    return spans
