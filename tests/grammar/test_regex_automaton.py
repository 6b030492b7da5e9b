"""Patterns, read and made automata, against `re`: the same texts accepted and refused, and no bytes that are no text."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.automaton.limits import Limits
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.syntax import Rules

from .patterns import NEARBY, REAL, is_refused, mutated, patterns, quick

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

LONGEST = 12
"""Characters of a text: `re` may need time that doubles with each of them."""

SHORT = ["".join(chars) for length in range(3) for chars in product(NEARBY, repeat=length)]

seeds = st.integers(0, 2**32).map(random.Random)


def automaton_of(pattern: str) -> Automaton:
    """Of a pattern of the generators; those with anchors that are refused do not count."""
    try:
        return build(Rules(parse(pattern)), Limits(seconds=60))
    except GrammarError as error:
        assume("anchor" not in error.message and "no text at all" not in error.message)
        raise


def accepts(automaton: Automaton, data: bytes) -> bool:
    return bool(automaton.final[automaton.step(START, data)])


def walk(automaton: Automaton, rng: random.Random) -> bytes:
    """A text of the automaton: a few steps anywhere, then the shortest way to an end."""
    data, state = bytearray(), START
    for _ in range(rng.randint(0, 9)):
        if not (choice := automaton.next_bytes(state)):
            break
        data.append(rng.choice(choice))
        state = automaton.step(state, data[-1:])
    return bytes(data) + automaton.completion(state)


def broken(data: bytes, rng: random.Random) -> bytes:
    """`data` with one byte put in, left out or replaced, which may or may not be UTF-8 still."""
    place, byte = rng.randint(0, len(data)), rng.randbytes(1)
    rest = data[place:]
    return data[:place] + rng.choice((byte + rest, byte + rest[1:], rest[1:]))


def decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
