from __future__ import annotations

import ast
import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import DEAD, FAR, START, Automaton, build
from sgnb.grammar.automaton.build_limits import Budget, BuildLimits, Recursive, TooLarge
from sgnb.grammar.automaton.determinise import determinise
from sgnb.grammar.automaton.dfa import Dfa
from sgnb.grammar.automaton.expand import expand
from sgnb.grammar.automaton.minimise import minimise
from sgnb.grammar.automaton.nfa import LabelSets, Nfa
from sgnb.grammar.automaton.product import difference
from sgnb.grammar.syntax import (
    EMPTY,
    NOTHING,
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
    optional,
)

from .oracle import matches
from .trees import texts, trees

ANY = Chars(((0, 9), (11, 0xD7FF), (0xE000, 0x10FFFF)))
A, B, X = Literal("a"), Literal("b"), Literal("x")
AB = Alternate((A, B))
DIGIT = Chars(((48, 57),))


def automaton(node: Node, **limits: float) -> Automaton:
    return build(Rules(node), BuildLimits(**limits))


def accepts(found: Automaton, data: bytes) -> bool:
    return bool(found.final[found.step(START, data)])


def blocks(transitions: list[list[int]], final: list[bool]) -> list[int]:
    """Moore's refinement, the slow twin: the block of each state."""
    block = [int(state) for state in final]
    while True:
        known: dict[object, int] = {}
        finer = [
            known.setdefault((block[s], *(block[t] for t in row)), len(known))
            for s, row in enumerate(transitions)
        ]
        if len(known) == len(set(block)):
            return finer
        block = finer


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(trees, st.lists(texts, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_agrees_with_the_tree_and_is_minimal_and_trimmed(
    node: Node, tried: list[str], choose: random.Random
) -> None:
    try:
        found = automaton(node)
    except GrammarError as error:
        assert "no text" in error.message
        assert not any(matches(node, text) for text in tried)
        return
    for text in tried:
        assert accepts(found, text.encode()) == matches(node, text), text
    walk, state = b"", START
    for _ in range(choose.randrange(12)):
        step = found.next_bytes(state)
        if step:
            walk += bytes((choose.choice(step),))
            state = found.step(START, walk)
    assert matches(node, (walk + found.completion(state)).decode())
    assert len(set(blocks(found.table.tolist(), found.final.tolist()))) == found.states
    assert (found.distance[1:] < FAR).all()
    assert not found.table[DEAD].any() and not found.final[DEAD] and found.distance[DEAD] == FAR
    assert len(np.unique(found.table, axis=1).T) == found.table.shape[1]
    assert set(found.table.ravel().tolist()) | {DEAD, START} == set(range(found.states))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_minimise_agrees_with_moore(size: int, choose: random.Random) -> None:
    raw = Dfa()
    for _ in range(size):
        for low, high in ((97, 97), (98, 99), (100, 100)):
            if target := choose.randrange(size + 1):
                raw.add_edge(low, high, target, 0)
        raw.close_state(choose.random() < 0.3)
    budget = Budget(BuildLimits())
    trimmed = difference(raw, Dfa(), budget)
    table = [[0] * 4 for _ in range(trimmed.size)]
    for state in range(trimmed.size):
        for low, high, target, _ in trimmed.edges(state):
            table[state][low - 97 : high - 96] = [target] * (high - low + 1)
    assert minimise(trimmed, LabelSets(), budget).size == len(set(blocks(table, trimmed.final)))


@pytest.mark.parametrize(
    ("node", "states", "yes", "no"),
    [
        (EMPTY, 1, [""], ["a"]),
        (Literal("añ"), 4, ["añ"], ["a", "ñ", "añ "]),
        (Repeat(Repeat(A, 0, None), 5, 5), 1, ["", "aaa"], ["b"]),
        (Repeat(Repeat(A, 1, None), 2, 3), 3, ["aa", "aaaaaaa"], ["", "a"]),
        (Repeat(optional(A), 2, 3), 4, ["", "aaa"], ["aaaa"]),
        (Repeat(A, 0, 0), 1, [""], ["a"]),
        (Concatenate((Repeat(Alternate((A, A)), 0, None), B)), 2, ["b", "aab"], ["", "ba"]),
        (
            Repeat(Concatenate((Repeat(A, 0, None), Repeat(B, 0, None))), 0, None),
            1,
            ["", "abba"],
            ["x"],
        ),
        (
            Alternate((Literal("ab"), Literal("abc"), Literal("a"), Literal("abc"))),
            4,
            ["a", "ab", "abc"],
            ["", "b"],
        ),
        (
            Alternate((Concatenate((A, optional(B))), Concatenate((A, X)), NOTHING)),
            3,
            ["a", "ab", "ax"],
            ["abx"],
        ),
        (Concatenate((A, Alternate((NOTHING, B)))), 3, ["ab"], ["a"]),
        (
            Intersect((Repeat(AB, 2, 4), Repeat(A, 0, 3), Repeat(A, 1, 2))),
            3,
            ["aa"],
            ["a", "aaa", "ab"],
        ),
        (Repeat(Without(Repeat(AB, 1, 2), Alternate((A, B))), 2, 2), 5, ["aabb"], ["aa", "aaa"]),
        (Without(A, NOTHING), 2, ["a"], [""]),
        (Concatenate(()), 1, [""], ["a"]),
        (Chars(((0xD7FF, 0xE000),)), 6, ["\ud7ff", "\ue000"], ["a"]),
    ],
)
def test_examples(node: Node, states: int, yes: list[str], no: list[str]) -> None:
    found = automaton(node)
    assert [text for text in yes if not accepts(found, text.encode())] == []
    assert [text for text in no if accepts(found, text.encode())] == []
    assert found.states == states + 1


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xff",
        b"\x80",
    ],
)
def test_what_is_not_utf8_is_dead(data: bytes) -> None:
    assert automaton(ANY).step(START, data) == DEAD


