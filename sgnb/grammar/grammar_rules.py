"""Grammars of llguidance in readable form: their rules, and an example."""

from __future__ import annotations

import random
import re
import time
from typing import NamedTuple

import numpy as np

from ..errors import GrammarError
from .compiler import CompiledGrammar, TokenGrammar
from .llguidance_backend.cfg_matcher import BYTES

EXAMPLEBYTES = 30
"""From this length on, an example takes the known ending."""

EXAMPLE_SECONDS = 0.5
"""Time limit of an example: a mask of a slow grammar takes up to a second."""

_HEAD = re.compile(
    r"^[ \t]*[?!]?(?P<name>[A-Za-z0-9_.-]+)(?:\[[^\]\n]*\])?[ \t]*(?:::=|:)[ \t]*", re.MULTILINE
)


class Rule(NamedTuple):
    """A rule of a grammar, in the notation of the user or in Lark."""

    name: str
    text: str


def rules_of(grammar: CompiledGrammar) -> tuple[Rule, ...]:
    """Return the rules of a grammar without an automaton: the user's rules, or for a schema or
    pattern the rules that llguidance reads.

    Args:
        grammar: compiled grammar.
    """
    text = grammar.spec.text if grammar.spec.kind == "ebnf" else grammar.lark or ""
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return tuple(
        Rule(head["name"], " ".join(text[head.end() : end].split()))
        for head, end in zip(heads, ends, strict=True)
    )


def example_of(grammar: CompiledGrammar) -> str:
    """Return a random text (deterministic) of a grammar without an automaton.

    Args:
        grammar: compiled grammar.

    Returns:
        The text; "" if no ending is known, or if the grammar is slow.
    """
    try:
        text = _walk(TokenGrammar(grammar, BYTES))
    except GrammarError:
        return ""
    return (text or b"").decode(errors="replace")


def _walk(grammar: TokenGrammar) -> bytes | None:
    matcher, draw, text = grammar.matcher(), random.Random(0), b""
    end = time.monotonic() + EXAMPLE_SECONDS
    while len(text) < EXAMPLEBYTES:
        if matcher.is_final and (matcher.finished or draw.random() < 0.5):
            return text
        if time.monotonic() > end:
            return None

        options = np.flatnonzero(BYTES.unpacked(matcher.next_token_bitmask()))
        byte = likely_byte(options.astype(np.uint8).tobytes(), draw)
        matcher.accept_token(byte[0])
        text += byte

    ending = matcher.completion()
    return None if ending is None else text + ending


def likely_byte(options: bytes, draw: random.Random) -> bytes:
    """Return a random byte of `options`, preferring lower-case letters and digits, then readable
    bytes."""
    plain = [byte for byte in options if chr(byte).isascii() and chr(byte).isalnum()]
    lower = [byte for byte in plain if not 0x41 <= byte <= 0x5A]
    readable = [byte for byte in options if 0x20 <= byte < 0x7F]
    choices = [group for group in (lower, plain, readable) if group] or [list(options)]
    return bytes([draw.choice(draw.choices(choices, [8, 2, 1][: len(choices)])[0])])
