"""Search for an ending of a JSON text, because llguidance reports only the allowed next tokens.

Depth-first search, byte by byte, with closing bytes first. The ending is short, but not always the
shortest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_STEPS = 1000
"""Maximum number of search steps, at about 10 µs each."""

HOLD, REST = 0.0005, 0.002
"""Seconds of a search between two rests, and of a rest. llguidance keeps the GIL during the calls
of a search; the rests leave the GIL to the threads that decode."""

_QUOTE, _BACKSLASH = b'"\\'
# punctuation before letters: most patterns can end after their punctuation
_INSIDE = b'":@/.-_0aA '
_OUTSIDE = b'}],0123456789"ntf[-{:'
_ESCAPED = b"nu"
"""Candidate bytes by position, in order of trial."""

_HOST_ENDS = b'aa"', b'.aa"', b'a.aa"', b'@a.aa"'
"""Endings of strings that end in a host name; a search byte by byte would add label after label."""


MOST_TAILS = 200
TAILED = 20
"""Limits on endings taken from a shortest text: number of endings, and number of search steps that
try them. The limits keep an unsuccessful search short."""

_MARK = re.compile(rb'[",}\]]')
_ESCAPE = re.compile(rb"(?s)\\.")


class _JsonPosition:
    """Position in a JSON text: inside a string or not, and after a backslash or not."""

    def __init__(self, in_string: bool, escaped: bool, last: bytes) -> None:
        self.in_string, self.escaped, self.last = in_string, escaped, last

    @classmethod
    def after(cls, text: bytes) -> _JsonPosition:
        """Return the position at the end of a prefix of a JSON text."""
        bare = _ESCAPE.sub(b"", text)
        return cls(bare.count(b'"') % 2 == 1, bare.endswith(b"\\"), text[-1:])

    def then(self, step: bytes) -> _JsonPosition:
        in_string, escaped = self.in_string, self.escaped
        for byte in step:
            if escaped:
                escaped = False
            elif byte == _QUOTE:
                in_string = not in_string
            else:
                escaped = in_string and byte == _BACKSLASH
        return _JsonPosition(in_string, escaped, step[-1:])

    def options(self) -> bytes:
        if self.escaped:
            return _ESCAPED
        if self.in_string and self.last in _INSIDE:  # a repetition rarely helps
            return _INSIDE.replace(self.last, b"") + self.last
        return _INSIDE if self.in_string else _OUTSIDE


def required_names(schema: str) -> tuple[bytes, ...]:
    """Return all property names that a schema requires anywhere, in JSON spelling.

    Args:
        schema: JSON text of the schema.
    """
    unique_names: dict[str, None] = {}
    waiting = [json.loads(schema)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if isinstance(names := value.get("required"), list):
                unique_names |= dict.fromkeys(name for name in names if isinstance(name, str))
    return tuple(json.dumps(name, ensure_ascii=False)[1:].encode() for name in unique_names)


def find_end(
    inner: Any,
    text: bytes,
    tokens: dict[int, int],
    names: tuple[bytes, ...],
    shortest: bytes | None = None,
) -> bytes | None:
    """Search for bytes that complete a text.

    Args:
        inner: llguidance matcher after `text`; its state changes.
        text: bytes so far.
        tokens: byte -> single-byte token.
        names: property names to try first.
        shortest: a complete text of the grammar, whose endings may fit here too.

    Returns:
        The bytes, or None if the search fails.
    """
    ending = bytearray()
    words, ends, tails = (
        [word for word in group if all(byte in tokens for byte in word)]
        for group in (names, _HOST_ENDS, _tails(shortest or b""))
    )
    positions = [(0, _JsonPosition.after(text))]  # stack of (number of bytes, position)
    candidates = [_steps(inner, positions[0][1], tokens, words, ends, tails)]

    rested = time.perf_counter()

    for tried in range(MOST_STEPS):
        if time.perf_counter() > rested + HOLD:
            time.sleep(REST)
            rested = time.perf_counter()
        if inner.is_accepting():
            return bytes(ending)
        step = next(candidates[-1], None)
        if step is None:
            candidates.pop()
            positions.pop()
            if not candidates:
                return None
            back = len(ending) - positions[-1][0]
            inner.rollback(back)
            del ending[len(ending) - back :]
            continue
        inner.consume_tokens([tokens[byte] for byte in step])
        ending += step
        positions.append((len(ending), positions[-1][1].then(step)))
        tails = tails if tried < TAILED else []
        candidates.append(_steps(inner, positions[-1][1], tokens, words, ends, tails))

    return None


def _tails(text: bytes) -> list[bytes]:
    """Return the endings of a text that start at punctuation, shortest first."""
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
    position: _JsonPosition,
    tokens: dict[int, int],
    words: list[bytes],
    ends: list[bytes],
    tails: list[bytes],
) -> Iterator[bytes]:
    """Yield candidates: the forced bytes; otherwise bytes likely at this position; otherwise any
    allowed byte."""
    forced = bytes(inner.compute_ff_bytes())
    if forced:
        if all(byte in tokens for byte in forced):
            yield forced
        return
    tried = False
    for tail in tails:
        if _ends_with(inner, [tokens[byte] for byte in tail]):
            yield tail

    if position.in_string and not inner.validate_tokens([tokens[_QUOTE]]):
        begun = words if position.last == b'"' else ()
        for word in (*begun, *ends):
            if inner.validate_tokens([tokens[byte] for byte in word]) == len(word):
                tried = True
                yield word

    for byte in position.options():
        if byte in tokens and inner.validate_tokens([tokens[byte]]):
            tried = True
            yield bytes([byte])
    if not tried:
        mask = np.frombuffer(inner.compute_bitmask(), np.uint8)
        for byte, token in tokens.items():
            if byte != 0xFF and mask[token >> 3] >> (token & 7) & 1:
                yield bytes([byte])
