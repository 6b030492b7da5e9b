"""Lark grammars as trees, compared with the texts of llguidance."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sgnb.grammar.automaton.automaton import build
from sgnb.grammar.llguidance_backend.cfg_matcher import BYTES, LlguidanceGrammar
from sgnb.grammar.llguidance_backend.ebnf import write_ebnf
from sgnb.grammar.llguidance_backend.lark_reader import read_lark
from sgnb.grammar.llguidance_backend.shortest import least_length, shortest_text

REGULAR = [
    'start: "a" | "b" "c"?',
    'start: item ("," item)* ";"\nitem: /[a-c]{2,3}/ | NAME\nNAME: "x".."z"',
    '// a comment\nstart: "a"~3 B{2} B{1,2} c~1..2  # another\nB: "b"\n?c: ["d"] "e"+\n',
    'start: a\n     | "q" -> named\na: ("x"\n | "y")* "\\"é"',
    '%import common.INT\nstart: INT ":" /[A-F]/i',
    'start: | "a"',
    '%ignore /z/\nstart: "long" "er"',
]


@pytest.mark.parametrize("text", REGULAR)
def test_texts_of_llguidance_are_texts_of_the_tree(text: str) -> None:
    tree = read_lark(text)
    assert tree is not None
    automaton, grammar, rng = build(tree), LlguidanceGrammar(text, BYTES), random.Random(0)
    ends = set()
    for _ in range(30):
        matcher, written = grammar.matcher(), b""
        for _ in range(20):
            if matcher.is_final:
                plain = written.replace(b"z", b"") if "%ignore" in text else written
                assert automaton.accepts(plain)
                ends.add(plain)
            allowed = np.flatnonzero(BYTES.unpacked(matcher.next_token_bitmask()))
            if not len(allowed):
                break
            byte = int(rng.choice(allowed.tolist()))
            matcher.accept_token(byte)
            written += bytes([byte])
    shortest = shortest_text(tree)
    assert shortest is not None and len(shortest) == min(map(len, ends))


@pytest.mark.parametrize(
    ("text", "shortest", "least"),
    [
        ('start: "(" start ")" | "end"', b"end", 3),
        ('start: x~100\nx: "a" x? "b"', b"ab" * 100, 200),
        ('start: "ab"~1000000000000', None, 2 * 10**12),
        ('start: A "a"\nA: /a+/', None, 2),  # A is greedy: no text ends
        ('start: "ab"{5000}', None, 10_000),
        ('start: %json {"type": "null"}', None, 0),
    ],
)
def test_shortest_texts(text: str, shortest: bytes | None, least: int) -> None:
    assert write_ebnf(text)[1:] == (shortest, least)


@pytest.mark.parametrize(
    "text",
    [
        "", "start", 'other: "a"', "start: missing", 'start: "a', 'start: %json {"type": "null"}',
        "start: /(/", 'start: "ab".."c"', "start: (", "start: )", 'start: a::b\na: "x"',
        '%import common.OTHER\nstart: OTHER', "start: " + "(" * 200, 'start: "\\q"',
        "%x\nstart: //",        'start: "a" & "b"', 'start: "a" : "b"', "start: | 5",
    ],
)  # fmt: skip
def test_unknown_constructs(text: str) -> None:
    assert read_lark(text) is None


def test_a_deep_tree_has_a_bound() -> None:
    tree = read_lark('start: ("a" (("b")) ["c"])+ ')
    assert tree is not None and least_length(tree) == 2
