"""How a JSON text can end, found by trying: the library says only what may come next.

Depth first, byte by byte, and at each place first what closes most: so the end that is found is
short, if not always the shortest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_STEPS = 1000
"""Bytes tried, at some 10 µs each."""

_QUOTE, _BACKSLASH = b'"\\'
_INSIDE = b'":@/.-_0aA '  # marks before letters: most patterns end after the marks in them
_OUTSIDE = b'}],0123456789"ntf[-{:'
_ESCAPED = b"nu"
"""Bytes in the order that they are tried where they may follow."""

_HOST_ENDS = b'aa"', b'.aa"', b'a.aa"', b'@a.aa"'
"""Of strings that end in a host's name: byte by byte one would go from label to label."""


MOST_TAILS = 200
TAILED = 20
"""Ends of a shortest text that are tried, and at how many places: a search in vain stays short."""

_MARK = re.compile(rb'[",}\]]')
_ESCAPE = re.compile(rb"(?s)\\.")


class _Place:
    """Where in a JSON text: whether in a string, and after a backslash there."""

    def __init__(self, in_string: bool, escaped: bool, last: bytes) -> None:
        self.in_string, self.escaped, self.last = in_string, escaped, last

    @classmethod
    def after(cls, text: bytes) -> _Place:
        """At the end of the beginning of a JSON text."""
        bare = _ESCAPE.sub(b"", text)
        return cls(bare.count(b'"') % 2 == 1, bare.endswith(b"\\"), text[-1:])

    def then(self, step: bytes) -> _Place:
        in_string, escaped = self.in_string, self.escaped
        for byte in step:
            if escaped:
                escaped = False
            elif byte == _QUOTE:
                in_string = not in_string
            else:
                escaped = in_string and byte == _BACKSLASH
        return _Place(in_string, escaped, step[-1:])

    def options(self) -> bytes:
        if self.escaped:
            return _ESCAPED
        if self.in_string and self.last in _INSIDE:  # the same again seldom leads on
            return _INSIDE.replace(self.last, b"") + self.last
        return _INSIDE if self.in_string else _OUTSIDE


def required_names(schema: str) -> tuple[bytes, ...]:
    """The names of properties that a schema requires somewhere, as JSON writes them."""
    found: dict[str, None] = {}
    waiting = [json.loads(schema)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if isinstance(names := value.get("required"), list):
                found |= dict.fromkeys(name for name in names if isinstance(name, str))
    return tuple(json.dumps(name, ensure_ascii=False)[1:].encode() for name in found)


def find_end(
    inner: Any,
    text: bytes,
    tokens: dict[int, int],
    names: tuple[bytes, ...],
    shortest: bytes | None = None,
) -> bytes | None:
    """What may follow after `text`, so that it ends; None if nothing is found.

    inner: the library's matcher after `text`, which is moved. tokens: of single bytes. names: where
    several could follow, these are tried first. shortest: a whole text; its end may fit here too.
    """
    found = bytearray()
    words, ends, tails = (
        [word for word in group if all(byte in tokens for byte in word)]
        for group in (names, _HOST_ENDS, _tails(shortest or b""))
    )
    places = [(0, _Place.after(text))]  # where something was tried: bytes found before, the place
    left = [_steps(inner, places[0][1], tokens, words, ends, tails)]
    for tried in range(MOST_STEPS):
        if inner.is_accepting():
            return bytes(found)
        step = next(left[-1], None)
        if step is None:
            left.pop()
            places.pop()
            if not left:
                return None
            back = len(found) - places[-1][0]
            inner.rollback(back)
            del found[len(found) - back :]
            continue
        inner.consume_tokens([tokens[byte] for byte in step])
        found += step
        places.append((len(found), places[-1][1].then(step)))
        tails = tails if tried < TAILED else []
        left.append(_steps(inner, places[-1][1], tokens, words, ends, tails))
    return None


def _tails(text: bytes) -> list[bytes]:
    """The ends of a text from each of its marks on, the shortest first."""
    return [text[at.start() :] for at in _MARK.finditer(text)][:MOST_TAILS][::-1]


def _ends_with(inner: Any, step: list[int]) -> bool:
    if inner.validate_tokens(step) < len(step):
        return False
    inner.consume_tokens(step)
    ends = bool(inner.is_accepting())
    inner.rollback(len(step))
    return ends


def _steps(
    inner: Any,
    place: _Place,
    tokens: dict[int, int],
    words: list[bytes],
    ends: list[bytes],
    tails: list[bytes],
) -> Iterator[bytes]:
    """What to try here: what is forced, else the bytes of the place, else any that is allowed."""
    forced = bytes(inner.compute_ff_bytes())
    if forced:
        if all(byte in tokens for byte in forced):
            yield forced
        return
    tried = False
    for tail in tails:
        if _ends_with(inner, [tokens[byte] for byte in tail]):
            yield tail
    if place.in_string and not inner.validate_tokens([tokens[_QUOTE]]):
        begun = words if place.last == b'"' else ()
        for word in (*begun, *ends):
            if inner.validate_tokens([tokens[byte] for byte in word]) == len(word):
                tried = True
                yield word
    for byte in place.options():
        if byte in tokens and inner.validate_tokens([tokens[byte]]):
            tried = True
            yield bytes([byte])
    if not tried:
        mask = np.frombuffer(inner.compute_bitmask(), np.uint8)
        for byte, token in tokens.items():
            if byte != 0xFF and mask[token >> 3] >> (token & 7) & 1:
                yield bytes([byte])
