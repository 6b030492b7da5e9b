"""Bounds without an automaton, compared with counts of the automaton."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import build
from sgnb.grammar.finite import MOST_TEXTS, fewest_texts, finite_texts
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.schema.item_counts import _texts, count_texts
from sgnb.grammar.schema.text import string
from sgnb.grammar.syntax import (
    NOTHING,
    Concatenate,
    Literal,
    Node,
    Reference,
    Rules,
    Without,
    alternate,
)

from .trees import trees

MANY = 10_000


@given(trees)
def test_bounds_agree_with_the_automaton(tree: Node) -> None:
    try:
        automaton = build(Rules(tree))
    except GrammarError:
        assert fewest_texts(tree) == 0 and not finite_texts(tree)
        return
    count = count_texts(automaton, MANY)
    assert min(fewest_texts(tree), MANY) <= count
    listed = finite_texts(tree)
    if listed is not None:
        assert count == len(listed)
        assert {text.encode() for text in listed} == set(_texts(automaton))


@pytest.mark.parametrize(
    ("tree", "fewest"),
    [
        (string(), math.inf),
        (Without(string(), string(alternate(Literal("a"), Literal("b")))), math.inf),
        (Without(parse("[a-e]"), parse("[ab]")), 3),
        (Without(parse("[ab]"), parse("[a-e]")), 0),
        (Without(parse("a*"), parse("a*")), 0),
        (parse("(a|b){2,}c"), math.inf),
        (Reference("unknown"), 0),
        (NOTHING, 0),
    ],
)
def test_fewest_texts(tree: Node, fewest: float) -> None:
    assert fewest_texts(tree) == fewest


def test_finite_texts() -> None:
    assert finite_texts(parse("(ab?|c)d")) == frozenset({"abd", "ad", "cd"})
    assert finite_texts(parse("a*")) is finite_texts(Reference("unknown")) is None
    bit = parse("[01]")
    assert len(finite_texts(Concatenate((bit,) * 12)) or ()) == MOST_TEXTS
    assert finite_texts(Concatenate((bit,) * 13)) is None


def test_shared_parts_are_visited_once() -> None:
    tree: Node = parse("[ab]")
    for _ in range(200):
        tree = Concatenate((tree, tree))
    assert fewest_texts(tree) == 2 and finite_texts(tree) is None
