"""Grammars of users, in GBNF or Lark notation: input of llguidance, and the shortest text."""

from __future__ import annotations

from ...errors import GrammarError
from ..syntax import Rules
from .cfg_matcher import BYTES, LlguidanceGrammar
from .gbnf import is_gbnf, parse_gbnf
from .lark import write
from .lark_notation import refuse_unsupported
from .lark_reader import read_lark
from .shortest import least_length, shortest_text

LARGEST_TEXT = 1_500_000  # characters of a user's grammar

LONGEST = 2_000
"""Bytes of a shortest text of a Lark grammar that llguidance confirms, byte by byte."""


def write_ebnf(text: str) -> tuple[str, bytes | None, int]:
    """Return a user's grammar as input of llguidance.

    A grammar with `::=` is GBNF, in which every character counts. Any other grammar is llguidance's
    Lark (rule `start`): names in capitals and quoted texts are terminals with longest match, and
    the terminals of `%ignore` may stand between them.

    Args:
        text: grammar in GBNF or Lark notation.

    Returns:
        The Lark grammar, a shortest text if known, and a lower bound of the bytes of every text.

    Raises:
        GrammarError: the grammar is invalid; the message has line and column.
    """
    if len(text) > LARGEST_TEXT:
        hint = f"at most {LARGEST_TEXT:,} are read"
        raise GrammarError(f"ebnf has {len(text):,} characters", hint)
    if is_gbnf(text):
        rules = parse_gbnf(text)
        return write(rules), shortest_text(rules), least_length(rules)
    refuse_unsupported(text)
    tree = read_lark(text)
    if tree is None:
        return text, None, 0

    shortest = shortest_text(tree)
    if shortest is None or len(shortest) > LONGEST or not _accepts(text, shortest):
        return text, None, least_length(tree)
    return text, shortest, least_length(tree)


def _accepts(lark: str, text: bytes) -> bool:
    """Return whether a grammar has a text, which greedy lexing may prevent."""
    try:
        inner = LlguidanceGrammar(lark, BYTES).matcher()
        for byte in text:
            inner.accept_token(byte)
    except GrammarError:
        return False
    return inner.is_final


def ebnf_rules(text: str) -> Rules | None:
    """Return the syntax tree of a user's grammar, if known.

    Args:
        text: grammar in GBNF or Lark notation.
    """
    return parse_gbnf(text) if is_gbnf(text) else read_lark(text)
