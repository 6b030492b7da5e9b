"""Tokenizer of patterns in Python's `re` syntax: escapes, quantifiers in braces, error positions.

A token is a character, or a backslash and the next character. Knows no groups, classes or trees.
"""

from __future__ import annotations

import re
import unicodedata

from ...errors import GrammarError
from ..syntax import Ranges
from .properties import EXAMPLES, nearest_property, property_ranges

MAX_REPEAT = 100_000
"""Largest number in a quantifier."""

_CONTROLS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "\\": 92}
_WIDTHS = {"x": 2, "u": 4, "U": 8}
_BRACES = re.compile(r"\{([0-9]*)(?:(,)([0-9]*))?\}")
_HEX = re.compile("[0-9a-fA-F]*")
_OCTAL = re.compile("[0-7]{0,3}")
_PROPERTY = re.compile(r"\\(?:([pP])\{[^}]*\}|.)", re.DOTALL)
_VIEW = 60


def check_with_re(pattern: str) -> None:
    r"""Compile a pattern with `re`, without `\p{...}`.

    Args:
        pattern: pattern in the syntax of `re`, with `\p{...}`.

    Raises:
        re.error, OverflowError, RecursionError: `re` rejects the pattern.
    """
    re.compile(_PROPERTY.sub(lambda match: r"\w" if match[1] else match[0], pattern))


