"""Parser for Python's `re` syntax: from a pattern to a tree of the matching texts.

Accepted constructs have the exact meaning of `re`; all others raise an error with the position in
the pattern. Knows no automata. Does not recurse: open groups are on a stack.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace

from ...errors import GrammarError, shown
from ..syntax import EMPTY, Chars, Literal, Node, Source
from .anchors import (
    HAS_EMPTY,
    LAST_LINE,
    LINE,
    NO_DEMAND,
    TEXT,
    Way,
    Ways,
    anywhere,
    chain,
    choose,
    plain,
    repeat,
    whole_text,
)
from .asserted import asserted
from .characters import ignore_case
from .classes import Flags, any_character, characters, check_scalar, read_class
from .pattern_reader import PatternReader

MAX_DEPTH = 100  # nested groups
MAX_PIECES = 100_000  # classes, groups, anchors, escapes and runs of plain text in a pattern
MAX_LABEL = 80  # characters of a label; longer pieces of the pattern are cut

_BLANKS = " \t\n\r\v\f"
_RUN = re.compile(r"[^\\.^$|?*+()\[{]+")
_VERBOSE_RUN = re.compile(r"[^\\.^$|?*+()\[{# \t\n\r\v\f]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INLINE_FLAGS = re.compile(r"([a-zA-Z]*)(?:(-)([a-zA-Z]*))?([:)])?")
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_END_ESCAPES = ("\\Z", "\\z") if sys.version_info >= (3, 14) else ("\\Z",)

_LOOK_HINT = "write the allowed texts as alternatives or with classes such as [^a]"
_REFUSED = {
    "(?=": ("look-ahead (?=", _LOOK_HINT),
    "(?!": ("negative look-ahead (?!", _LOOK_HINT),
    "(?<=": ("look-behind (?<=", _LOOK_HINT),
    "(?<!": ("negative look-behind (?<!", _LOOK_HINT),
    "(?>": ("atomic group (?>", "write (?:...), which keeps all matches"),
    "(?(": ("conditional group (?(", "write the cases as alternatives: with|without"),
    "(?P=": ("back-reference (?P=", "not regular: repeat the part explicitly"),
    "(?<": ("unknown group (?<", "a name is written (?P<name>...)"),
}


def parse(pattern: str, *, whole: bool = True, portable: bool = False) -> Node:
    r"""Return the texts, without surrogates, that `re.fullmatch` accepts.

    Args:
        pattern: pattern in the syntax of `re`.
        whole: False for the texts that `re.search` accepts.
        portable: True for the common subset of Python and ECMAScript: the intersection of both
            meanings of \d, \w, \s, the dot and their opposites; `$` matches only at the end of the
            text.

    Raises:
        GrammarError: the pattern is invalid for `re`, not regular, not supported, or has an anchor
            that can never match.
    """
    node = asserted(pattern, whole, portable, _parse)
    return _parse(pattern, whole, portable) if node is None else node


def _parse(pattern: str, whole: bool, portable: bool) -> Node:
    ways = _PatternParser(pattern, portable).parse()
    return whole_text(ways) if whole else anywhere(ways)


def parse_occurrence(pattern: str) -> Node:
    """Return the texts of an occurrence at any position of a longer text.

    Args:
        pattern: pattern in the syntax of `re`.

    Raises:
        GrammarError: `parse` refuses the pattern, or the pattern has an anchor or matches the empty
            text.
    """
    ways = _PatternParser(pattern, False).parse()
    for way in ways:
        if way.begin != NO_DEMAND or way.end != NO_DEMAND:
            raise GrammarError(
                f"{shown(pattern)} has an anchor, but the surrounding text may not be known yet",
                r"write the line break itself, as in \nQ:",
            )
        if way.short & HAS_EMPTY:
            raise GrammarError(
                f"{shown(pattern)} matches the empty text, and would match everywhere",
                "require at least one character",
            )

    [way] = ways
    return way.node


@dataclass(slots=True)
class _Item:
    """A part of the pattern that a quantifier may follow."""

    ways: Ways
    start: int  # range in the pattern, including the quantifier
    end: int
    labelled: bool
    repeated: bool = False
    anchor: bool = False


@dataclass(slots=True)
class _OpenGroup:
    """An open group, or the whole pattern."""

    start: int
    flags: Flags
    options: list[Ways] = field(default_factory=list)  # completed alternatives
    items: list[_Item] = field(default_factory=list)  # parts of the current alternative


class _PatternParser:
    def __init__(self, pattern: str, portable: bool) -> None:
        self.reader = PatternReader(pattern)
        self.portable = portable
        self.group = _OpenGroup(0, frozenset())
        self.outer: list[_OpenGroup] = []
        self.names: set[str] = set()
        self.global_flags: set[str] = set()
        self.pieces = 0
        self.handlers = dict.fromkeys("*+?{", self._quantify) | dict.fromkeys("^$", self._anchor)
        self.handlers |= {"(": self._open, ")": self._close, "|": self._bar}
        self.handlers |= {"[": self._class, ".": self._dot}

    def parse(self) -> Ways:
        reader = self.reader
        if surrogate := _SURROGATE.search(reader.pattern):
            check_scalar(reader, ord(surrogate[0]), surrogate.start())
        while token := reader.peek:
            if "x" in self.group.flags and (token in _BLANKS or token == "#"):
                self._skip_blank()
            elif token in self.handlers:
                self.handlers[token]()
            elif token[0] == "\\":
                self._escape(token)
            else:
                self._text()

        if self.outer:
            hint = r"close it with ), or write \( for the character"
            raise reader.error("( without its )", self.group.start, hint)
        return self._finish()

    def _add(self, ways: Ways, start: int, labelled: bool = False) -> None:
        self.group.items.append(_Item(ways, start, self.reader.at, labelled))
        self.pieces += 1
        if self.pieces > MAX_PIECES:
            hint = "split the pattern, or use choices"
            raise self.reader.error(f"pattern of more than {MAX_PIECES} pieces", start, hint)

    def _finish(self) -> Ways:
        """Return all alternatives of the group."""
        self._end_option()
        return choose(self.group.options)

    def _end_option(self) -> None:
        parts = [self._labelled(item) if item.labelled else item.ways for item in self.group.items]
        self.group.options.append(chain(parts, self.reader))
        self.group.items = []

    def _labelled(self, item: _Item) -> Ways:
        label = self.reader.pattern[item.start : item.end]
        if len(label) > MAX_LABEL:
            label = label[: MAX_LABEL - 1] + "…"
        return tuple(
            way if way.node == EMPTY else replace(way, node=Source(way.node, label))
            for way in item.ways
        )

    def _bar(self) -> None:
        self.reader.take()
        self._end_option()

    def _skip_blank(self) -> None:
        """Skip a blank, or a comment up to a line break that no backslash escapes."""
        reader = self.reader
        if reader.take() == "#":
            while reader.take() not in ("\n", ""):
                pass

    def _text(self) -> None:
        """Read plain characters. The last character is a separate item, because a quantifier may
        follow."""
        reader, start = self.reader, self.reader.at
        run = (_VERBOSE_RUN if "x" in self.group.flags else _RUN).match(reader.pattern, start)
        text = run[0] if run else reader.peek
        if "i" in self.group.flags:
            for char in text:
                reader.at += 1
                self._add(self._character(ord(char)), reader.at - 1)
            return
        for piece in (text[:-1], text[-1]):
            reader.at += len(piece)
            self._add(plain(Literal(piece)), reader.at - len(piece))

    def _character(self, code: int) -> Ways:
        if "i" in self.group.flags:
            ranges = ignore_case(((code, code),), "a" in self.group.flags)
            if ranges != ((code, code),):
                return plain(Chars(ranges))
        return plain(Literal(chr(code)))

    def _escape(self, token: str) -> None:
        reader, start = self.reader, self.reader.at
        if token == "\\A" or token in _END_ESCAPES:
            self._anchor()
            return

        if token in ("\\b", "\\B"):
            hint = "write the allowed characters on both sides explicitly"
            raise reader.error(f"word boundary {token}", start, hint)
        code = reader.escape(inside=False)
        if not isinstance(code, int):
            members, letters = ((), code) if isinstance(code, str) else (code, "")
            ranges = characters(members, letters, False, self.group.flags, self.portable)
            self._add(plain(Chars(ranges)), start, labelled=True)
        else:
            self._add(self._character(check_scalar(reader, code, start)), start)

    def _class(self) -> None:
        start = self.reader.at
        ranges = read_class(self.reader, self.group.flags, self.portable)
        self._add(plain(Chars(ranges)), start, labelled=True)

    def _dot(self) -> None:
        start = self.reader.at
        self.reader.take()
        ranges = any_character(self.group.flags, self.portable)
        self._add(plain(Chars(ranges)), start, labelled=True)

    def _anchor(self) -> None:
        start, token = self.reader.at, self.reader.take()
        lines = "m" in self.group.flags
        begin = end = NO_DEMAND

        if token == "^":
            begin = LINE if lines else TEXT
        elif token == "\\A":
            begin = TEXT
        elif token == "$":
            end = LINE if lines else TEXT if self.portable else LAST_LINE
        else:
            end = TEXT
        way = Way(node=EMPTY, short=HAS_EMPTY, begin=begin, end=end, column=start)
        self._add((way,), start)
        self.group.items[-1].anchor = True

    def _quantify(self) -> None:
        reader, start = self.reader, self.reader.at
        token = reader.peek
        bounds = reader.braces() if token == "{" else _QUANTIFIERS[token]
        if bounds is None or token != "{":
            reader.take()
        if bounds is None:
            self._add(plain(Literal("{")), start)
            return
        text = reader.pattern[start : reader.at]
        item = self.group.items[-1] if self.group.items else None
        if item is None or item.anchor:
            hint = f"write \\{token} for the character itself"
            raise reader.error(f"nothing to repeat for {text}", start, hint)

        if item.repeated:
            hint = "put a group around the first: (?:...)" + text
            raise reader.error(f"multiple repeat {text}", start, hint)

        if reader.skip("+"):
            hint = f"write {text}, which keeps all matches"
            raise reader.error(f"possessive quantifier {text}+", start, hint)
        reader.skip("?")
        item.ways = repeat(item.ways, *bounds, reader)
        item.end, item.labelled, item.repeated = reader.at, True, True

    def _open(self) -> None:
        reader, start = self.reader, self.reader.at
        reader.take()
        flags: Flags | None = self.group.flags
        if reader.skip("?"):
            flags = self._extension(start)
        if flags is None:
            return
        if len(self.outer) == MAX_DEPTH:
            message = f"more than {MAX_DEPTH} nested groups"
            raise reader.error(message, start, "remove unnecessary groups")
        self.outer.append(self.group)
        self.group = _OpenGroup(start, flags)

    def _close(self) -> None:
        if not self.outer:
            hint = r"remove it, or write \) for the character"
            raise self.reader.error(") without its (", self.reader.at, hint)
        self.reader.take()
        ways, start = self._finish(), self.group.start
        self.group = self.outer.pop()
        self._add(ways, start, labelled=True)

    def _extension(self, start: int) -> Flags | None:
        """Read the text after `(?`. Returns the flags of the opened group, or None if no group
        opens."""
        reader = self.reader
        kind = reader.peek
        if (kind.isalpha() and kind != "P") or kind == "-":
            return self._inline_flags(start)
        reader.take()
        if kind == ":":
            return self.group.flags
        if kind == "#":
            reader.until(")", "comment (?#", start)
            return None

        if kind == "P" and reader.skip("<"):
            self._name(start)
            return self.group.flags
        for mark, (construct, hint) in _REFUSED.items():
            if reader.pattern.startswith(mark, start):
                raise reader.error(f"{construct} is not supported", start, hint)
        hint = "groups are (...), (?:...), (?P<name>...) and (?i:...)"
        raise reader.error(f"unknown group {reader.pattern[start : reader.at]}", start, hint)

    def _name(self, start: int) -> None:
        name = self.reader.until(">", "group name (?P<", start)
        if not name.isidentifier():
            hint = "use letters, digits and _, no digit first"
            raise self.reader.error(f"bad group name {name!r:.40}", start, hint)
        if name in self.names:
            hint = "give each group a different name"
            raise self.reader.error(f"group name {name!r:.40} is taken", start, hint)
        self.names.add(name)

    def _inline_flags(self, start: int) -> Flags | None:
        """Read `(?i)` and return None (flags from here on), or read `(?i-s:` and return the group's
        flags."""
        reader = self.reader
        match = _INLINE_FLAGS.match(reader.pattern, reader.at)
        assert match is not None
        on, minus, off, end = match[1], match[2], match[3] or "", match[4]
        text = reader.pattern[start : match.end()]
        if problem := self._flag_problem(on, minus, off, end):
            hint = "write (?i) at the start, or (?i-s:...)"
            raise reader.error(f"inline flags {text:.40}: {problem}", start, hint)
        reader.at = match.end()

        if end == ")":
            self.global_flags |= set(on)
            self.group.flags = frozenset(self.global_flags - {"u"})
            return None
        return (self.group.flags - ({"a"} if "u" in on else set()) | set(on) - {"u"}) - set(off)

    def _flag_problem(self, on: str, minus: str | None, off: str, end: str | None) -> str:
        if unknown := set(on + off) - set("aimsux"):
            return f"no flag {min(unknown)!r} for text"
        if end is None or (minus and end == ")"):
            return "no : behind them"
        if minus and not off:
            return "no flag behind the -"
        if set(off) & set("au"):
            return "a and u cannot be turned off"
        if set(on) & set(off):
            return "a flag is both on and off"

        active = set(on) | (self.global_flags if end == ")" else set())
        if {"a", "u"} <= active:
            return "a and u exclude each other"
        if end == ")" and (self.outer or self.group.options or self.group.items):
            return "they are not at the start of the pattern"
        return ""
