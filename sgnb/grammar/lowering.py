"""From a spec to what is matched: an automaton, or the notation of the grammar library.

What is regular and not too large becomes an automaton. What is recursive or too large goes to the
library. Knows no vocabulary, no cache and no process.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from ..errors import GrammarError
from .automaton.automaton import Automaton, build
from .automaton.limits import Limits, Recursive, TooLarge
from .library.library import write_ebnf, write_schema
from .library.shortest import shortest_text
from .regex import parser as regex
from .schema.translate import translate
from .spec import GrammarSpec
from .syntax import Lexeme, Rules

REGEX_LIMITS = Limits(positions=40_000, building=16_000, seconds=0.5)
SCHEMA_LIMITS = Limits(positions=6_000, building=4_000, seconds=0.3)
"""What would take longer goes to the library, whose masks are as fast. The bound is on the size
first, so that a grammar takes the same road on machines of all speeds."""

SMALL = 1000  # characters
SMALL_SECONDS = 0.02
"""Of building an automaton: for 19 of 20 small schemas that is enough, and so is as much again for
their translation."""

_LOGIC = re.compile(r'"(?:allOf|anyOf|oneOf|not|if|dependent\w+|unevaluated\w+)"')
_FEW = 6  # keywords of logic: each may double the work

_LARK = b"lark\n"


@dataclass(frozen=True)
class Lowered:
    """One of the two is None."""

    automaton: Automaton | None
    lark: str | None
    why: str = ""  # why there is no automaton
    shortest: bytes | None = None  # with `lark`: a shortest text, if known

    def to_bytes(self) -> bytes:
        if self.automaton is not None:
            return self.automaton.to_bytes()
        shortest = None if self.shortest is None else self.shortest.decode("latin-1")
        return _LARK + json.dumps([self.lark, self.why, shortest]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Lowered:
        """Return the object of which `to_bytes` returned `data`."""
        if not data.startswith(_LARK):
            return cls(Automaton.from_bytes(data), None)
        lark, why, shortest = json.loads(data.removeprefix(_LARK))
        return cls(None, lark, why, None if shortest is None else shortest.encode("latin-1"))


def lower(spec: GrammarSpec) -> Lowered:
    """Raises GrammarError."""
    if spec.kind == "ebnf":
        lark, shortest = write_ebnf(spec.text)
        return Lowered(None, lark, "a grammar can be recursive", shortest)
    rules = _rules(spec)
    try:
        return Lowered(build(rules, _limits(spec)), None)
    except (Recursive, TooLarge) as error:
        return _for_library(rules, error.message)


def lower_if_small(spec: GrammarSpec) -> Lowered | None:
    """As `lower`, in some 20 ms; None for what would take longer. Raises GrammarError."""
    few = spec.kind != "json_schema" or len(_LOGIC.findall(spec.text)) <= _FEW
    if len(spec.text) > SMALL or not few:
        return None
    if spec.kind == "ebnf":
        return lower(spec)
    rules = _rules(spec)
    try:
        return Lowered(build(rules, replace(_limits(spec), seconds=SMALL_SECONDS)), None)
    except Recursive as error:
        return _for_library(rules, error.message)
    except TooLarge:
        return None


def _rules(spec: GrammarSpec) -> Rules:
    if spec.kind == "regex":
        return Rules(Lexeme(regex.parse(spec.text)))
    return translate(spec.text, spec.whitespace, spec.strict)


def _limits(spec: GrammarSpec) -> Limits:
    return REGEX_LIMITS if spec.kind == "regex" else SCHEMA_LIMITS


def _for_library(rules: Rules, why: str) -> Lowered:
    try:
        return Lowered(None, write_schema(rules), why, shortest_text(rules))
    except GrammarError as error:
        raise library_error(why, error) from error


def library_error(why: str, error: GrammarError) -> GrammarError:
    """What the library's road says of a grammar that `why` there is no automaton for."""
    return GrammarError(f"{why}; and the grammar library: {error.message}", error.hint)
