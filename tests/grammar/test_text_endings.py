"""Endings on the NFA, compared with the automaton."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, build
from sgnb.grammar.automaton.build_limits import BuildLimits, Recursive, TooLarge
from sgnb.grammar.automaton.text_endings import TextEndings, _intersected
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.syntax import Intersect, Literal, Node, Reference, Repeat, Rules, concat

from .trees import trees

LIMITS = BuildLimits()


@given(trees, st.data())
def test_shortest_endings(node: Node, data: st.DataObject) -> None:
    """From anywhere on a way through the automaton, and after a byte that is not allowed."""
    if len(_intersected(node)) > 1:
        return
    try:
        automaton = build(Rules(node))
    except GrammarError as error:
        with pytest.raises(GrammarError) as refused:
            TextEndings(Rules(node), LIMITS)
        assert refused.value.message == error.message
        return

    endings, state, text = TextEndings(Rules(node), LIMITS), START, b""
    for _ in range(data.draw(st.integers(0, 8))):
        end = endings.completion(text)
        assert end is not None and len(end) == automaton.distance[state]
        assert automaton.final[automaton.step(state, end)]
        options = automaton.next_bytes(state)
        wrong = next(byte for byte in range(256) if byte not in options)
        assert endings.completion(text + bytes([wrong])) is None
        if not options:
            break
        byte = bytes([data.draw(st.sampled_from(list(options)))])
        state, text = automaton.step(state, byte), text + byte


PARTS = ["a.*b.*", ".*[ab]{3}", ".{4,}", "[^c]*", ".*cab.*"]


@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=3, unique=True), st.text("abc"))
def test_intersections(patterns: list[str], text: str) -> None:
    """The endings fit all parts, and exist unless no ending exists."""
    quote = Literal("/")
    node = concat(quote, Intersect(tuple(map(parse, patterns))), quote)
    try:
        automaton = build(Rules(node))
    except GrammarError:
        return
    begun = b"/" + text.encode()
    end = TextEndings(Rules(node), LIMITS).completion(begun)
    state = automaton.step(START, begun)
    assert (end is None) == (state == 0)
    if end is not None:
        assert automaton.final[automaton.step(state, end)]
        assert len(end) <= 2 * automaton.distance[state] + 4


def test_an_automaton_would_be_too_large() -> None:
    pattern = ".*(foo|bar).{60}z.*"
    with pytest.raises(TooLarge):
        build(Rules(parse(pattern)))
    endings = TextEndings(Rules(parse(pattern)), LIMITS)
    for text, length in [("", 64), ("xfo", 62), ("bar" + "y" * 50, 11), ("foo" + "y" * 60, 1)]:
        end = endings.completion(text.encode())
        assert end is not None and len(end) == length
        assert re.fullmatch(pattern, text + end.decode())


def test_refused_rules() -> None:
    with pytest.raises(Recursive):
        TextEndings(Rules(Reference("a"), {"a": concat(Literal("x"), Reference("a"))}), LIMITS)
    with pytest.raises(TooLarge):
        TextEndings(Rules(Repeat(Literal("ab"), 10**6, None)), LIMITS)
