"""Lowering: from a spec to an automaton, or to a grammar of llguidance.

Regular specs of moderate size become an automaton. Recursive or large specs go to llguidance.
Knows no vocabulary, no cache and no process.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from ..errors import GrammarError
from .automaton.automaton import Automaton, build
from .automaton.build_limits import BuildLimits, Recursive, TooLarge
from .llguidance_backend.cfg_matcher import write_schema
from .llguidance_backend.ebnf import write_ebnf
from .llguidance_backend.shortest import least_length
from .regex import parser as regex
from .schema.translate import translate
from .spec import GrammarSpec
from .syntax import Lexeme, Literal, Rules, alternate, concat, optional

REGEX_LIMITS = BuildLimits(positions=40_000, building=16_000, work=750_000)
SCHEMA_LIMITS = BuildLimits(positions=6_000, building=4_000, work=450_000)
"""Beyond these limits llguidance takes over, whose masks are as fast. Sizes and counted work do not
depend on the speed of the machine."""

SMALL = 1000  # characters
SMALL_WORK = 30_000
"""Work limit for an automaton on a thread of the engine's process, about 20 ms: enough for 19 of 20
small schemas. Translation of the schema takes up to the same time again."""

_LOGIC = re.compile(r'"(?:allOf|anyOf|oneOf|not|if|dependent\w+|unevaluated\w+)"')
_FEW = 6  # logic keywords; each may double the work

_LARK = b"lark\n"
_DISTINCT = b"distinct\n"
_BLANK = Literal(" ")


@dataclass(frozen=True)
class LoweredGrammar:
    """Result of lowering: either `automaton` or `lark` is None."""

    automaton: Automaton | None
    lark: str | None
    why: str = ""  # reason for the absence of an automaton
    shortest: bytes | None = None  # a shortest text if known; only with `lark`
    least: int = 0  # lower bound of the bytes of every text; only with `lark`
    distinct: bool = False  # see `Rules`

    def to_bytes(self) -> bytes:
        return (_DISTINCT if self.distinct else b"") + self._grammar_bytes()

    def _grammar_bytes(self) -> bytes:
        if self.automaton is not None:
            return self.automaton.to_bytes()
        shortest = None if self.shortest is None else self.shortest.decode("latin-1")
        return _LARK + json.dumps([self.lark, self.why, shortest, self.least]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> LoweredGrammar:
        """Return the object from the output of `to_bytes`.

        Args:
            data: output of `to_bytes`.
        """
        if data.startswith(_DISTINCT):
            return replace(cls.from_bytes(data.removeprefix(_DISTINCT)), distinct=True)
        if not data.startswith(_LARK):
            return cls(Automaton.from_bytes(data), None)
        lark, why, shortest, least = json.loads(data.removeprefix(_LARK))
        text = None if shortest is None else shortest.encode("latin-1")
        return cls(None, lark, why, text, least)


def lower(spec: GrammarSpec) -> LoweredGrammar:
    """Lower `spec` to an automaton, or to a Lark grammar if recursive or too large.

    Args:
        spec: constraint to lower.

    Raises:
        GrammarError: the spec is invalid, unsupported or too large.
    """
    if spec.kind == "ebnf":
        lark, shortest, least = write_ebnf(spec.text)
        return LoweredGrammar(None, lark, "a grammar can be recursive", shortest, least)
    rules = regular_rules(spec)
    try:
        return LoweredGrammar(build(rules, _limits(spec)), None, distinct=rules.distinct)
    except (Recursive, TooLarge) as error:
        return _for_llguidance(rules, error.message)


def lower_if_small(spec: GrammarSpec) -> LoweredGrammar | None:
    """Lower `spec` like `lower` if this takes about 20 ms at most.

    Args:
        spec: constraint to lower.

    Returns:
        The result, or None if lowering would take longer.

    Raises:
        GrammarError: the spec is invalid or unsupported.
    """
    few = spec.kind != "json_schema" or len(_LOGIC.findall(spec.text)) <= _FEW
    if len(spec.text) > SMALL or not few:
        return None
    if spec.kind == "ebnf":
        return lower(spec)
    rules = regular_rules(spec)
    try:
        limits = replace(_limits(spec), work=SMALL_WORK)
        return LoweredGrammar(build(rules, limits), None, distinct=rules.distinct)
    except Recursive as error:
        return _for_llguidance(rules, error.message)
    except TooLarge:
        return None


def regular_rules(spec: GrammarSpec) -> Rules:
    """Return the rules of a regex or JSON schema.

    Args:
        spec: constraint to parse.
    """
    if spec.kind == "regex":
        pattern = regex.parse(spec.text)
        return Rules(Lexeme(concat(optional(_BLANK), pattern) if spec.leading_blank else pattern))
    rules = translate(spec.text, spec.whitespace, spec.strict)
    if not spec.leading_blank:
        return rules
    return replace(rules, start=alternate(rules.start, concat(Lexeme(_BLANK), rules.start)))


def _limits(spec: GrammarSpec) -> BuildLimits:
    return REGEX_LIMITS if spec.kind == "regex" else SCHEMA_LIMITS


def _for_llguidance(rules: Rules, why: str) -> LoweredGrammar:
    try:
        grammar = write_schema(rules)
        shortest = grammar.shortest
        least = least_length(grammar.rules) if shortest is None else len(shortest)
        return LoweredGrammar(None, grammar.lark, why, shortest, least, rules.distinct)
    except GrammarError as error:
        raise llguidance_error(why, error) from error


def llguidance_error(why: str, error: GrammarError) -> GrammarError:
    """Return an error of llguidance, prefixed with the reason for the absence of an
    automaton.

    Args:
        why: reason for the absence of an automaton.
        error: error of llguidance.
    """
    return GrammarError(f"{why}; and llguidance: {error.message}", error.hint)