def test_every_character_is_accepted() -> None:
    found = automaton(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))))
    everything = [
        *range(0, 0xD800, 7),
        *range(0xE000, 0x110000, 61),
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xFFFF,
        0x10000,
        0x10FFFF,
    ]
    assert all(accepts(found, chr(point).encode()) for point in everything)


def test_next_bytes_distance_and_completion() -> None:
    found = automaton(
        Concatenate(
            (Alternate((Literal("xyz"), Literal("né"), Literal("na"))), optional(Literal("!")))
        )
    )
    assert found.next_bytes(START) == b"nx"
    assert found.next_bytes(found.step(START, b"n")) == b"a\xc3"
    assert found.next_bytes(found.step(START, b"na!")) == found.next_bytes(DEAD) == b""
    assert found.distance[START] == 2 and found.distance[found.step(START, "né".encode())] == 0
    assert found.completion(START) == b"na"
    assert found.completion(found.step(START, b"x")) == b"yz"
    assert found.completion(found.step(START, b"na")) == b""
    assert found.step(START, b"") == START and found.step(DEAD, b"na") == DEAD
    with pytest.raises(ValueError, match="dead"):
        found.completion(DEAD)


def test_is_read_only() -> None:
    found = automaton(A)
    for array in (found.table, found.classes, found.final, found.distance, found.pairs):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.labels = ()  # type: ignore[misc]


def test_labels_are_the_innermost_on_every_edge() -> None:
    inner = Concatenate((Literal("<"), Source(Alternate((A, B)), "inner"), Literal(">")))
    found = automaton(Concatenate((Source(inner, "outer"), Literal("!"))))
    names = {}
    state = START
    for byte in (b"<", b"a", b">", b"!"):
        after = found.step(state, byte)
        names[byte] = [found.labels[label] for label in found.sources.get((state, after), ())]
        state = after
    assert names == {b"<": ["outer"], b"a": ["inner"], b">": ["outer"], b"!": []}


@pytest.mark.parametrize(
    "node",
    [
        Alternate(tuple(Source(Literal(f"k{end}"), f"$.{end}") for end in "123")),
        Alternate(tuple(Source(Repeat(Literal(f"k{end}"), 1, 1), f"$.{end}") for end in "123")),
        Alternate(
            tuple(Source(Concatenate((Literal("k"), Literal(end))), f"$.{end}") for end in "123")
        ),
    ],
)
def test_labels_of_merged_states_add_up(node: Node) -> None:
    found = automaton(node)
    middle = found.step(START, b"k")
    assert found.states == 4
    assert found.labels == ("$.1", "$.2", "$.3")
    assert found.sources == {
        (START, middle): (0, 1, 2),
        (middle, found.step(middle, b"1")): (0, 1, 2),
    }


def test_products_keep_the_labels_of_the_first_part() -> None:
    found = automaton(Intersect((Source(Repeat(AB, 0, 3), "one"), Source(Repeat(A, 1, 5), "two"))))
    assert {found.labels[label] for ids in found.sources.values() for label in ids} == {"one"}