class PatternReader:
    """A pattern and the current position `at`, counted from 0. Messages count from 1.

    Args:
        pattern: pattern in the syntax of `re`.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    @property
    def peek(self) -> str:
        """Next token; "" at the end of the pattern. No side effects."""
        token = self.pattern[self.at : self.at + 1]
        if token != "\\":
            return token
        if self.at + 1 == len(self.pattern):
            raise self.error("a backslash at the end", self.at, r"write \\ for a backslash")
        return self.pattern[self.at : self.at + 2]

    def take(self) -> str:
        """Consume and return the next token."""
        token = self.peek
        self.at += len(token)
        return token

    def skip(self, token: str) -> bool:
        """Consume the next token if equal to `token`; return True if consumed.

        Args:
            token: expected token.
        """
        if self.peek != token:
            return False
        self.at += len(token)
        return True

    def until(self, end: str, construct: str, column: int) -> str:
        """Consume tokens up to and including `end`; return the text before `end`.

        Args:
            end: closing token.
            construct: construct, for the message.
            column: start of the construct, from 0.

        Raises:
            GrammarError: `end` is missing.
        """
        start = self.at
        while token := self.take():
            if token == end:
                return self.pattern[start : self.at - 1]
        raise self.error(f"{construct} without its {end}", column, f"close it with {end}")

    def error(self, problem: str, column: int, hint: str) -> GrammarError:
        """Return an error whose message shows the pattern and marks a column.

        Args:
            problem: problem.
            column: position in the pattern, from 0.
            hint: remedy.
        """
        line_start = self.pattern.rfind("\n", 0, column) + 1
        line = self.pattern[line_start:].partition("\n")[0]
        location = f"column {column - line_start + 1}"
        if "\n" in self.pattern:
            location = f"line {self.pattern.count(chr(10), 0, line_start) + 1}, {location}"
        mark = column - line_start
        cut = max(0, mark - _VIEW // 2)
        prefix = ("…" if cut else "") + _shown(line[cut:mark])
        tail = line[mark : cut + _VIEW]
        shown = prefix + _shown(tail) + ("…" if len(line) > cut + _VIEW else "")
        marked = f"  {shown}\n  {' ' * sum(map(_columns, prefix))}^"
        return GrammarError(f"regex: {problem}, at {location} (counted from 1)\n{marked}", hint)

    def escape(self, inside: bool) -> int | str | Ranges:
        r"""Consume an escape and return its code point, the letter of \d \D \s \S \w \W, or the
        characters of \p{...} and \P{...}.

        Anchors are invalid escapes here.

        Args:
            inside: True inside a class: \b is the backspace, \1 an octal number.
        """
        start, letter = self.at, self.take()[1]
        if letter in "dDsSwW":
            return letter
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _WIDTHS:
            return self._hexadecimal(start, _WIDTHS[letter])
        if letter == "N":
            return self._named(start)
        if letter in "pP":
            return self._property(start, letter)
        if letter in "0123456789":
            return self._octal(start, inside)
        if letter.isascii() and letter.isalpha():
            hint = f"write {letter} without it"
            raise self.error(f"unknown escape \\{letter}", start, hint)

        return ord(letter)

    def braces(self) -> tuple[int, int | None] | None:
        """Consume {m}, {m,}, {,n} or {m,n} and return the bounds; None without side effects for a
        plain brace."""
        match = _BRACES.match(self.pattern, self.at)
        if match is None or match[0] == "{}":
            return None
        numbers = []
        for digits in (match[1], match[3] if match[2] else match[1]):
            if len(digits.lstrip("0")) > 10 or int(digits or 0) > MAX_REPEAT:
                hint = f"at most {MAX_REPEAT}; for more, use an unbounded repeat: {{{MAX_REPEAT},}}"
                raise self.error(f"repeat {match[0]:.24} is too large", self.at, hint)
            numbers.append(int(digits) if digits else None)

        least, most = numbers[0] or 0, numbers[1]
        if most is not None and most < least:
            problem = f"repeat {match[0]} has its bounds reversed"
            raise self.error(problem, self.at, f"write {{{most},{least}}}")
        self.at = match.end()
        return least, most

    def _hexadecimal(self, start: int, width: int) -> int:
        digits = self._digits(_HEX)[:width]
        if len(digits) != width or int(digits, 16) > 0x10FFFF:
            letter = self.pattern[start + 1]
            hint = f"\\{letter} needs {width} hexadecimal digits, up to 10ffff"
            raise self.error(f"bad escape \\{letter}{digits}", start, hint)
        self.at += width
        return int(digits, 16)

    def _octal(self, start: int, inside: bool) -> int:
        self.at = start + 1
        digits = self._digits(_OCTAL)
        if digits[:1] == "0" or (digits and inside) or len(digits) == 3:
            if int(digits, 8) > 0o377:
                problem = f"octal escape \\{digits} is above \\377"
                raise self.error(problem, start, r"write it as \uhhhh")
            self.at += len(digits)
            return int(digits, 8)

        if inside:
            hint = r"octal digits are 0 to 7; write \xhh"
            raise self.error(f"bad escape \\{self.peek}", start, hint)
        problem = f"back-reference \\{self.peek} is not regular"
        raise self.error(problem, start, "repeat the part explicitly")

    def _named(self, start: int) -> int:
        hint = r"write it as \N{EM DASH}, with a Unicode name"
        name = self.until("}", r"\N{", start)[1:] if self.peek == "{" else ""
        try:
            return ord(unicodedata.lookup(name))
        except (KeyError, TypeError):
            raise self.error(f"\\N names no character: {name!r:.60}", start, hint) from None

    def _property(self, start: int, letter: str) -> Ranges:
        if self.peek != "{":
            raise self.error(f"\\{letter} without a name", start, EXAMPLES)
        name = self.until("}", f"\\{letter}{{", start)[1:]
        ranges = property_ranges(name, letter == "P")
        shown = f"\\{letter}{{{name:.60}}}"
        if ranges is None:
            problem = f"{shown} names no Unicode property"
            raise self.error(problem, start, nearest_property(name))
        if not ranges:
            hint = "no text contains surrogates; remove the escape"
            raise self.error(f"{shown} contains no character", start, hint)
        return ranges

    def _digits(self, kind: re.Pattern[str]) -> str:
        match = kind.match(self.pattern, self.at)
        return match[0] if match else ""


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "·" for c in text)


def _columns(char: str) -> int:
    """Return the width of `char` in a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
