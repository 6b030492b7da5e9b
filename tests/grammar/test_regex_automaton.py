"""Automata of patterns against `re`: the same texts accepted and refused, and only UTF-8."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.automaton.build_limits import BuildLimits, TooLarge
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.syntax import Rules

from .patterns import NEARBY, is_refused, longest, mutated, patterns, quick

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

REAL = [
    r"[+-]?(0|[1-9]\d{0,3})(\.\d+)?([eE][+-]?\d+)?",
    r"(?P<year>[0-9]{4})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])",
    r"(?i)(?:gryffindor|hufflepuff|ravenclaw|slytherin)",
    r'"(?:[^"\\\x00-\x1f]|\\["\\bfnrt/]|\\u[0-9a-fA-F]{4}){0,6}"',
    r"(?s)<(\w+)[^>]*?>.*?</",
    r"""(?x) (?:25[0-5] | 2[0-4]\d | 1?\d?\d)  # a number up to 255
        (?: \. \d{1,3} ){3}""",
    r"^\s*(\w+)\s*=\s*([^#\n]*)$",
]

SHORT = {"".join(chars).encode() for length in range(3) for chars in product(NEARBY, repeat=length)}
"""All texts of at most two characters that patterns have or may confuse with theirs."""

Cases = dict[bytes, bool]
"""Bytes and whether they are a text of the pattern."""

seeds = st.integers(0, 2**32)


def automaton_of(pattern: str) -> Automaton:
    """Patterns that are refused, by `re` or for their anchors, do not count, nor large automata."""
    assume(not is_refused(pattern))
    try:
        return build(Rules(parse(pattern)), BuildLimits(building=5_000, work=10**9))
    except GrammarError as error:
        assume("anchor" not in error.message and not isinstance(error, TooLarge))
        raise


def walk(automaton: Automaton, rng: random.Random) -> bytes:
    """A text of the automaton: a few steps anywhere, then the shortest way to an end."""
    data, state = bytearray(), START
    for _ in range(rng.randint(0, 9)):
        if choice := automaton.next_bytes(state):
            data.append(rng.choice(choice))
            state = automaton.step(state, data[-1:])
    return bytes(data) + automaton.completion(state)


def broken(data: bytes, rng: random.Random) -> bytes:
    """`data` with one byte put in, left out or replaced, which may still be UTF-8."""
    place, byte = rng.randint(0, len(data)), rng.randbytes(1)
    rest = data[place:]
    return data[:place] + rng.choice((byte + rest, byte + rest[1:], rest[1:]))


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def near(automaton: Automaton, rng: random.Random, most: int) -> set[bytes]:
    """Texts of the automaton of at most `most` characters, and texts and bytes near to them."""
    walks = [walk(automaton, rng) for _ in range(32)]
    texts = [data.decode() for data in walks]
    texts += [mutated(text, rng) for text in texts] + [mutated(text, rng) for text in texts]
    tried = {text.encode() for text in texts} | {broken(data, rng) for data in walks}
    return {data for data in tried if len(data.decode(errors="replace")) <= most}


def check(pattern: str, automaton: Automaton, tried: set[bytes]) -> Cases:
    """Compare with `re`, and give what `re` says of each."""
    compiled = re.compile(pattern)
    cases = {data: is_text(data) and bool(compiled.fullmatch(data.decode())) for data in tried}
    for data, inside in cases.items():
        assert automaton.final[automaton.step(START, data)] == inside, data
    return cases


@pytest.mark.slow
def test_automata_accept_what_fullmatch_accepts() -> None:
    """The counts, of distinct pairs of pattern and text, show that enough of each is compared."""
    seen: dict[str, Cases] = {}

    @settings(quick, max_examples=150)
    @given(patterns(), seeds)
    @example(r"a$\s*", 0)
    @example(r"(^|x)k(|$\n?)", 0)
    def compare(pattern: str, seed: int) -> None:
        automaton = automaton_of(pattern)
        tried = SHORT | near(automaton, random.Random(seed), longest(pattern))
        seen.setdefault(pattern, {}).update(check(pattern, automaton, tried))

    compare()
    kinds = Counter(
        (inside, is_text(data)) for cases in seen.values() for data, inside in cases.items()
    )
    long = Counter(
        inside for cases in seen.values() for data, inside in cases.items() if data not in SHORT
    )
    assert len(seen) > 80 and kinds.total() > 50_000, kinds
    assert kinds[True, True] > 3000 and kinds[False, True] > 30_000 and kinds[False, False] > 300, (
        kinds
    )
    assert long[True] > 600 and long[False] > 600, long


@pytest.mark.slow
@pytest.mark.parametrize("pattern", REAL)
def test_automata_of_real_patterns_accept_what_hypothesis_makes_of_them(pattern: str) -> None:
    automaton = automaton_of(pattern)

    @settings(quick, max_examples=60)
    @given(st.from_regex(pattern, fullmatch=True), seeds)
    def compare(text: str, seed: int) -> None:
        rng = random.Random(seed)
        texts = {text, *(mutated(text, rng) for _ in range(8))}
        assert check(pattern, automaton, {text.encode() for text in texts})[text.encode()]

    compare()


TAIL = (0x80, 0xBF)
WELL_FORMED = {
    (0x00, 0x7F): (),
    (0xC2, 0xDF): (TAIL,),
    (0xE0, 0xE0): ((0xA0, 0xBF), TAIL),
    (0xE1, 0xEC): (TAIL, TAIL),
    (0xED, 0xED): ((0x80, 0x9F), TAIL),
    (0xEE, 0xEF): (TAIL, TAIL),
    (0xF0, 0xF0): ((0x90, 0xBF), TAIL, TAIL),
    (0xF1, 0xF3): (TAIL, TAIL, TAIL),
    (0xF4, 0xF4): ((0x80, 0x8F), TAIL, TAIL),
}
"""First bytes and the bytes that follow them: Unicode 15, table 3-7."""


def after(expected: tuple[tuple[int, int], ...], byte: int) -> tuple[tuple[int, int], ...]:
    """The bytes expected after `byte`. Raises AssertionError where UTF-8 cannot have it."""
    if expected:
        assert expected[0][0] <= byte <= expected[0][1], byte
        return expected[1:]
    found = [tails for (low, high), tails in WELL_FORMED.items() if low <= byte <= high]
    assert found, byte
    return found[0]


@pytest.mark.slow
@settings(quick, max_examples=150)
@given(st.sampled_from([*REAL, "(?s).*", r"\W*", "(?i)[^a]+", r"(?a)\S\D"]) | patterns())
def test_every_way_through_an_automaton_is_utf8(pattern: str) -> None:
    """Exhaustive: all pairs of a state and a place in a character; every state reaches an end."""
    automaton = automaton_of(pattern)
    pairs = {(START, ())}
    fresh = list(pairs)
    while fresh:
        state, expected = fresh.pop()
        assert not (automaton.final[state] and expected), "an end inside a character"
        row = automaton.table[state][automaton.classes].tolist()
        following = {(target, after(expected, byte)) for byte, target in enumerate(row) if target}
        fresh += following - pairs
        pairs |= following