def test_rules_are_inlined() -> None:
    pair = Concatenate(
        (Literal("("), Reference("item"), Literal(","), Reference("item"), Literal(")"))
    )
    found = build(
        Rules(
            Reference("pair"),
            {"pair": pair, "item": Repeat(DIGIT, 1, 2), "unused": Reference("unused")},
        )
    )
    assert accepts(found, b"(1,23)") and not accepts(found, b"(1,234)")


@pytest.mark.parametrize(
    "rules",
    [{"a": Concatenate((A, Reference("b"))), "b": optional(Reference("a"))}, {"a": Reference("a")}],
)
def test_recursion_is_named(rules: dict[str, Node]) -> None:
    with pytest.raises(Recursive, match="rule 'a' uses itself") as caught:
        build(Rules(Concatenate((Reference("a"), X)), rules))
    assert caught.value.rule == "a"


def test_unknown_rule_is_named() -> None:
    with pytest.raises(GrammarError, match=r"rule 'nane' does not exist(.|\n)*'name'"):
        build(Rules(Reference("nane"), {"name": A}))


@pytest.mark.parametrize(
    "node",
    [
        NOTHING,
        Chars(()),
        Concatenate((A, NOTHING)),
        Without(A, AB),
        Intersect((A, B)),
        Repeat(NOTHING, 1, None),
    ],
)
def test_no_text_at_all(node: Node) -> None:
    with pytest.raises(GrammarError, match="no text matches the grammar"):
        automaton(node)


def test_surrogates_are_named() -> None:
    with pytest.raises(GrammarError, match=r"U\+D83D"):
        automaton(Literal("a\ud83d"))


def doubled(node: Node, times: int) -> Node:
    for _ in range(times):
        node = Concatenate((node, node))
    return node


DOUBLING = {
    f"r{i}": Concatenate((Reference(f"r{i + 1}"), Reference(f"r{i + 1}"))) for i in range(60)
}
BLOWUP = Concatenate((Repeat(AB, 0, None), A, Repeat(AB, 20, 20)))
RANDOM = random.Random(0)
LITERALS = tuple(Literal("".join(RANDOM.choices("abcdefgh", k=100))) for _ in range(10_000))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (doubled(A, 60), "positions"),
        (
            Repeat(Repeat(A, 1000, 1000), 1000, 1000),
            r"1,000,000 byte positions.*limit positions=131,072.*repeat \{1000,1000\}",
        ),
        (
            Concatenate((A, Source(Repeat(ANY, 0, 100_000), "$.text"))),
            r"\$\.text, with a repeat \{0,100000\}",
        ),
        (Literal("ab" * 500_000), "1,000,000 byte positions"),
        (Alternate(LITERALS), "131,073 byte positions.*text and choices"),
    ],
    ids=["doubled", "repeats", "label", "text", "choices"],
)
def test_too_large_says_why(node: Node, message: str) -> None:
    begin = time.process_time()
    with pytest.raises(TooLarge, match=message):
        automaton(node, work=60_000_000)
    assert time.process_time() - begin < 3


def test_too_many_states_after_all() -> None:
    with pytest.raises(
        TooLarge,
        match=r"602 states or more \(limit states=500\); its largest part: a repeat \{600,600\}",
    ):
        automaton(Repeat(AB, 600, 600), states=500)


def test_too_many_rules_are_counted_not_expanded() -> None:
    with pytest.raises(TooLarge, match="positions"):
        build(Rules(Reference("r0"), {**DOUBLING, "r60": A}))


def test_exponential_growth_is_stopped_by_work_and_by_size() -> None:
    with pytest.raises(
        TooLarge, match=r"limit work=200,000\); its largest part: a repeat \{20,20\}"
    ):
        automaton(BLOWUP, work=200_000)
    with pytest.raises(TooLarge, match=r"limit building=2,000\); its largest part: \$\.choice"):
        automaton(Source(BLOWUP, "$.choice"), building=2000)


def test_memory_is_bounded_too() -> None:
    row = Concatenate(tuple(optional(Literal(chr(97 + index % 26))) for index in range(500)))
    assert automaton(row, building=5000, work=60_000_000).states == 502
    with pytest.raises(TooLarge, match=r"states' worth of memory or more \(limit building=600\)"):
        automaton(row, building=600, work=60_000_000)


def test_no_work_at_all() -> None:
    with pytest.raises(TooLarge, match="limit work=0"):
        automaton(Source(A, "$"), work=0)


