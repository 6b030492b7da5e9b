"""What a program holds in place of a value that is not there while it is traced: a text with a mark
for each such value, which is filled in when the graph runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from string import printable
from typing import Any, NoReturn

from ...errors import TraceError
from ..ir import Expr
from ..location import caller

_LEFT, _RIGHT, _FIRST = "\U0010f5a7", "\U0010f5a8", 0x100000
_LETTERS = "zyxwvutsrqponmlkjihgfedcba"
_SIGNS = "\n \n[(){}?*+|^$.\\\\]"  # a set, where the text is a pattern
_ASCII = _SIGNS + "".join(one for one in f"\0{printable[::-1]}" if one not in f"{_SIGNS}[]")
_OPEN, _CLOSE = f" {_LEFT}{_ASCII}{_LEFT}", f"{_RIGHT} "
"""Of a mark: private characters around one that counts, between spaces and after what ASCII has.
What strips, cuts, escapes, indents or replaces in a text changes the mark, which is found."""

_MARK = re.compile(f"{re.escape(_OPEN)}(.){re.escape(_CLOSE)}", re.DOTALL)
_BROKEN = re.compile(
    rf"[{_LEFT}{_RIGHT}]|\\udbfd\\udda[78]|\\U0010f5a[78]|{_LETTERS}|(%|\\x)f4(%|\\x)8f(%|\\x)96",
    re.IGNORECASE,
)
"""What is left of one that was changed, or escaped as JSON, Python or an address writes it."""


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of an argument. how: None for a text as it is; "s", "r": what `str` or `repr` gives
    of it; ":" and a format's specification."""

    name: str
    how: str | None = None

    def __str__(self) -> str:
        how = {None: "", "s": "", ":": "", "r": "!r"}
        return f"{{{self.name}{how.get(self.how, self.how)}}}"


@dataclass(frozen=True, slots=True)
class Variable:
    """The text of a variable that a stream sets, at the `version`-th time; `item` of several."""

    stream: int
    name: str
    version: int
    item: int | None = None
    how: str | None = None

    def __str__(self) -> str:
        of = "" if self.item is None else f"[{self.item}]"
        return f"s{self.stream}[{self.name!r}]{of}"


Hole = Argument | Variable


class Holes:
    """The holes of one program, in their order."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.all: list[Hole] = []
        self.refused: TraceError | None = None  # the first, which the code may have caught
        self._numbers: dict[Hole, int] = {}

    def placeholder(self, hole: Hole) -> Placeholder:
        number = self._numbers.setdefault(hole, len(self.all))
        if number == len(self.all):
            self.all.append(hole)
        return Placeholder(f"{_OPEN}{chr(_FIRST + number)}{_CLOSE}", self)

    def refuse(self, why: str, hint: str) -> NoReturn:
        """Raise a TraceError of the user's line. It ends the trace, caught or not."""
        error = TraceError(f"{caller()}: {why}", hint)
        self.refused = self.refused or error
        raise error

    def first(self, text: str) -> Hole:
        """The first one that `text` has a mark of."""
        return next(self.all[number] for number in numbers(text))


_WIDTH = re.compile(r"%[-+ #0]*[\d.]")
"""Of what `%` puts in: it would count the characters of a mark."""


class Placeholder(str):
    """A text with holes. It can be joined to others, formatted and appended; all that depends on
    the value is a TraceError."""

    holes: Holes

    def __new__(cls, text: str, holes: Holes) -> Placeholder:
        made = super().__new__(cls, text)
        made.holes = holes
        return made

    def refuse(self, what: str) -> NoReturn:
        """Say that `what` needs the value."""
        hole = self.holes.first(plain(self))
        if isinstance(hole, Argument):
            why = f"{what} needs the value of the argument {hole.name!r}, which has none in a trace"
            hint = f"give it one: {self.holes.title}.trace({hole.name}=...)"
        else:
            why = f"this depends on generated data: {what} of s[{hole.name!r}]"
            hint = f"run the program as it is: {self.holes.title}.run(...)"
        self.holes.refuse(why, hint)

    def _put(self, how: str) -> Placeholder:
        """The text that a format makes of this."""
        text = plain(self)
        hole = self.holes.first(text)
        if _MARK.fullmatch(text) and hole.how is None:
            return self.holes.placeholder(replace(hole, how=how))
        if how not in ("s", ":"):
            self.refuse("repr()" if how == "r" else "a format")
        return self

    def __add__(self, other: Any) -> Any:
        if isinstance(other, str):
            return Placeholder(plain(self) + plain(other), self.holes)
        return NotImplemented if isinstance(other, Expr) else self.refuse("a sum")

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, str):
            return Placeholder(plain(other) + plain(self), self.holes)
        return NotImplemented if isinstance(other, Expr) else self.refuse("a sum")

    def __rmod__(self, template: str) -> Placeholder:
        if _WIDTH.search(plain(template)):
            self.refuse("a width in %")
        return Placeholder(plain(template) % (self,), self.holes)

    def __format__(self, spec: str) -> str:
        return self._put(f":{spec}")

    def __str__(self) -> str:
        return self._put("s")

    def __repr__(self) -> str:
        return self._put("r")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(f".{name}")


def _refusing(what: str) -> Callable[..., Any]:
    def method(self: Placeholder, *args: Any, **kwargs: Any) -> Any:
        self.refuse(what)

    return method


_TOLD = {
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
    setattr(Placeholder, _name, _refusing(f"{_name}()"))
for _name in (*_TOLD, *(f"__{name}__" for name in _NUMBERS.split())):
    setattr(Placeholder, _name, _refusing(_TOLD.get(_name, f"{_name.strip('_')}()")))


def plain(value: Any) -> Any:
    """`value` with its placeholders as texts with marks, inside lists, tuples, sets and dicts
    too."""
    if isinstance(value, Placeholder):
        return "".join(("", value))
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(key): plain(one) for key, one in value.items()}
    return value


def placed(value: Any, holes: Holes) -> Any:
    """The other way round: texts with marks as placeholders."""
    if isinstance(value, str):
        return Placeholder(value, holes) if _OPEN in value else value
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(placed(one, holes) for one in value)
    if type(value) is dict:
        return {placed(key, holes): placed(one, holes) for key, one in value.items()}
    return value


def is_marked(text: str) -> bool:
    """Whether a mark, or what is left of one, is in `text`."""
    return _BROKEN.search(text) is not None


def cut(text: str) -> list[str | int]:
    """`text` in order, as stretches without holes and the numbers of holes. TraceError where a mark
    is not whole."""
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
    """Of the holes in the texts of `value`. TraceError for those in an object, which nothing could
    fill."""
    if isinstance(value, str):
        yield from (piece for piece in cut(value) if isinstance(piece, int))
    elif type(value) in (list, tuple, set, frozenset):
        for one in value:
            yield from numbers(one)
    elif type(value) is dict:
        yield from numbers([*value.items()])
    elif not isinstance(value, (int, float, bytes, type(None))) and is_marked(repr(value)):
        what = f"{caller()}: a {type(value).__name__} has an argument or generated data in it"
        raise TraceError(what, "append or set texts, or lists, tuples, sets and dicts of them")


def fill(value: Any, read: Callable[[int], str]) -> Any:
    """`value` with what `read` gives for each hole, by its number, in the texts inside of it."""
    if isinstance(value, str):
        if _OPEN not in value:
            return value
        return _MARK.sub(lambda mark: read(ord(mark[1]) - _FIRST), value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(fill(one, read) for one in value)
    if type(value) is dict:
        return {fill(key, read): fill(one, read) for key, one in value.items()}
    return value
