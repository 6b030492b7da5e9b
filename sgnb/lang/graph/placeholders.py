"""Placeholders for values unknown during tracing: texts with marks, filled during replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from string import printable
from types import MappingProxyType
from typing import Any, NoReturn

from ...errors import TraceError
from ..ir import Expr, TraceText
from ..location import caller, program_line

_LEFT, _RIGHT, _FIRST = "\U0010f5a7", "\U0010f5a8", 0x100000
_LETTERS = "zyxwvutsrqponmlkjihgfedcba"
_SIGNS = "\n \n[(){}?*+|^$.\\\\]"  # a character set if the text is used as a pattern
_ASCII = _SIGNS + "".join(c for c in f"\0{printable[::-1]}" if c not in f"{_SIGNS}[]")
_OPEN, _CLOSE = f" {_LEFT}{_ASCII}{_LEFT}", f"{_RIGHT} "
"""Delimiters of a mark: private characters, spaces and reversed ASCII around a numbered character.
Stripping, cutting, escaping, indenting or replacing changes the mark, and `_BROKEN` detects the
change."""

_MARK = re.compile(f"{re.escape(_OPEN)}(.){re.escape(_CLOSE)}", re.DOTALL)
_BROKEN = re.compile(
    rf"[{_LEFT}{_RIGHT}]|\\udbfd\\udda[78]|\\U0010f5a[78]|{_LETTERS}|(%|\\x)f4(%|\\x)8f(%|\\x)96",
    re.IGNORECASE,
)
"""Regex of the remains of a changed mark, including JSON, Python and URL escapes."""


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of an argument.

    `conversion`: None for the plain text, "s" or "r" for `str` or `repr`, ":" with a format
    specification.
    """

    name: str
    conversion: str | None = None

    def __str__(self) -> str:
        suffixes = {None: "", "s": "", ":": "", "r": "!r"}
        return f"{{{self.name}{suffixes.get(self.conversion, self.conversion)}}}"


@dataclass(frozen=True, slots=True)
class Variable:
    """The text of a variable after `version` earlier assignments in a stream; `item` indexes a list
    of samples."""

    stream: int
    name: str
    version: int
    item: int | None = None
    conversion: str | None = None

    def __str__(self) -> str:
        item = "" if self.item is None else f"[{self.item}]"
        return f"s{self.stream}[{self.name!r}]{item}"


Placeholder = Argument | Variable


class Placeholders:
    """The numbered placeholders of a program.

    Args:
        title: The name of the program.
        known: Numbers of the placeholders of an earlier trace, in order.
    """

    def __init__(self, title: str, known: Mapping[Placeholder, int] = MappingProxyType({})) -> None:
        self.title = title
        self.all: list[Placeholder] = list(known)
        self.refused: TraceError | None = None  # first error, possibly caught by user code
        self.are_used = False  # the program's code has read a placeholder
        self.warns = not known  # about effects and unstable results, at the first trace only
        self._numbers = dict(known)

    def text(self, placeholder: Placeholder) -> PlaceholderText:
        """Return the text that stands for the value of `placeholder`."""
        number = self._numbers.setdefault(placeholder, len(self.all))
        if number == len(self.all):
            self.all.append(placeholder)
        return PlaceholderText(mark(number), self)

    def refuse(self, reason: str, hint: str) -> NoReturn:
        """Raise a TraceError with the user's line. The error ends the trace, even if user code
        catches the error."""
        error = TraceError(f"{program_line()}: {reason}", hint)
        self.refused = self.refused or error
        raise error

    def first(self, text: str) -> Placeholder:
        """Return the placeholder of the first mark in `text`."""
        return next(self.all[number] for number in numbers(text))

    def named(self, text: str) -> str:
        """Replace the marks in `text` by the names of the placeholders."""
        return _MARK.sub(lambda match: str(self.all[ord(match[1]) - _FIRST]), text)


def mark(number: int) -> str:
    """Return the mark of the placeholder `number`."""
    return f"{_OPEN}{chr(_FIRST + number)}{_CLOSE}"


_WIDTH = re.compile(r"%[-+ #0]*[\d.]")
"""Regex of a width in a `%` format; a width would count the characters of the mark."""


