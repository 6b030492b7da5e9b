"""Matchers of patterns: every answer, after any walk, against one worked out from the automaton and `re`."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings

from sgnb.grammar.automaton.automaton import START, Automaton
from sgnb.grammar.automaton.compressed import Compressed
from sgnb.grammar.masks import TokenMasks
from sgnb.grammar.matcher import AutomatonMatcher
from sgnb.grammar.vocabulary import Vocabulary

from .patterns import longest, patterns, quick
from .test_regex_automaton import automaton_of, is_text, seeds

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(256)), b"ab", b"k-", "éa".encode(), "日".encode()[1:]])


def forced(automaton: Automaton, state: int) -> bytes:
    """Byte by byte, while there is exactly one and the text cannot end."""
    data = b""
    while not automaton.final[state] and len(only := automaton.next_bytes(state)) == 1:
        data, state = data + only, automaton.step(state, only)
    return data


@settings(quick, max_examples=150)
@given(patterns(), seeds)
def test_a_matcher_says_what_its_bytes_say(pattern: str, seed: int) -> None:
    """A walk of single tokens, or of a few at once where the text is forced."""
    rng, automaton = random.Random(seed), automaton_of(pattern)
    matcher = AutomatonMatcher(automaton, Compressed(automaton), TokenMasks(automaton, VOCABULARY), {})
    data = b""
    while len(data.decode(errors="replace")) <= longest(pattern):
        state = automaton.step(START, data)
        inside = is_text(data) and bool(re.fullmatch(pattern, data.decode()))
        allowed = [bool(piece) and automaton.step(state, piece) != 0 for piece in VOCABULARY.pieces]
        assert (matcher.state, matcher.is_final, matcher.forced()) == (state, inside, forced(automaton, state))
        assert matcher.finished == (inside and not any(allowed))
        packed = matcher.allowed().view(np.uint8)
        assert np.unpackbits(packed, count=VOCABULARY.size, bitorder="little").tolist() == allowed
        if not any(allowed):
            break
        jump = VOCABULARY.longest_match(matcher.forced())[: rng.randint(1, 3)]
        for token in jump or rng.choices(range(VOCABULARY.size), allowed):
            matcher.accept(token)
            data += VOCABULARY.pieces[token]
