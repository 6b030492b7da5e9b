"""Search for an ending of a text, because llguidance reports only the allowed next tokens.

Depth-first search in steps of bytes that probably lead to the end. The ending is short, but not
always the shortest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from ...errors import GrammarError
from ...native_calls import native_call
from ..automaton.build_limits import BuildLimits
from ..automaton.text_endings import TextEndings
from ..schema.translate import translate
from ..syntax import Rules
from .shortest import remaining_texts

MOST_STEPS = 1000
"""Maximum number of search steps, at about 10 µs each."""

MOST_PARTS = 100
"""Maximum number of steps in a recursive grammar. Each step tries up to `MOST_REMAINING` parts, and
a try takes milliseconds in an ambiguous grammar."""

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


MOST_REMAINING = 40

MOST_TAILS = 200
TAILED = 20
"""Limits on endings taken from a shortest text: number of endings, and number of search steps that
try them. The limits keep an unsuccessful search short."""

_MARK = re.compile(rb'[",}\]]')
_ESCAPE = re.compile(rb"(?s)\\.")
_LAST_STRING = re.compile(rb'(?s)"(?:[^"\\]|\\.)*\\?\Z')

MOST_STRINGS = 16
_STRING_LIMITS = BuildLimits(positions=20_000, building=4_000, work=100_000)
"""Limits of the endings of strings: number of strings, and size and work of each."""

_PATTERN_LIMITS = BuildLimits(positions=40_000, building=4_000, work=400_000)

_STRING_KEYWORDS = "pattern", "format", "minLength", "maxLength"


class _JsonPosition:
    """Position in a JSON text: inside a string or not, and after a backslash or not."""

    def __init__(self, in_string: bool, escaped: bool, last: bytes, opened: bytes) -> None:
        self.in_string, self.escaped, self.last = in_string, escaped, last
        self.opened = opened  # the last string from its quote on, if inside

    @classmethod
    def after(cls, text: bytes) -> _JsonPosition:
        """Return the position at the end of a prefix of a JSON text."""
        bare = _ESCAPE.sub(b"", text)
        in_string = bare.count(b'"') % 2 == 1
        string = _LAST_STRING.search(text) if in_string else None
        opened = b"" if string is None else string[0]
        return cls(in_string, bare.endswith(b"\\"), text[-1:], opened)

    def then(self, step: bytes) -> _JsonPosition:
        in_string, escaped = self.in_string, self.escaped
        begin: int | None = None  # place of the last quote that opens a string
        for place, byte in enumerate(step):
            if escaped:
                escaped = False
            elif byte == _QUOTE:
                in_string, begin = not in_string, place
            else:
                escaped = in_string and byte == _BACKSLASH
        opened = self.opened + step if begin is None else step[begin:]
        return _JsonPosition(in_string, escaped, step[-1:], opened if in_string else b"")

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


def string_endings(schema: str) -> list[TextEndings]:
    """Return the endings of a schema's constrained strings, in JSON spelling with quotes. Strings
    beyond the limits, and unsupported strings, are omitted.

    Args:
        schema: JSON text of the schema.
    """
    endings: dict[str, TextEndings | None] = {}
    waiting = [json.loads(schema)]

    while waiting and len(endings) < MOST_STRINGS:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            constraint = _string_keywords(value)
            if isinstance(members := value.get("allOf"), list):
                constraint["allOf"] = [_string_keywords(m) for m in members if isinstance(m, dict)]
            text = json.dumps({"type": "string", **constraint}, sort_keys=True)
            if any(constraint.values()) and text not in endings:
                endings[text] = _string_endings(text)
    return [ending for ending in endings.values() if ending is not None]


def _string_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in _STRING_KEYWORDS if key in schema}


def _string_endings(schema: str) -> TextEndings | None:
    try:
        return TextEndings(translate(schema), _STRING_LIMITS)
    except GrammarError:
        return None


class Endings(Protocol):
    """Search for endings of the texts of a grammar."""

    def find(self, inner: Any, text: bytes, tokens: dict[int, int]) -> bytes | None:
        """Return bytes that complete a text, or None if the search fails.

        Args:
            inner: llguidance matcher after `text`; its state changes.
            text: bytes so far.
            tokens: byte -> single-byte token.
        """


class JsonEndings:
    """Endings of JSON texts.

    Args:
        schema: JSON text of the schema.
        shortest: a complete text of the grammar; endings of this text may fit.
    """

    def __init__(self, schema: str, shortest: bytes | None = None) -> None:
        self._schema = schema
        self._tails = _tails(shortest or b"")

    @cached_property
    def _names(self) -> tuple[bytes, ...]:
        return required_names(self._schema)

    @cached_property
    def _strings(self) -> list[TextEndings]:
        return string_endings(self._schema)

    def find(self, inner: Any, text: bytes, tokens: dict[int, int]) -> bytes | None:
        if _QUOTE not in tokens:
            return None
        words, ends, tails = (
            [word for word in group if all(byte in tokens for byte in word)]
            for group in (self._names, _HOST_ENDS, self._tails)
        )

        def steps(position: _JsonPosition, tried: int) -> Iterator[bytes]:
            few = tails if tried <= TAILED else []
            return _steps(inner, position, tokens, words, ends, few, lambda: self._strings)

        return _search(inner, tokens, _JsonPosition.after(text), steps, _JsonPosition.then)


class PatternEndings:
    """Endings of the texts of rules without recursion, such as a regex.

    Args:
        rules: returns the rules, at the first search.
    """

    def __init__(self, rules: Callable[[], Rules]) -> None:
        self._rules = rules

    @cached_property
    def _endings(self) -> TextEndings | None:
        try:
            return TextEndings(self._rules(), _PATTERN_LIMITS)
        except GrammarError:
            return None

    def find(self, inner: Any, text: bytes, tokens: dict[int, int]) -> bytes | None:
        end = None if self._endings is None else self._endings.completion(text)
        if end is None or not all(byte in tokens for byte in end):
            return None
        return end if _ends_with(inner, [tokens[byte] for byte in end]) else None


class RecursiveEndings:
    """Endings of the texts of recursive rules.

    Each step completes a part of a rule. The same part twice is the last choice, because a part
    that may repeat without an end completes nothing.

    Args:
        rules: returns the rules, at the first search. None if unknown: the search takes single
            bytes.
    """

    def __init__(self, rules: Callable[[], Rules | None]) -> None:
        self._rules = rules

    @cached_property
    def _parts(self) -> list[bytes]:
        rules = self._rules()
        return [] if rules is None else remaining_texts(rules, MOST_REMAINING)

    def find(self, inner: Any, text: bytes, tokens: dict[int, int]) -> bytes | None:
        parts = [part for part in self._parts if all(byte in tokens for byte in part)]
        timer = _RestTimer()

        def steps(last: bytes, tried: int) -> Iterator[bytes]:
            if forced := bytes(inner.compute_ff_bytes()):
                if all(byte in tokens for byte in forced):
                    yield forced
                return
            valid: list[tuple[bytes, list[int]]] = []

            for part in parts:
                ids = [tokens[byte] for byte in part]
                timer.rest()
                if inner.validate_tokens(ids) == len(ids):
                    valid.append((part, ids))
                    if _ends_with(inner, ids):
                        yield part

            yield from sorted((part for part, _ in valid), key=last.__eq__)
            yield from _allowed_bytes(inner, tokens)

        return _search(inner, tokens, b"", steps, lambda last, step: step, MOST_PARTS)


class _RestTimer:
    """Rests between calls of llguidance, which keep the GIL."""

    def __init__(self) -> None:
        self._rested = time.perf_counter()

    def rest(self) -> None:
        """Sleep for `REST` if the last rest is at least `HOLD` ago."""
        if time.perf_counter() > self._rested + HOLD:
            time.sleep(REST)
            self._rested = time.perf_counter()


Position = TypeVar("Position")


def _search(
    inner: Any,
    tokens: dict[int, int],
    start: Position,
    steps: Callable[[Position, int], Iterator[bytes]],
    then: Callable[[Position, bytes], Position],
    most: int = MOST_STEPS,
) -> bytes | None:
    """Search depth-first for bytes that complete a text.

    Args:
        inner: llguidance matcher after the text; its state changes.
        tokens: byte -> single-byte token.
        start: position after the text.
        steps: returns the steps from a position after a number of tried steps, the best first.
        then: returns the position after a step.
        most: maximum number of steps.
    """
    ending = bytearray()
    positions = [(0, start)]  # stack of (number of bytes, position)
    candidates = [steps(start, 0)]

    timer = _RestTimer()

    for tried in range(most):
        timer.rest()
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
        positions.append((len(ending), then(positions[-1][1], step)))
        candidates.append(steps(positions[-1][1], tried + 1))

    return None


def _allowed_bytes(inner: Any, tokens: dict[int, int]) -> Iterator[bytes]:
    with native_call():
        mask = np.frombuffer(inner.compute_bitmask(), np.uint8)
    for byte, token in tokens.items():
        if byte != 0xFF and mask[token >> 3] >> (token & 7) & 1:
            yield bytes([byte])


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


def _string_ends(
    position: _JsonPosition, tokens: dict[int, int], strings: Sequence[TextEndings]
) -> list[bytes]:
    """Return the ends of the open string by the endings of strings, shortest first."""
    ends = {ending.completion(position.opened) for ending in strings} - {None}
    return sorted((end for end in ends if end and all(byte in tokens for byte in end)), key=len)


def _steps(
    inner: Any,
    position: _JsonPosition,
    tokens: dict[int, int],
    words: list[bytes],
    ends: list[bytes],
    tails: list[bytes],
    strings: Callable[[], Sequence[TextEndings]],
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
        for word in (*_string_ends(position, tokens, strings()), *begun, *ends):
            if inner.validate_tokens([tokens[byte] for byte in word]) == len(word):
                tried = True
                yield word

    for byte in position.options():
        if byte in tokens and inner.validate_tokens([tokens[byte]]):
            tried = True
            yield bytes([byte])
    if not tried:
        yield from _allowed_bytes(inner, tokens)
