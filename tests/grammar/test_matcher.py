"""A matcher against the automaton it walks, and the way back."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

PIECES = [
    b"",
    *(bytes([value]) for value in range(256)),
    b"ab",
    b"abc",
    b"na",
    b'"name":',
    "é".encode(),
    b"true",
]
VOCABULARY = Vocabulary(PIECES)


def grammar(kind: str, text: str) -> TokenGrammar:
    return TokenGrammar(compile_spec(GrammarSpec(kind, text)), VOCABULARY)


GRAMMARS = [
    ("regex", "(ab|abc|é){2,5}x?"),
    (
        "json_schema",
        '{"type":"object","properties":{"name":{"enum":["ab","é"]},"ok":{"type":"boolean"}}}',
    ),
    (
        "json_schema",
        '{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}}',
    ),
    ("ebnf", 'start: "a" start "b" | "é"'),
]


def allowed(words: np.ndarray) -> list[int]:
    bits = np.unpackbits(words.view(np.uint8), count=len(PIECES), bitorder="little")
    return np.flatnonzero(bits).tolist()


@pytest.mark.parametrize(("kind", "text"), GRAMMARS)
def test_rollback_and_fork(kind: str, text: str) -> None:
    """A walk with detours: after a rollback everything is as before, and a fork does not move."""
    rng = random.Random(0)
    matcher = grammar(kind, text).matcher()

    def seen(m):
        bits, forced = allowed(m.next_token_bitmask()), m.find_jump_forward_string()
        return bits, forced, m.is_final, m.finished, m.state, m.completion()

    for _ in range(12):
        before, twin = seen(matcher), matcher.fork()
        steps = 0
        while steps < 4 and (choice := allowed(matcher.next_token_bitmask())):
            matcher.accept_token(rng.choice(choice))
            steps += 1
        assert seen(twin) == before
        matcher.rollback(steps)
        assert seen(matcher) == before
        if before[0]:
            matcher.accept_token(rng.choice(before[0]))
    with pytest.raises(GrammarError):
        matcher.rollback(1000)


@pytest.mark.parametrize(("kind", "text"), GRAMMARS)
def test_what_is_not_allowed_changes_nothing(kind: str, text: str) -> None:
    matcher = grammar(kind, text).matcher()
    for _ in range(5):
        choice = allowed(matcher.next_token_bitmask())
        for token in set(range(len(PIECES))) - set(choice):
            with pytest.raises(GrammarError):
                matcher.accept_token(token)
        assert allowed(matcher.next_token_bitmask()) == choice
        if not choice:
            break
        matcher.accept_token(choice[-1])


@pytest.mark.parametrize(("kind", "text"), GRAMMARS[:2])
def test_completion_ends_the_text(kind: str, text: str) -> None:
    rng = random.Random(1)
    for _ in range(20):
        matcher = grammar(kind, text).matcher()
        for _ in range(rng.randrange(6)):
            if choice := allowed(matcher.next_token_bitmask()):
                matcher.accept_token(rng.choice(choice))
        end = matcher.completion()
        assert end is not None
        for token in VOCABULARY.longest_match(end):
            assert not matcher.is_final or not end
            matcher.accept_token(token)
        assert matcher.is_final


def test_labels() -> None:
    schema = (
        '{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"type":"boolean"}},'
        '"required":["a","b"]}'
    )
    matcher = grammar("json_schema", schema).matcher()
    assert matcher.find_jump_forward_string() == b'{"a": "'
    assert matcher.labels(matcher.find_jump_forward_string())[-1] == "$.a"
    for token in VOCABULARY.longest_match(b'{"a": "x'):
        matcher.accept_token(token)
    assert matcher.find_jump_forward_string() == b'", "b": ' and "$.b" in matcher.labels(
        matcher.find_jump_forward_string()
    )
    assert matcher.labels() == ("$.a",)


@pytest.mark.parametrize("unused", ['{"maxItems":0,"type":"array"}', '{"not":{}}'])
def test_labels_next_to_an_unused_part(unused: str) -> None:
    """Any JSON value is recursive; the part with it has no values or is empty."""
    schema = (
        '{"$defs":{"pet":{"type":"object","properties":{"name":{"type":"string"}},'
        '"required":["name"]}},"type":"object","properties":{"a":UNUSED,"b":{"$ref":"#/$defs/pet"},'
        '"c":{"$ref":"#/$defs/pet"}},"required":["b","c"]}'
    ).replace("UNUSED", unused)
    matcher = grammar("json_schema", schema).matcher()
    for token in VOCABULARY.longest_match(b'{"b": {"name": ""}, "c": {"name": "x'):
        matcher.accept_token(token)
    assert matcher.labels() == ("$.c.name",)


def test_labels_follow_the_place() -> None:
    """Also for a second request, and for the same bytes elsewhere."""
    schema = (
        '{"type":"object","properties":{"ab":{"enum":["xy"]},"cd":{"enum":["xy"]}},'
        '"required":["ab","cd"]}'
    )
    shared = grammar("json_schema", schema)
    for _ in range(2):
        matcher = shared.matcher()
        found = {}
        for byte in b'{"ab": "xy", "cd": "xy"}':
            found.setdefault(chr(byte), []).append(matcher.labels(bytes([byte])))
            assert set(matcher.labels()) >= set(matcher.labels(bytes([byte])))
            matcher.accept_token(1 + byte)
        assert found["x"][0] != found["x"][1] and found["x"] == found["y"]
        assert any("ab" in label for label in found["x"][0]) and any(
            "cd" in label for label in found["x"][1]
        )
        assert matcher.finished and matcher.labels(b"{") == ()
