"""Parser for GBNF, the grammar notation of llama.cpp (`root ::= ...`), to a syntax tree.

Every character counts: nothing is skipped between the parts of a rule, and no rule is greedy. Knows
no library. Source of the notation: llama.cpp, grammars/README.md.
"""

from __future__ import annotations

import re

from ...errors import GrammarError
from ..regex.characters import SCALARS, complement, union
from ..syntax import (
    EMPTY,
    Alternate,
    Chars,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    alternate,
    concat,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9][A-Za-z0-9_-]*")
_HEAD = re.compile(r"[A-Za-z0-9_-]+[ \t]*::=")
_SPACE = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_COUNT = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]+)?\s*)?\}")
_ESCAPE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})")
_RUN = re.compile(r'[^"\\\n\ud800-\udfff]+')
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"} | {char: char for char in '\\"[]-^'}
_HINT = 'write rules as  name ::= "text" [a-z] other* ( a | b )  and begin with  root ::= '
_DEEPEST = 100
_LAST = 0x10FFFF


def is_gbnf(text: str) -> bool:
    """Return True if a line of `text` starts a rule in GBNF.

    Args:
        text: grammar of a user.
    """
    return re.search(r"^[ \t]*[A-Za-z0-9_-]+[ \t]*::=", text, re.MULTILINE) is not None


def parse_gbnf(text: str) -> Rules:
    """Parse a grammar with the start rule `root`.

    Args:
        text: grammar in GBNF.

    Raises:
        GrammarError: the grammar is invalid; the message has line and column.
    """
    return _GbnfParser(text.replace("\r\n", "\n").replace("\r", "\n")).rules()


