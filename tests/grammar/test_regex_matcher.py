"""Matchers of patterns: every answer, after any walk, against the automaton and `re`."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.grammar.automaton.automaton import START, Automaton
from sgnb.grammar.automaton.compressed import CompressedAutomaton
from sgnb.grammar.matcher import AutomatonMatcher, Paths
from sgnb.grammar.vocabulary import Vocabulary

from .patterns import longest, patterns, quick
from .test_regex_automaton import automaton_of, is_text, seeds

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

VOCABULARY = Vocabulary(
    [b"", *(bytes([byte]) for byte in range(256)), b"ab", b"k-", "éa".encode(), "日".encode()[1:]]
)
FEW = Vocabulary([b"a", b"ab", b"0", b"", b"k-", b"b", b"bcd", b"c", b" ", "é".encode(), b"-1"])
"""Without most bytes, so that a text that could go on may find no token."""


def forced(automaton: Automaton, state: int) -> bytes:
    """Byte by byte, while there is exactly one and the text cannot end."""
    data = b""
    while not automaton.final[state] and len(only := automaton.next_bytes(state)) == 1:
        data, state = data + only, automaton.step(state, only)
    return data


@pytest.mark.slow
@settings(quick, max_examples=150)
@given(patterns(), seeds, st.sampled_from([VOCABULARY, FEW]))
def test_a_matcher_says_what_its_bytes_say(pattern: str, seed: int, vocabulary: Vocabulary) -> None:
    """A walk of random tokens, with all bytes as tokens and with few."""
    rng, automaton = random.Random(seed), automaton_of(pattern)
    matcher = AutomatonMatcher(Paths(automaton, CompressedAutomaton(automaton), vocabulary))
    data = b""
    while len(data.decode(errors="replace")) <= longest(pattern):
        state = automaton.step(START, data)
        inside = is_text(data) and bool(re.fullmatch(pattern, data.decode()))
        allowed = [bool(piece) and automaton.step(state, piece) != 0 for piece in vocabulary.pieces]
        assert (matcher.state, matcher.is_final, matcher.find_jump_forward_string()) == (
            state,
            inside,
            forced(automaton, state),
        )
        assert matcher.finished == (inside and not any(allowed))
        calm = not forced(automaton, state) and (any(allowed) or not inside)
        for tokens in (
            0,
            len(automaton.completion(state)) - 1,
            len(automaton.completion(state)),
            1000,
        ):
            may = calm and len(automaton.completion(state)) <= tokens
            assert matcher.is_idle(tokens) == may or (vocabulary is FEW and may)
        packed = matcher.next_token_bitmask().view(np.uint8)
        assert np.unpackbits(packed, count=vocabulary.size, bitorder="little").tolist() == allowed
        if not any(allowed):
            break
        for token in rng.choices(range(vocabulary.size), allowed):
            matcher.accept_token(token)
            data += vocabulary.pieces[token]