class PlaceholderText(TraceText):
    """A text with placeholders.

    Supports concatenation, formatting and append. Operations that need the value raise TraceError.
    """

    placeholders: Placeholders

    def __new__(cls, text: str, placeholders: Placeholders) -> PlaceholderText:
        instance = super().__new__(cls, text)
        instance.placeholders = placeholders
        return instance

    def refuse(self, operation: str) -> NoReturn:
        """Raise TraceError because `operation` needs the value."""
        placeholder = self.placeholders.first(plain(self))
        if isinstance(placeholder, Argument):
            argument = f"the argument {placeholder.name!r}, which has none in a trace"
            reason = f"{operation} needs the value of {argument}"
            hint = f"give it one: {self.placeholders.title}.trace({placeholder.name}=...)"
        else:
            reason = f"this depends on generated data: {operation} of s[{placeholder.name!r}]"
            hint = f"run the program as it is: {self.placeholders.title}.run(...)"
        self.placeholders.refuse(reason, hint)

    @property
    def has_generated_data(self) -> bool:
        """True if a part of the text is generated data."""
        placeholders = self.placeholders.all
        return any(isinstance(placeholders[n], Variable) for n in numbers(plain(self)))

    def _converted(self, conversion: str) -> PlaceholderText:
        """Return the text after formatting with `conversion`."""
        text = plain(self)
        placeholder = self.placeholders.first(text)
        if _MARK.fullmatch(text) and placeholder.conversion is None:
            return self.placeholders.text(replace(placeholder, conversion=conversion))
        if conversion not in ("s", ":"):
            self.refuse("repr()" if conversion == "r" else "a format")
        return self

    def __add__(self, other: Any) -> Any:
        if isinstance(other, str):
            return PlaceholderText(plain(self) + plain(other), self.placeholders)
        return NotImplemented if isinstance(other, Expr) else self.refuse("a sum")

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, str):
            return PlaceholderText(plain(other) + plain(self), self.placeholders)
        return NotImplemented if isinstance(other, Expr) else self.refuse("a sum")

    def __rmod__(self, template: str) -> PlaceholderText:
        if _WIDTH.search(plain(template)):
            self.refuse("a width in %")
        return PlaceholderText(plain(template) % (self,), self.placeholders)

    def __format__(self, spec: str) -> str:
        return self._converted(f":{spec}")

    def __str__(self) -> str:
        return self._converted("s")

    def __repr__(self) -> str:
        return self._converted("r")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(f".{name}")


def _refusing(operation: str) -> Callable[..., Any]:
    def method(self: PlaceholderText, *args: Any, **kwargs: Any) -> Any:
        self.refuse(operation)

    return method


_OPERATIONS = {
    "__len__": "len()", "__hash__": "hash()", "__iter__": "a loop", "__contains__": "`in`",
    "__getitem__": "an index", "__bool__": "its truth", "__eq__": "==", "__ne__": "!=",
    "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=", "__mod__": "%", "__mul__": "*",
    "__rmul__": "*",
}  # fmt: skip
_NUMBERS = (
    "int float index complex neg pos abs invert round trunc floor ceil sub rsub truediv rtruediv"
    " floordiv rfloordiv pow rpow divmod rdivmod and rand or ror xor rxor lshift rlshift"
    " rshift rrshift matmul rmatmul"
)
_METHODS = [name for name in dir(str) if not name.startswith("_")]
for _name in _METHODS:
    setattr(PlaceholderText, _name, _refusing(f"{_name}()"))
for _name in (*_OPERATIONS, *(f"__{name}__" for name in _NUMBERS.split())):
    setattr(PlaceholderText, _name, _refusing(_OPERATIONS.get(_name, f"{_name.strip('_')}()")))


def plain(value: Any) -> Any:
    """Replace the placeholders in `value` by texts with marks, also inside lists, tuples, sets and
    dicts."""

    def change(text: str) -> str:
        return "".join(("", text)) if isinstance(text, PlaceholderText) else text

    return _map_texts(value, change)


def plain_items(arguments: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return names and `plain` values of arguments."""
    return tuple((name, plain(value)) for name, value in arguments.items())


def with_placeholders(value: Any, placeholders: Placeholders) -> Any:
    """Replace the marked texts in `value` by placeholders: the inverse of `plain`."""

    def change(text: str) -> str:
        return PlaceholderText(text, placeholders) if _OPEN in text else text

    return _map_texts(value, change)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to `value` or to the texts in lists, tuples, sets and dicts."""
    if isinstance(value, str):
        return change(value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_map_texts(item, change) for item in value)
    if type(value) is dict:
        return {_map_texts(key, change): _map_texts(item, change) for key, item in value.items()}
    return value


def is_marked(text: str) -> bool:
    """Return whether `text` contains a mark or the remains of a mark."""
    return _BROKEN.search(text) is not None


def cut(text: str) -> list[str | int]:
    """Split `text` into constant strings and placeholder numbers.

    Raises:
        TraceError: A mark is damaged.
    """
    pieces: list[str | int] = []
    for i, part in enumerate(_MARK.split(text)):
        if i % 2:
            pieces.append(ord(part) - _FIRST)
        elif _BROKEN.search(part):
            hint = "use the argument's text as it is, or give it a value: f.trace(name=...)"
            raise TraceError(f"{caller()}: a text with an argument in it was changed", hint)
        elif part:
            pieces.append(part)
    return pieces


def numbers(value: Any) -> Iterator[int]:
    """Yield the numbers of the placeholders in the texts of `value`.

    Raises:
        TraceError: An object in `value` contains a placeholder.
    """
    if isinstance(value, str):
        yield from (piece for piece in cut(value) if isinstance(piece, int))
    elif type(value) in (list, tuple, set, frozenset):
        for item in value:
            yield from numbers(item)
    elif type(value) is dict:
        yield from numbers([*value.items()])
    elif not isinstance(value, (int, float, bytes, type(None))) and is_marked(repr(value)):
        message = f"{caller()}: a {type(value).__name__} has an argument or generated data in it"
        raise TraceError(message, "append or set texts, or lists, tuples, sets and dicts of them")


def fill(value: Any, read: Callable[[int], str]) -> Any:
    """Replace each placeholder in the texts of `value` by `read(number)`."""

    def change(text: str) -> str:
        return _MARK.sub(lambda mark: read(ord(mark[1]) - _FIRST), text) if _OPEN in text else text

    return _map_texts(value, change)
