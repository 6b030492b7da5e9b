"""Removal of API keys from texts: a service may quote the key of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

HIDDEN = "…"

SHORTEST_KEY = 16
"""Characters of a key to hide in answers. Shorter keys may be words, for example "EMPTY"."""

DEEPEST = 12
"""Levels of a cleaned value; deeper parts are left out."""


class Secrets:
    """Texts for messages to hide. Answers hide the texts with the form of a key."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted({text for text in texts if text}, key=len, reverse=True)
        self._keys = [text for text in self._texts if _is_key(text)]
        self._pattern = re.compile("|".join(map(re.escape, self._texts)), re.IGNORECASE)

    def hide(self, text: str) -> str:
        """Return a short text, such as a message, without secrets."""
        return self._pattern.sub(HIDDEN, text) if self._texts else text

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Return an answer without keys: text, JSON values, tuples and dataclasses of them."""
        if isinstance(value, str):
            for key in self._keys:
                value = value.replace(key, HIDDEN)
            return value
        if value is None or isinstance(value, int | float):
            return value
        if depth == DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            cleaned = ((self.clean(k), self.clean(v, depth + 1)) for k, v in value.items())
            return dict(cleaned)
        if isinstance(value, list | tuple):
            return type(value)(self.clean(item, depth + 1) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: self.clean(getattr(value, f.name), depth + 1) for f in fields(value)}
            return replace(value, **parts)
        return value

    def safe_length(self, text: str) -> int:
        """Return the length of `text` up to a possible beginning of a key."""
        held = (n for key in self._keys for n in range(1, len(key)) if text.endswith(key[:n]))
        return len(text) - max(held, default=0)

    def __repr__(self) -> str:
        return f"<{len(self._texts)} secrets>"


def _is_key(text: str) -> bool:
    has_digit, has_letter = any(map(str.isdigit, text)), any(map(str.isalpha, text))
    return len(text) >= SHORTEST_KEY and has_digit and has_letter and " " not in text
