"""Parser of magic lines: words, checked against a table of options. Knows no engine.

The tables are the only source for parsing, help texts and completion.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..benchmark.variants import PER_REQUEST
from ..errors import OptionError, nearest, renamed
from ..lang.core.stepping import read_until
from ..lang.source import literal
from ..viz import KEPT_VIEWS, VIEWS

_CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    dest: str  # key of the value in the result
    help: str
    metavar: str = ""
    convert: Callable[[str, str], Any] | None = None  # (flag, word) -> value; None for a switch
    many: bool = False  # repeatable: values form a list
    former: tuple[str, ...] = ()  # accepted with a warning, in no help text


def option(
    flags: str,
    help: str,
    metavar: str = "",
    convert: Callable[[str, str], Any] | None = None,
    *,
    dest: str = "",
    many: bool = False,
    former: str = "",
) -> Option:
    """Create an `Option`.

    Args:
        flags: Flags separated by blanks.
        help: Line of the help text.
        metavar: Name of the value in the help text.
        convert: Converts (flag, word) to the value; None for a switch.
        dest: Key of the value; by default the last flag.
        many: True for a repeatable option.
        former: Former flags separated by blanks.
    """
    names = tuple(flags.split())
    dest = dest or names[-1][2:].replace("-", "_")
    return Option(names, dest, help, metavar, convert, many, tuple(former.split()))


def split(line: str) -> list[str]:
    """Split a line at blanks outside of quotes and brackets: `--over [q for q in qs]` is two words.

    Args:
        line: Line after the magic.

    Raises:
        OptionError: A quote or bracket is not closed.
    """
    words, word = [], ""
    open_: list[str] = []
    escaped = False
    for char in line:
        quoted = bool(open_) and open_[-1] in "'\""
        if char.isspace() and not open_:
            words.append(word)
            word = ""
            continue
        word += char
        if escaped or (quoted and char == "\\"):
            escaped = not escaped
        elif open_ and char == open_[-1]:
            open_.pop()
        elif not quoted and char in "'\"([{":
            open_.append(_CLOSER.get(char, char))

    if open_:
        message = f"the line ends before its closing {open_[-1]}"
        raise OptionError(message, f"close what {word!r} opens")
    return [w for w in [*words, word] if w]


def unquote(word: str) -> str:
    """Return the word without surrounding quotes."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def parse(words: Iterable[str], options: Sequence[Option]) -> tuple[list[str], dict[str, Any]]:
    """Parse words into arguments and options.

    Args:
        words: Words of the line.
        options: Valid options.

    Returns:
        Words without options, and option values by `dest`.

    Raises:
        OptionError: An option is unknown, or a value is invalid.
    """
    by_flag = {flag: option for option in options for flag in (*option.flags, *option.former)}
    arguments: list[str] = []
    values: dict[str, Any] = {}
    words = iter(words)
    for word in words:
        if not word.startswith("-"):
            arguments.append(word)
            continue

        flag, separator, value = word.partition("=")
        option = by_flag.get(flag)
        if option is None:
            raise OptionError(f"unknown option {flag!r}", nearest(flag, by_flag))
        if flag in option.former:
            renamed(flag, option.flags[0])
        if option.convert is None:
            if separator:
                raise OptionError(f"{flag} takes no value, got {value!r}", f"write {flag} alone")
            values[option.dest] = True
            continue

        if not separator:
            value = next(words, "")
        if not value:
            raise OptionError(f"{flag} needs a value", f"{flag} {option.metavar}: {option.help}")
        converted = option.convert(flag, value)
        values[option.dest] = (
            [*values.get(option.dest, []), converted] if option.many else converted
        )
    return arguments, values


def parse_raw(line: str, options: Sequence[Option]) -> tuple[list[str], dict[str, Any]]:
    """Parse a line with a verbatim argument and options before or after the argument.

    Args:
        line: Line after the command.
        options: Valid options. A value of an option is one word.

    Returns:
        The argument as a list of words, and option values by `dest`.
    """
    by_flag = {flag: option for option in options for flag in option.flags}
    flags: list[str] = []
    line = line.strip()
    while words := line.split():
        if (option := by_flag.get(words[0])) is not None:
            size = 1 if option.convert is None else 2
            flags += words[:size]
            line = line.split(maxsplit=size)[size] if len(words) > size else ""
            continue
        size = next((size for size in (1, 2) if _ends_with_option(words, size, by_flag)), 0)
        if not size:
            break
        flags += words[-size:]
        line = line.rsplit(maxsplit=size)[0] if len(words) > size else ""
    _, values = parse(flags, options)

    for word in (words[0], words[-1]) if words else ():
        if word.startswith("--") and word[2:].isalpha():
            hint = f"{nearest(word, by_flag)} If the word is an argument, quote it"
            raise OptionError(f"unknown option {word!r}", hint)
    return [line] if line else [], values


def _ends_with_option(words: list[str], size: int, by_flag: Mapping[str, Option]) -> bool:
    """Return whether the last `size` words are a flag, or a flag with a value."""
    option = by_flag.get(words[-size]) if len(words) >= size else None
    return option is not None and (size == 1 or option.convert is not None)


