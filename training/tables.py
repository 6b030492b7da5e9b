"""The tables: the files in `data/`, read here and nowhere else.

A file is TOML. `<word>` in one of its texts stands for the entry `word` of its section [words],
which may hold others; an element of an array that is nothing but a `<word>` may stand for several.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Texts = tuple[str, ...]
Pairs = dict[str, str]
Groups = dict[str, Texts]
"""Texts under the name of what they belong to."""

FOLDER = Path(__file__).parent / "data"
WORD = re.compile(r"<(\w+)>")


class Table:
    """One file: `get` gives an entry of it, or one of its words, as the type that is asked for."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.toml"
        self.entries: dict[str, Any] = tomllib.loads(self.path.read_text(encoding="utf-8"))
        self.words: dict[str, Any] = self.entries.pop("words", {})

    def get(self, name: str, kind: type[T]) -> T:
        try:
            made: T = made_of(kind, self._filled((self.words | self.entries)[name]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: {name}: {error!r}") from error
        return made

    def _filled(self, value: Any) -> Any:
        """The value with every `<word>` of the file filled in."""
        if isinstance(value, str):
            return WORD.sub(self._word, value) if self.words else value
        if isinstance(value, list):
            return [each for part in value for each in self._several(part)]
        if isinstance(value, dict):
            return {key: self._filled(part) for key, part in value.items()}
        return value

    def _several(self, part: Any) -> list[Any]:
        """What an element of an array stands for: one value, or all of a word that is an array."""
        found = WORD.fullmatch(part) if isinstance(part, str) else None
        several = self.words.get(found[1]) if found else None
        return self._filled(several) if isinstance(several, list) else [self._filled(part)]

    def _word(self, found: re.Match[str]) -> str:
        word = self.words.get(found[1])
        return found[0] if word is None else str(self._filled(word))


@cache
def table(name: str) -> Table:
    return Table(name)


def made_of(kind: Any, value: Any) -> Any:
    """What TOML holds as tuples, lists, dicts, named tuples and data classes, as `kind` says."""
    if kind is Any:
        return value
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and args[-1] is not Ellipsis:
        return tuple(made_of(each, part) for each, part in zip(args, value, strict=True))
    if origin in (tuple, list):
        return origin(made_of(args[0], part) for part in value)
    if origin is dict:
        return {args[0](key): made_of(args[1], part) for key, part in value.items()}
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _record(kind: Any, value: Any) -> Any:
    """A named tuple or a data class from its fields in a row, or by their names."""
    hints = get_type_hints(kind)
    if isinstance(value, list):
        rows = zip(hints.values(), value, strict=True)
        return kind(*(made_of(hint, part) for hint, part in rows))
    return kind(**{name: made_of(hints[name], part) for name, part in value.items()})