class _GbnfParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.named: dict[str, int] = {}

    def error(self, message: str, at: int | None = None, hint: str = _HINT) -> GrammarError:
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return GrammarError(f"ebnf, line {line}, column {column}: {message}", hint)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def space(self, lines: bool) -> None:
        """Skip blanks and comments; with `lines`, also line ends."""
        while True:
            start = self.at
            match = _SPACE.match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            if lines and self.peek() == "\n":
                self.at += 1
            if self.at == start:
                return

    def rules(self) -> Rules:
        rules: dict[str, Node] = {}
        self.space(lines=True)

        while self.at < len(self.text):
            begin, name = self.at, self.name()
            self.space(lines=False)
            if not self.text.startswith("::=", self.at):
                raise self.error(f"expected ::= after {name!r}")
            if name in rules:
                raise self.error(
                    f"the rule {name!r} is defined twice", begin, "join both definitions with |"
                )
            self.at += 3
            self.space(lines=True)
            rules[name] = self.options(nested=False)
            if self.at < len(self.text) and self.peek() != "\n":
                raise self.error(f"unexpected {self.peek()!r}")
            self.space(lines=True)

        for name, at in self.named.items():
            if name not in rules:
                raise self.error(f"no rule {name!r}", at, f"define it: {name} ::= ...")
        if "root" not in rules:
            raise self.error("there is no rule 'root'", 0)
        return Rules(Reference("root"), rules)

    def name(self) -> str:
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.error(f"expected the name of a rule, not {self.peek()!r}")
        self.at = match.end()
        return match.group()

    def options(self, nested: bool) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            hint = "move inner parts to separate rules"
            raise self.error(f"parentheses more than {_DEEPEST} deep", hint=hint)
        options = [self.sequence(nested)]
        while self.bar(nested):
            self.space(lines=True)
            options.append(self.sequence(nested))
        self.depth -= 1
        return alternate(*options)

    def bar(self, nested: bool) -> bool:
        """Skip a `|`, which may also start the next line."""
        start = self.at
        self.space(lines=True)
        if self.peek() == "|":
            self.at += 1
            return True
        if not nested:
            self.at = start
        return False

    def sequence(self, nested: bool) -> Node:
        parts: list[Node] = []
        while True:
            self.space(lines=nested)
            if self.peek() in ("", "\n", "|", ")"):
                return concat(*parts)
            if self.text.startswith("::=", self.at) or (nested and _HEAD.match(self.text, self.at)):
                hint = "close the parentheses first"
                raise self.error("a rule begins inside parentheses", hint=hint)
            parts.append(self.repeated(self.part(), nested))

    def part(self) -> Node:
        match self.peek():
            case '"':
                return self.literal()
            case "[":
                return self.characters()
            case ".":
                self.at += 1
                return Chars(SCALARS)
            case "(":
                return self.group()
            case "<" | "!":
                hint = "write the text instead"
                raise self.error("single tokens (<...>) are not supported", hint=hint)

        begin, name = self.at, self.name()
        self.named.setdefault(name, begin)
        return Reference(name)

    def group(self) -> Node:
        begin = self.at
        self.at += 1
        if self.peek() == "=":
            raise self.error(
                "look-ahead is not supported", hint="write the following text as a rule"
            )
        node = self.options(nested=True)
        if self.peek() != ")":
            raise self.error("this parenthesis is not closed", begin)
        self.at += 1
        return node

    def repeated(self, node: Node, nested: bool) -> Node:
        while True:
            self.space(lines=nested)

            if self.peek() == "{":
                match = _COUNT.match(self.text, self.at)
                if match is None:
                    raise self.error("expected a count such as {2}, {2,} or {2,5}")
                least, comma, most = match.groups()
                low, high = int(least), int(most) if most else None if comma else int(least)
                if high is not None and high < low:
                    hint = "the first number must not exceed the second"
                    raise self.error(f"a count from {low} to {high}", hint=hint)
                node, self.at = Repeat(node, low, high), match.end()
            elif self.peek() and self.peek() in "*+?":
                node = Repeat(node, int(self.peek() == "+"), 1 if self.peek() == "?" else None)
                self.at += 1
            else:
                return node

    def literal(self) -> Node:
        begin = self.at
        self.at += 1
        parts: list[str] = []
        while self.peek() != '"':
            if self.peek() in ("", "\n"):
                raise self.error("this string is not closed", begin)
            run = _RUN.match(self.text, self.at)
            parts.append(run.group() if run else self.character())
            self.at = run.end() if run else self.at
        self.at += 1
        return Literal("".join(parts)) if parts else EMPTY

    def characters(self) -> Node:
        begin = self.at
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        pairs: list[tuple[int, int]] = []

        while self.peek() != "]":
            if self.peek() in ("", "\n"):
                raise self.error("this class of characters is not closed", begin)
            start, low = self.at, ord(self.character())
            high = low
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.character())
                if high < low:
                    shown = f"{chr(low)!r}-{chr(high)!r}"
                    raise self.error(f"the range {shown} is reversed", start)
            pairs.append((low, high))

        self.at += 1
        ranges = complement(union(pairs)) if negated else union(pairs)
        return Chars(ranges) if pairs or negated else Alternate(())

    def character(self) -> str:
        begin, char = self.at, self.peek()
        self.at += 1
        if char == "\\":
            char = self.escaped(begin)
        if 0xD800 <= ord(char) <= 0xDFFF:
            message = f"U+{ord(char):04X} is a surrogate, not a character"
            raise self.error(message, begin, "write the whole character")
        return char

    def escaped(self, begin: int) -> str:
        if self.peek() and self.peek() in _LETTERS:
            self.at += 1
            return _LETTERS[self.text[self.at - 1]]
        match = _ESCAPE.match(self.text, self.at)
        code = int(match.group()[1:], 16) if match else _LAST + 1
        if match is None or code > _LAST:
            hint = r"known: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH"
            escape = f"\\{self.text[self.at : self.at + 3]}"
            raise self.error(f"unknown escape {escape}", begin, hint)
        self.at = match.end()
        return chr(code)