def text(flag: str, word: str) -> str:
    return unquote(word)


def number(flag: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError(f"{flag} {word} is not a number", f"for example {flag} 0.7")
    return value


def seconds(flag: str, word: str) -> float:
    value = number(flag, word)
    if value <= 0:
        hint = f"give seconds above 0, for example {flag} 30"
        raise OptionError(f"{flag} {word} is not a time", hint)
    return value


def integer(flag: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        message = f"{flag} {word} is not a whole number"
        raise OptionError(message, f"for example {flag} 32") from None


def replicas(flag: str, word: str) -> int | tuple[int, int]:
    """Parse a number, or a minimum and a maximum such as 1..4."""
    least, separator, most = word.partition("..")
    if not separator:
        return integer(flag, word)
    if not (least.isdecimal() and most.isdecimal()):
        message = f"{flag} {word} is not a minimum and a maximum"
        raise OptionError(message, f"for example {flag} 1..4")
    return int(least), int(most)


def on_off(flag: str, word: str) -> bool:
    if word not in ("on", "off"):
        raise OptionError(f"{flag} {word!r} is neither on nor off", f"for example {flag} off")
    return word == "on"


def disk(flag: str, word: str) -> bool | float | str:
    """Parse `on`, `off`, a number of GiB, or a folder."""
    word = unquote(word)
    if word in ("on", "off"):
        return word == "on"
    try:
        return float(word)
    except ValueError:
        return word


def identifier(flag: str, word: str) -> str:
    word = unquote(word)
    if not word.isidentifier() or keyword.iskeyword(word):
        hint = "letters, digits and _, no digit first"
        raise OptionError(f"{flag} {word!r} is not a Python name", hint)
    return word


def pair(flag: str, word: str) -> tuple[str, str]:
    """Split `k=v` into (k, v). The type of v depends on the parameter k, so v stays text."""
    name, separator, value = word.partition("=")
    if not separator:
        message = f"{flag} {word} has no value for {word!r}"
        raise OptionError(message, f"for example {flag} {word}=3")
    return identifier(flag, name), value


def views(flag: str, word: str) -> tuple[str, ...]:
    """Parse `none`, `all`, or names of views separated by commas."""
    names, valid = word.split(","), (*VIEWS, "none", "all")
    for name in names:
        if name not in valid:
            raise OptionError(f"{flag} {name!r}: not a view", nearest(name, valid))
    if "all" in names:
        return VIEWS
    return tuple(dict.fromkeys(name for name in names if name != "none"))


def kept_views(flag: str, word: str) -> tuple[str, ...]:
    """Parse names of views with a static picture, separated by commas."""
    names = tuple(dict.fromkeys(word.split(",")))
    for name in names:
        if name not in KEPT_VIEWS:
            raise OptionError(f"{flag} {name!r}: not a view", nearest(name, KEPT_VIEWS))
    return names


def condition(flag: str, word: str) -> int | str:
    """Read a condition of a pause; see `lang.core.stepping.read_until`."""
    line, _ = read_until(unquote(word))
    return line or unquote(word)


def ablations(flag: str, word: str) -> tuple[str, ...]:
    """Parse names of ablations separated by commas."""
    names = tuple(dict.fromkeys(word.split(",")))
    for name in names:
        if name not in PER_REQUEST:
            raise OptionError(f"{flag} {name!r}: not a variant", nearest(name, PER_REQUEST))
    return names


TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": (float, int),
    "bool": bool,
    "list": list,
    "dict": dict,
}
"""Valid parameter types, with the accepted Python types."""


@dataclass(frozen=True, slots=True)
class Param:
    """Parameter of a program: `ident[:type][=literal]`."""

    name: str
    type: str = ""
    default: str = ""  # literal as source text

    @classmethod
    def parse(cls, word: str) -> Param:
        head, separator, default = word.partition("=")
        name, _, type_ = head.partition(":")
        identifier("parameter", name)
        if name == "s":
            hint = "s is the program's state; choose another name"
            raise OptionError("a parameter cannot be named 's'", hint)
        if type_ and type_ not in TYPES:
            raise OptionError(f"parameter {word!r}: unknown type {type_!r}", nearest(type_, TYPES))
        if separator:
            _literal(f"parameter {word!r}", default)
        return cls(name, type_, default)

    def __str__(self) -> str:
        annotated = self.name + (f": {self.type}" if self.type else "")
        return annotated + (f" = {self.default}" if self.default else "")

    def value(self, word: str) -> Any:
        """Convert a `--run` value: text for a str parameter, otherwise a literal if possible."""
        if self.type == "str":
            return unquote(word)
        try:
            value = literal(word)
        except (ValueError, SyntaxError):
            value = word
        if self.type and not isinstance(value, TYPES[self.type]):
            message = f"--run {self.name}={word} is not of type {self.type}"
            raise OptionError(message, f"give a literal of type {self.type}")
        return value


def _literal(label: str, word: str) -> Any:
    try:
        return literal(word)
    except (ValueError, SyntaxError):
        message = f"{label}: {word!r} is not a Python literal"
        raise OptionError(message, 'for example n=3 or q="text"') from None
