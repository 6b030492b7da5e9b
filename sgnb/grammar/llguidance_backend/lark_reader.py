"""Reader of llguidance's Lark notation to a syntax tree, for shortest texts and endings.

llguidance matches the texts; its lexer is greedy and skips `%ignore`. The tree has all texts of the
grammar without ignored parts, and may have further texts. Its shortest length is a bound.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ...errors import GrammarError
from ..regex.parser import parse
from ..syntax import (
    Chars,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    alternate,
    concat,
    optional,
)

_TOKEN = re.compile(
    r"""
    (?P<skip> [ \t\r]+ | (?:\#|//)[^\n]* )
    | (?P<line> \n )
    | (?P<string> "(?:\\.|[^"\\\n])*" i? )
    | (?P<regex> /(?:\\.|[^/\\\n])+/ [imsx]* (?![A-Za-z]) )
    | (?P<ignored> %ignore [^\n]* )
    | (?P<imported> %import [ ] common\. [A-Za-z_]+ )
    | (?P<name> [?!]? [A-Za-z_][A-Za-z0-9_-]* )
    | (?P<braces> \{ \s*[0-9]*\s* (?: ,\s*[0-9]*\s* )? \} )
    | (?P<count> ~ \s* [0-9]+ (?:\.\.[0-9]+)? )
    | (?P<alias> -> [ \t]* [A-Za-z_]\w* )
    | (?P<mark> \.\. | [:|()\[\]?*+] )
    """,
    re.VERBOSE,
)
_COMMON = {
    "DIGIT": "[0-9]",
    "INT": "[0-9]+",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "NEWLINE": r"(\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
}
_DEEPEST = 100


class _UnknownNotation(Exception):
    """The grammar has a construct that this reader does not know, or an error."""


class _Token(NamedTuple):
    kind: str
    text: str


def read_lark(text: str) -> Rules | None:
    """Return the syntax tree of a grammar with the start rule `start`.

    Args:
        text: grammar in Lark notation.

    Returns:
        The tree. None for unknown constructs such as `%json`, and for invalid grammars.
    """
    try:
        return _LarkReader(text).rules()
    except (_UnknownNotation, GrammarError):
        return None


class _LarkReader:
    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        self._at = self._depth = 0
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                raise _UnknownNotation
            if match.lastgroup not in ("skip", "ignored", "alias"):
                self._tokens.append(_Token(match.lastgroup, match[0]))
            place = match.end()
        self._tokens.append(_Token("line", "\n"))

    def rules(self) -> Rules:
        rules: dict[str, Node] = {}
        while self._skip_lines():
            token = self._next()
            if token.kind == "imported":
                name = token.text.rpartition(".")[2]
                rules[name] = _common(name)
                continue
            if token.kind != "name":
                raise _UnknownNotation
            self._expect(":")
            rules[token.text.lstrip("?!")] = self._options(nested=False)

        used = {token.text for token in self._tokens if token.kind == "name"}
        if "start" not in rules or not {name.lstrip("?!") for name in used} <= rules.keys():
            raise _UnknownNotation
        return Rules(Reference("start"), rules)

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, mark: str) -> None:
        if self._next().text != mark:
            raise _UnknownNotation

    def _skip_lines(self) -> bool:
        """Skip line ends; return False at the end of the grammar."""
        while self._peek().kind == "line":
            self._at += 1
        return self._peek().kind != "end"

    def _options(self, nested: bool) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownNotation

        options = [self._sequence(nested)]
        while self._bar(nested):
            options.append(self._sequence(nested))
        self._depth -= 1
        return alternate(*options)

    def _bar(self, nested: bool) -> bool:
        """Skip a `|`, which may also start the next line."""
        start = self._at
        self._skip_lines()
        if self._peek().text == "|":
            self._at += 1
            return True
        if not nested:
            self._at = start
        return False

    def _sequence(self, nested: bool) -> Node:
        parts: list[Node] = []
        while True:
            if nested:
                self._skip_lines()
            token = self._peek()
            if token.kind in ("line", "end") or token.text in ("|", ")", "]"):
                return concat(*parts)

            parts.append(self._repeated(self._part()))

    def _part(self) -> Node:
        token = self._next()
        if token.kind == "name" and self._peek().text != ":":
            return Reference(token.text)

        if token.kind == "regex":
            pattern, _, flags = token.text[1:].rpartition("/")
            return parse(f"(?{flags}){pattern}" if flags else pattern)

        if token.kind == "string":
            return self._string(token.text)

        if token.text in ("(", "["):
            node = self._options(nested=True)
            self._expect(")" if token.text == "(" else "]")
            return node if token.text == "(" else optional(node)
        raise _UnknownNotation

    def _string(self, quoted: str) -> Node:
        low = _unquoted(quoted)
        if self._peek().text != "..":
            return Literal(low) if low else concat()
        self._at += 1

        high = _unquoted(self._next().text)
        if len(low) != 1 or len(high) != 1 or high < low:
            raise _UnknownNotation
        return Chars(((ord(low), ord(high)),))

    def _repeated(self, node: Node) -> Node:
        while True:
            token = self._peek()

            if token.kind in ("braces", "count"):
                first, comma, last = re.sub(r"[~{}\s]", "", token.text).partition(
                    "," if token.kind == "braces" else ".."
                )
                low = int(first or 0)
                node = Repeat(node, low, int(last) if last else None if comma else low)
            elif token.text in ("?", "*", "+"):
                node = Repeat(node, int(token.text == "+"), 1 if token.text == "?" else None)
            else:
                return node
            self._at += 1


def _common(name: str) -> Node:
    if name not in _COMMON:
        raise _UnknownNotation
    return parse(_COMMON[name])


def _unquoted(quoted: str) -> str:
    try:
        text = json.loads(quoted.removesuffix("i"))
    except ValueError:
        raise _UnknownNotation from None
    if not isinstance(text, str):
        raise _UnknownNotation
    return text
