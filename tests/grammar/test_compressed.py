from __future__ import annotations

from hypothesis import given, settings

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.automaton.compressed import CompressedAutomaton, Edge
from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Literal,
    Node,
    Repeat,
    Rules,
    Source,
    optional,
)

from .trees import trees

DIGIT = Chars(((48, 57),))


def compressed(node: Node) -> CompressedAutomaton:
    return CompressedAutomaton(build(Rules(node)))


def singular(automaton: Automaton, state: int) -> bool:
    return not automaton.final[state] and len(automaton.next_bytes(state)) == 1


def steps(automaton: Automaton) -> set[tuple[int, int, int]]:
    """All (state, byte, next state)."""
    return {
        (state, byte, automaton.step(state, bytes((byte,))))
        for state in range(START, automaton.states)
        for byte in automaton.next_bytes(state)
    }


def expanded(automaton: Automaton, edge: Edge) -> set[tuple[int, int, int]]:
    """The steps that an edge stands for; checks that they lead to its target."""
    found = set()
    for low, high in edge.data or ((-1, -1),):
        for byte in range(low, high + 1):
            state = edge.source
            for data in (*((byte,) if byte >= 0 else ()), *edge.forced):
                after = automaton.step(state, bytes((data,)))
                found.add((state, data, after))
                state = after
            assert state == edge.target
    return found


@settings(max_examples=300, deadline=None)
@given(trees)
def test_edges_and_forced_text_are_the_automaton(node: Node) -> None:
    try:
        found = compressed(node)
    except GrammarError:
        return
    automaton, edges = found.automaton, found.edges()
    assert set().union(*(expanded(automaton, edge) for edge in edges)) == steps(automaton)
    remaining = {START} | {
        state for state in range(START, automaton.states) if not singular(automaton, state)
    }
    assert {START, *(edge.source for edge in edges), *(edge.target for edge in edges)} == remaining
    assert found.states == len(remaining)
    for state in range(START, automaton.states):
        data, after = b"", state
        while singular(automaton, after):
            data += automaton.next_bytes(after)
            after = automaton.step(after, data[-1:])
        assert found.forced(state) == data


def test_edges_of_many_states() -> None:
    found = compressed(Repeat(DIGIT, 0, 3000))
    assert [(edge.data, edge.forced) for edge in found.edges()] == [(((48, 57),), b"")] * 3000
    assert found.states == 3001


def test_json_example() -> None:
    name = Source(Repeat(Chars(((97, 122),)), 1, None), "$.name")
    age = Source(Concatenate((Literal('"age":'), Repeat(DIGIT, 1, 2))), "$.age")
    found = compressed(
        Source(Concatenate((Literal('{"name":"'), name, Literal('",'), age, Literal("}"))), "$")
    )
    automaton = found.automaton
    assert found.forced(START) == b'{"name":"'
    assert found.forced(automaton.step(START, b'{"na')) == b'me":"'
    assert found.forced(automaton.step(START, b'{"name":"')) == b""
    first, *others = found.edges()
    assert first == (START, automaton.step(START, b'{"name":"'), (), b'{"name":"', ("$",))
    choice = next(edge for edge in others if edge.forced)
    assert (
        choice.data == ((34, 34),)
        and choice.forced == b',"age":'
        and choice.labels == ("$", "$.age")
    )
    assert found.states == 6


def test_a_final_state_counts_as_one_more_way() -> None:
    found = compressed(Concatenate((Literal("ab"), optional(Literal("cd")))))
    middle = found.automaton.step(START, b"ab")
    assert found.forced(START) == b"ab"
    assert found.forced(middle) == b""
    end = found.automaton.step(middle, b"cd")
    assert found.edges() == [(START, middle, (), b"ab", ()), (middle, end, ((99, 99),), b"d", ())]


def test_chains_that_join_are_stored_once_and_read_whole() -> None:
    tail = "z" * 300
    found = compressed(Alternate(tuple(Literal(f"{letter}{letter}{tail}") for letter in "abc")))
    for letter in (b"a", b"b", b"c"):
        assert found.forced(found.automaton.step(START, letter)) == letter + tail.encode()
    assert [edge.data for edge in found.edges()] == [((97, 97),), ((98, 98),), ((99, 99),)]
    assert sum(len(chain.data) for chain, offset in found._place.values() if offset == 0) == 303


def test_data_joins_the_bytes_of_one_choice() -> None:
    found = compressed(Concatenate((Chars(((48, 57), (65, 70), (97, 102))), Literal("!"))))
    assert [(edge.data, edge.forced) for edge in found.edges()] == [
        (((48, 57), (65, 70), (97, 102)), b"!")
    ]
