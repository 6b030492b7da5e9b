r"""Leading look-ahead, look-behind before the end of a text, and `\b` at the start or end of a
pattern, rewritten as intersections.

`^(?=.*\d)(?!.*x)\w{8,}(?<!_)$` means the texts of `^\w{8,}$` that match `^.*\d` and do not match
`^.*x` or `_$`. Each alternative is rewritten separately. All other look-ahead, look-behind and
boundaries stay in the pattern, and the parser refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..syntax import EMPTY, Chars, Intersect, Node, Repeat, Without, alternate, concat
from .characters import SCALARS
from .classes import characters
from .pattern_reader import check_with_re

Parse = Callable[[str, bool, bool], Node]
"""(pattern, whole, portable) -> tree."""

_FLAGS = re.compile(r"\(\?([ais]+)\)")
_MARK = re.compile(r"\(\?<?[=!]|\\b")
_ANY = Repeat(Chars(SCALARS), 0, None)


@dataclass(frozen=True, slots=True)
class _Alternative:
    """An alternative of a pattern, split into assertions and core."""

    core: str
    anchored: bool = False  # preceded by ^
    ended: bool = False  # followed by $
    wanted: tuple[str, ...] = ()  # patterns of (?=...)
    unwanted: tuple[str, ...] = ()  # patterns of (?!...)
    last: tuple[str, ...] = ()  # patterns of (?<=...) before the end
    not_last: tuple[str, ...] = ()  # patterns of (?<!...) before the end
    begins: bool = False  # preceded by \b
    ends: bool = False

    @property
    def plain(self) -> bool:
        return not (self.looks or self.begins or self.ends)

    @property
    def looks(self) -> bool:
        return bool(self.wanted or self.unwanted or self.last or self.not_last)


def asserted(pattern: str, whole: bool, portable: bool, parse: Parse) -> Node | None:
    """Return the syntax tree of a pattern with look-ahead or anchors; None if the pattern has none,
    or an unsupported assertion.

    Args:
        pattern: pattern in the syntax of `re`.
        whole: True if the pattern must match the whole text.
        portable: True for the common subset of Python and ECMAScript. Unanchored look-ahead is then
            bound to the start of the text, which allows fewer texts rather than more.
        parse: parser for patterns without assertions.
    """
    if not _MARK.search(pattern) or not _is_regex(pattern):
        return None
    match = _FLAGS.match(pattern)
    flags = match[0] if match else ""
    options = [_read(option) for option in _alternatives(pattern[len(flags) :])]
    if all(option.plain for option in options):
        return None
    if any(o.wanted or o.unwanted for o in options if not (o.anchored or whole or portable)):
        return None
    if any(o.last or o.not_last for o in options if not (o.ended or whole or portable)):
        return None
    return alternate(*(_tree(option, flags, whole, portable, parse) for option in options))


def _is_regex(pattern: str) -> bool:
    try:
        check_with_re(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _tree(option: _Alternative, flags: str, whole: bool, portable: bool, parse: Parse) -> Node:
    ahead = bool(option.wanted or option.unwanted)
    behind = bool(option.last or option.not_last)
    option = replace(
        option, anchored=option.anchored or whole or ahead, ended=option.ended or whole or behind
    )
    if option.begins or option.ends:
        node = _bounded(option, parse(f"{flags}{option.core}", True, portable), portable)
    else:
        prefix, suffix = "^" if option.anchored else "", "$" if option.ended and not whole else ""
        node = parse(f"{flags}{prefix}(?:{option.core}){suffix}", whole, portable)

    parts = [node, *(parse(f"{flags}^(?:{want})", False, portable) for want in option.wanted)]
    parts += (concat(_ANY, parse(flags + want, True, portable)) for want in option.last)
    node = Intersect(tuple(parts)) if len(parts) > 1 else node
    removed = [parse(f"{flags}^(?:{text})", False, False) for text in option.unwanted]
    removed += [concat(_ANY, parse(flags + text, True, False)) for text in option.not_last]
    return Without(node, alternate(*removed)) if removed else node


def _bounded(option: _Alternative, core: Node, portable: bool) -> Node:
    """Surround the texts of `core` with any text, with word boundaries if demanded."""
    word = Chars(characters((), "w", False, frozenset(), portable))
    other = Chars(characters((), "W", False, frozenset(), portable))
    befores: list[tuple[Node, Node | None]] = [(EMPTY if option.anchored else _ANY, None)]
    if option.begins:
        outside = EMPTY if option.anchored else Repeat(concat(_ANY, other), 0, 1)
        befores = [(outside, concat(word, _ANY))]
        befores += [] if option.anchored else [(concat(_ANY, word), concat(other, _ANY))]
    afters: list[tuple[Node, Node | None]] = [(EMPTY if option.ended else _ANY, None)]

    if option.ends:
        outside = EMPTY if option.ended else Repeat(concat(other, _ANY), 0, 1)
        afters = [(outside, concat(_ANY, word))]
        afters += [] if option.ended else [(concat(word, _ANY), concat(_ANY, other))]
    rows = []
    for prefix, first in befores:
        for suffix, last in afters:
            inner = tuple(part for part in (core, first, last) if part is not None)
            rows.append(concat(prefix, Intersect(inner) if len(inner) > 1 else core, suffix))
    return alternate(*rows)


def _read(text: str) -> _Alternative:
    option = _Alternative(text)
    at, tokens = 0, list(_tokens(text))
    for number, token in enumerate(tokens):
        quantified = tokens[number + 1 : number + 2] and tokens[number + 1][0] in "*+?{"
        if token in ("^", r"\A"):
            option = replace(option, anchored=True)
        elif token == r"\b":
            option = replace(option, begins=True)
        elif token.startswith("(?=") and not quantified:
            option = replace(option, wanted=(*option.wanted, token[3:-1]))
        elif token.startswith("(?!") and not quantified:
            option = replace(option, unwanted=(*option.unwanted, token[3:-1]))
        else:
            break
        at += len(token)
        tokens[number] = ""

    end = len(text)
    if tokens and tokens[-1] == "$":
        option, end = replace(option, ended=True), end - len(tokens.pop())
    while tokens and tokens[-1].startswith(("(?<=", "(?<!")):
        look = tokens.pop()
        end -= len(look)
        if look[3] == "=":
            option = replace(option, last=(*option.last, look[4:-1]))
        else:
            option = replace(option, not_last=(*option.not_last, look[4:-1]))
    if tokens and tokens[-1] == r"\b":
        option, end = replace(option, ends=True), end - len(tokens.pop())
    return replace(option, core=text[at:end])


def _alternatives(pattern: str) -> list[str]:
    options = [""]
    for token in _tokens(pattern):
        if token == "|":
            options.append("")
        else:
            options[-1] += token
    return options


def _tokens(pattern: str) -> Iterator[str]:
    """Yield characters, escapes, classes, and whole groups including nested groups."""
    at, begin, depth = 0, 0, 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
        elif pattern[at] == "[":
            at = _end_of_class(pattern, at)
        else:
            depth += {"(": 1, ")": -1}.get(pattern[at], 0)
            at += 1
        if depth <= 0:
            yield pattern[begin:at]
            begin = at

    if begin < len(pattern):
        yield pattern[begin:]


def _end_of_class(pattern: str, at: int) -> int:
    at += 2 if pattern.startswith("[^", at) else 1
    at += pattern.startswith("]", at)
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1
