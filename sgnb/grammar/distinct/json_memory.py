"""Position in a JSON text with the earlier items of distinct arrays and the earlier names of
objects.

Items and names are compared in a normal form: without white space, numbers as digits and exponent.
Equal values have equal normal forms, except for objects with another order of names.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ..schema.flat import canonical
from .places import MANY, Place

VALUE, NAME, COLON, AFTER, SCALAR, STRING, ESCAPE, NAME_STRING, NAME_ESCAPE = range(9)
"""Modes: before a value or name, before a colon, after a value, inside a number or word, inside a
string, and after a backslash in a string."""

_ENDED = {ESCAPE: STRING, NAME_ESCAPE: NAME_STRING}
_ESCAPED = {mode: escape for escape, mode in _ENDED.items()}

_RUN = re.compile(rb'[^"\\]*')
_SCALAR_BYTES = frozenset(b"+-.0123456789abcdefghijklmnopqrstuvwxyzE")
_WORDS = (b"true", b"false", b"null")
_DIGITS = tuple(bytes([byte]) for byte in b"-0123456789")
_BLANKS = frozenset(b" \t\n\r")
_NUMBER = re.compile(rb"(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


class Frame(NamedTuple):
    """An open array or object."""

    place: Place
    is_array: bool
    is_watched: bool  # items or names must be distinct
    is_open: bool  # every beginning has an unused item or name, see `Place`
    all_open: bool  # `is_open` of the frame and of all outer frames
    has_many: bool  # at least `MANY` items or names exist, all of them strings
    used: tuple[bytes, ...]  # sorted normal forms of the earlier items or names
    keys: frozenset[Any]  # of the earlier items or names, see `_key`
    begin: int  # start of the current item or name in `JsonMemory.text`; -1 outside
    number: int  # number of earlier items
    child: Place  # of the current item or member

    def rivals(self, text: bytes) -> Iterator[bytes]:
        """Yield the earlier items or names with the beginning of the current slot.

        Args:
            text: `JsonMemory.text`.
        """
        if self.begin < 0:
            return
        prefix = text[self.begin :]
        for number in range(bisect_left(self.used, prefix), len(self.used)):
            if not self.used[number].startswith(prefix):
                return
            yield self.used[number]


class JsonMemory:
    """Immutable position after a beginning of a JSON text.

    Args:
        root: place of the whole text.
    """

    __slots__ = ("_root", "_slots", "mode", "scalar", "stack", "text")

    def __init__(self, root: Place) -> None:
        self._root = root
        self._slots = 0  # frames with a current item or name
        self.mode = VALUE
        self.scalar = b""  # beginning of a number or word
        self.stack: tuple[Frame, ...] = ()
        # Normal form from the start of the outermost current item or name, without `scalar`.
        self.text = b""

    def advance(self, data: bytes) -> JsonMemory | None:
        """Return the position after more bytes; None if an item or name repeats.

        Args:
            data: bytes allowed by the schema's grammar.
        """
        draft = _Draft(self)
        if not draft.feed(data):
            return None
        memory: JsonMemory = object.__new__(JsonMemory)
        memory._root, memory._slots, memory.mode = self._root, draft.slots, draft.mode
        memory.scalar, memory.stack = draft.scalar, tuple(draft.stack)
        memory.text = bytes(draft.text)
        return memory

    @property
    def is_safe(self) -> bool:
        """True if the text can certainly continue without a repeated item or name."""
        return not self.unsafe_slots()

    def unsafe_slots(self) -> set[tuple[int, int]]:
        """Return the current items and names without a certain difference from all earlier items
        and names, as pairs of the frame's depth and the number of the item or name."""
        if not self._slots or self.is_open:
            return set()
        return {
            (depth, frame.number)
            for depth, frame in enumerate(self.stack)
            if frame.begin >= 0 and not frame.is_open and not self._can_differ(frame)
        }

    def _can_differ(self, frame: Frame) -> bool:
        starts = self.text[frame.begin :] in (b"", b'"') and not self.scalar
        if starts and frame.has_many and len(frame.used) < MANY:
            return True
        start = len(self.text) - frame.begin
        return not any(_may_begin(rival[start:], self.scalar) for rival in frame.rivals(self.text))

    @property
    def is_open(self) -> bool:
        """True if every beginning of an item or name has an unused item or name."""
        return not self.stack or self.stack[-1].all_open

    @property
    def has_many(self) -> bool:
        """True if more items and names exist than can be used."""
        return all(
            not frame.is_watched or (frame.has_many and len(frame.used) < MANY)
            for frame in self.stack
        )

    @property
    def in_string(self) -> bool:
        return self.mode >= STRING

    @property
    def in_plain_string(self) -> bool:
        """True inside a string, except after a backslash."""
        return self.mode in _ESCAPED

    @property
    def begins_slot(self) -> bool:
        """True before an item of a distinct array, and before a name."""
        return self.mode == NAME or (
            self.mode == VALUE and bool(self.stack) and self.stack[-1].begin >= 0
        )

    def remainders(self, unsafe: bool = False) -> set[bytes]:
        """Return the endings of repeated items and names, in normal form.

        Args:
            unsafe: only items and names with a proof, see `is_open`.
        """
        if not self._slots:
            return set()
        return {
            rival[len(self.text) - frame.begin :]
            for frame in self.stack
            if not (unsafe and frame.is_open)
            for rival in frame.rivals(self.text)
        }


