r"""Translation of ECMAScript's regex syntax to Python's `re`: `(?<n>...)`, `\u{1F600}`, `\cA`.

Knows no trees. The parser reads `\p{...}` in both syntaxes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PART = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}|\\c([A-Za-z])|\\.|\(\?<(?![=!])|[\[\]]", re.S)


@lru_cache(maxsize=512)
def to_python(pattern: str) -> str:
    """Translate `pattern` to the syntax of Python's `re`.

    Args:
        pattern: pattern in ECMAScript's syntax; constructs without a counterpart stay unchanged.
    """
    inside = False

    def changed(match: re.Match[str]) -> str:
        nonlocal inside
        text, (code, control) = match[0], match.groups()
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