def test_the_verdict_depends_on_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal counts of work for equal trees, and no call of a clock; other threads have clocks."""
    own = threading.get_ident()

    def refusing(clock: Callable[[], float]) -> float:
        assert threading.get_ident() != own, "a clock was read"
        return clock()

    for name in ("monotonic", "perf_counter", "thread_time", "process_time"):
        monkeypatch.setattr(time, name, partial(refusing, getattr(time, name)))
    counts = []
    for _ in range(2):
        with pytest.raises(TooLarge, match="work"):
            automaton(BLOWUP, work=100_000)
        budget = Budget(BuildLimits())
        nfa = Nfa(budget)
        determinise(nfa, expand(Rules(Repeat(AB, 2, 300)), nfa, budget), budget)
        counts.append(budget.spent)
    assert counts[0] == counts[1] > 300


@pytest.mark.parametrize(
    ("node", "states"),
    [
        (Repeat(ANY, 0, 5000), 40_001),
        (
            Concatenate(
                (
                    Repeat(Concatenate((Repeat(X, 1, None), Repeat(X, 1, None))), 1, None),
                    Literal("y"),
                )
            ),
            4,
        ),
        (Alternate(tuple(Literal(f"{number}") for number in range(10_000))), 5),
        (Repeat(optional(A), 5000, 5000), 5001),
        (Repeat(EMPTY, 0, 10**9), 1),
        (
            Repeat(
                Alternate(
                    (
                        Concatenate((A, Repeat(X, 3000, 3000), A)),
                        Concatenate((B, Repeat(X, 3000, 3000), B)),
                    )
                ),
                0,
                None,
            ),
            6003,
        ),
    ],
    ids=["any", "plus", "choices", "optional", "empty", "loops"],
)
def test_large_but_allowed(node: Node, states: int) -> None:
    assert automaton(node, work=60_000_000).states == states + 1


def test_trees_deeper_than_the_stack() -> None:
    node: Node = A
    for _ in range(5000):
        node = Source(
            Alternate((Concatenate((Literal("("), optional(node), Literal(")"))), NOTHING)), "$"
        )
    found = automaton(node, work=60_000_000)
    assert accepts(found, b"(" * 5000 + b"a" + b")" * 5000) and accepts(found, b"(())")
    assert not accepts(found, b"(()")


def test_many_labelled_choices_stay_small() -> None:
    found = automaton(
        Alternate(tuple(Source(Literal(f'"{number}"'), f"$.{number}") for number in range(2000))),
        work=60_000_000,
    )
    assert len(found.sources[START, found.step(START, b'"')]) == 2000
    assert sum(map(len, found.label_sets)) < 20_000


def same(one: Automaton, two: Automaton) -> bool:
    arrays = ("table", "classes", "final", "distance", "pairs")
    return (
        one.labels == two.labels
        and one.sources == two.sources
        and all(
            getattr(one, name).dtype == getattr(two, name).dtype
            and np.array_equal(getattr(one, name), getattr(two, name))
            for name in arrays
        )
    )


EXAMPLE = Concatenate(
    (Source(Repeat(Alternate((Literal("né"), DIGIT)), 0, None), "$.á"), Source(B, "$.b"))
)


def test_builds_are_repeatable() -> None:
    assert same(automaton(EXAMPLE), automaton(EXAMPLE))


def test_bytes_and_back() -> None:
    found = automaton(EXAMPLE)
    loaded = Automaton.from_bytes(found.to_bytes())
    assert same(found, loaded)
    assert accepts(loaded, "né1b".encode()) and not loaded.table.flags.writeable


def test_reading_takes_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own may fail while other threads parse."""

    def fail(*_: object, **__: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    found = automaton(A)
    data = found.to_bytes()
    monkeypatch.setattr(ast, "parse", fail)
    loaded = Automaton.from_bytes(data)
    assert same(found, loaded)


def test_random_bytes_agree_with_the_language() -> None:
    """All byte strings of a small length, so that nothing but the encoded texts is accepted."""
    found = automaton(Repeat(Chars(((0x62, 0x62), (0xE9, 0xEA), (0x7FF, 0x800))), 0, 2))
    wanted = {
        "".join(text).encode()
        for size in range(3)
        for text in itertools.product("béê\u07ff\u0800", repeat=size)
    }
    reached = {b"": START}
    accepted = set()
    while reached:
        data, state = reached.popitem()
        if found.final[state]:
            accepted.add(data)
        reached |= {
            data + bytes((byte,)): found.step(state, bytes((byte,)))
            for byte in found.next_bytes(state)
        }
    assert accepted == wanted