class _Draft:
    """Mutable copy of a `JsonMemory`."""

    def __init__(self, memory: JsonMemory) -> None:
        self.root, self.slots, self.mode = memory._root, memory._slots, memory.mode
        self.scalar, self.stack = memory.scalar, list(memory.stack)
        self.text = bytearray(memory.text)

    def feed(self, data: bytes) -> bool:
        """Advance by `data`; return False if an item or name repeats."""
        at, end = 0, len(data)

        while at < end:
            if self.mode >= STRING:
                at, holds = self._string(data, at)
            elif self.mode == SCALAR and data[at] in _SCALAR_BYTES:
                holds = self._extend_scalar(data[at])
                at += 1
            else:
                holds = self.mode != SCALAR or self._end_scalar()
                holds = holds and self._structure(data[at])
                at += 1
            if not holds:
                return False
        return True

    def _write(self, text: bytes) -> None:
        if self.slots:
            self.text += text

    def _string(self, data: bytes, at: int) -> tuple[int, bool]:
        if self.mode in _ENDED:
            self._write(data[at : at + 1])
            self.mode = _ENDED[self.mode]
            return at + 1, True

        run = _RUN.match(data, at)
        assert run is not None
        stop = run.end()
        self._write(data[at : stop + 1])
        if stop == len(data):
            return stop, True
        if data[stop] == 0x5C:
            self.mode = _ESCAPED[self.mode]
            return stop + 1, True
        return stop + 1, self._end_name() if self.mode == NAME_STRING else self._end_value()

    def _extend_scalar(self, byte: int) -> bool:
        self.scalar += bytes([byte])
        return self.scalar not in _WORDS or self._end_scalar()

    def _end_scalar(self) -> bool:
        self._write(_normal(self.scalar))
        self.scalar = b""
        return self._end_value()

    def _structure(self, byte: int) -> bool:
        if byte in _BLANKS:
            return True

        if byte == 0x22:
            self._write(b'"')
            self.mode = NAME_STRING if self.mode == NAME else STRING
        elif byte in b"[{":
            self._open(byte)
        elif byte in b"]}":
            return self._close(byte)
        elif byte == 0x2C:
            self._write(b",")
            self._next_slot()
        elif byte == 0x3A:
            self._write(b":")
            self.mode = VALUE
        else:
            self.scalar, self.mode = bytes([byte]), SCALAR
        return True

    def _open(self, byte: int) -> None:
        self._write(bytes([byte]))
        top = self.stack[-1] if self.stack else None
        place, is_array = top.child if top else self.root, byte == 0x5B
        is_watched = not is_array or place.is_distinct
        is_open = place.has_open_items if is_array else place.has_open_names

        self.stack.append(
            Frame(
                place=place,
                is_array=is_array,
                is_watched=is_watched,
                is_open=is_open,
                all_open=(is_open or not is_watched) and (top is None or top.all_open),
                has_many=place.has_many_items if is_array else place.has_open_names,
                used=(),
                keys=frozenset(),
                begin=-1,
                number=-1,
                child=place,
            )
        )
        self._next_slot()

    def _next_slot(self) -> None:
        """Begin the next item or name of the innermost frame."""
        frame = self.stack[-1]
        number, begin = frame.number + 1, -1
        if frame.is_watched:
            begin = len(self.text)
            self.slots += 1
        child = frame.place.item(number) if frame.is_array else frame.child
        self.stack[-1] = frame._replace(begin=begin, number=number, child=child)
        self.mode = VALUE if frame.is_array else NAME

    def _close(self, byte: int) -> bool:
        if self.stack.pop().begin >= 0:  # an empty array or object
            self.slots -= 1
        self._write(bytes([byte]))
        return self._end_value()

    def _end_value(self) -> bool:
        self.mode = AFTER
        if self.stack and self.stack[-1].is_array and self.stack[-1].is_watched:
            return self._end_slot()
        return True

    def _end_name(self) -> bool:
        self.mode = COLON
        frame = self.stack[-1]
        name = json.loads(bytes(self.text[frame.begin :]))
        self.stack[-1] = frame._replace(child=frame.place.member(name))
        return self._end_slot()

    def _end_slot(self) -> bool:
        frame = self.stack[-1]
        item = bytes(self.text[frame.begin :])
        key = _key(item)
        if key in frame.keys:
            return False
        place = bisect_left(frame.used, item)
        used = (*frame.used[:place], item, *frame.used[place:])
        self.stack[-1] = frame._replace(used=used, keys=frame.keys | {key}, begin=-1)
        self.slots -= 1
        if not self.slots:
            self.text.clear()
        return True


def _may_begin(remainder: bytes, scalar: bytes) -> bool:
    """True if a normal form may begin with the number or word of which `scalar` is the beginning;
    "" is the beginning of everything."""
    if scalar[:1].isalpha():
        return remainder.startswith(scalar)
    return not scalar or remainder[:1] in _DIGITS


def _key(item: bytes) -> Any:
    """Return a hashable value, equal for items with equal JSON values."""
    if b"{" not in item:
        return item
    return canonical(json.loads(item, parse_float=Decimal))


def _normal(scalar: bytes) -> bytes:
    """Return a word, or the only spelling of a number: digits without zeros at the end, and an
    exponent."""
    number = _NUMBER.fullmatch(scalar)
    if number is None:
        return scalar
    sign, whole, fraction, exponent = number.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    bare = digits.rstrip(b"0")
    if not bare:
        return b"0e0"
    power = int(exponent or 0) - len(fraction) + len(digits) - len(bare)
    return b"%s%se%d" % (sign, bare, power)
