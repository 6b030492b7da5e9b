"""Search for an ending of a JSON text, because llguidance reports only the allowed next tokens.

Depth-first search, byte by byte, with closing bytes first. The ending is short, but not always the
shortest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GrammarError
from ..automaton.automaton import START, Automaton, build
from ..automaton.build_limits import BuildLimits
from ..schema.translate import translate

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
_LAST_STRING = re.compile(rb'(?s)"(?:[^"\\]|\\.)*\\?\Z')

MOST_STRINGS = 16
_STRING_LIMITS = BuildLimits(positions=6_000, building=4_000, work=60_000)
"""Limits of the automata of strings: their number, and the size and work of each."""

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


def string_automata(schema: str) -> list[Automaton]:
    """Return automata of a schema's constrained strings, in JSON spelling with quotes. Strings
    beyond the limits, and unsupported strings, are omitted.

    Args:
        schema: JSON text of the schema.
    """
    automata: dict[str, Automaton | None] = {}
    waiting = [json.loads(schema)]

    while waiting and len(automata) < MOST_STRINGS:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            constraint = {key: value[key] for key in _STRING_KEYWORDS if key in value}
            text = json.dumps({"type": "string", **constraint}, sort_keys=True)
            if constraint and text not in automata:
                automata[text] = _string_automaton(text)
    return [automaton for automaton in automata.values() if automaton is not None]


def _string_automaton(schema: str) -> Automaton | None:
    try:
        return build(translate(schema), _STRING_LIMITS)
    except GrammarError:
        return None


def find_end(
    inner: Any,
    text: bytes,
    tokens: dict[int, int],
    names: tuple[bytes, ...],
    shortest: bytes | None = None,
    strings: Callable[[], Sequence[Automaton]] = tuple,
) -> bytes | None:
    """Search for bytes that complete a text.

    Args:
        inner: llguidance matcher after `text`; its state changes.
        text: bytes so far.
        tokens: byte -> single-byte token.
        names: property names to try first.
        shortest: a complete text of the grammar; endings of this text may fit.
        strings: returns automata of strings, for the shortest endings inside strings.

    Returns:
        The bytes, or None if the search fails.
    """
    ending = bytearray()
    words, ends, tails = (
        [word for word in group if all(byte in tokens for byte in word)]
        for group in (names, _HOST_ENDS, _tails(shortest or b""))
    )
    positions = [(0, _JsonPosition.after(text))]  # stack of (number of bytes, position)
    candidates = [_steps(inner, positions[0][1], tokens, words, ends, tails, strings)]

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
        candidates.append(_steps(inner, positions[-1][1], tokens, words, ends, tails, strings))

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


def _string_ends(
    position: _JsonPosition, tokens: dict[int, int], strings: Sequence[Automaton]
) -> list[bytes]:
    """Return the shortest ends of the open string in the automata, shortest first."""
    states = ((automaton, automaton.step(START, position.opened)) for automaton in strings)
    ends = {automaton.completion(state) for automaton, state in states if state}
    return sorted((end for end in ends if all(byte in tokens for byte in end)), key=len)


def _steps(
    inner: Any,
    position: _JsonPosition,
    tokens: dict[int, int],
    words: list[bytes],
    ends: list[bytes],
    tails: list[bytes],
    strings: Callable[[], Sequence[Automaton]],
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
        mask = np.frombuffer(inner.compute_bitmask(), np.uint8)
        for byte, token in tokens.items():
            if byte != 0xFF and mask[token >> 3] >> (token & 7) & 1:
                yield bytes([byte])
