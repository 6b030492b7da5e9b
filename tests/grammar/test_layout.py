"""Where states are drawn: columns that lead to the right, rows that do not collide, tracks that do
not overlap."""

from __future__ import annotations

import random
import time

import pytest

from sgnb.grammar.layout import DIRECT, layout


def random_graph(rng: random.Random) -> tuple[int, list[tuple[int, int]]]:
    """Every state is reached from state 0."""
    states = rng.randint(1, 40)
    edges = [(rng.randrange(state), state) for state in range(1, states)]
    more = rng.randrange(3 * states)
    edges += [(rng.randrange(states), rng.randrange(states)) for _ in range(more)]
    return states, edges


@pytest.mark.parametrize("seed", range(200))
def test_no_two_states_and_no_two_buses_are_in_one_place(seed: int) -> None:
    states, edges = random_graph(random.Random(seed))
    columns, rows, tracks = layout(states, edges)
    assert len(set(zip(columns, rows, strict=True))) == states
    assert columns[0] == 0 and all(column > 0 for column in columns[1:])
    spans: dict[tuple[int, int, bool], set[int]] = {}
    for (start, target), track in zip(edges, tracks, strict=True):
        direct = start == target or columns[target] == columns[start] + 1
        assert (track == DIRECT) is direct
        if not direct:
            ends = sorted((columns[start], columns[target]))
            bus = track, target, columns[target] > columns[start]
            spans.setdefault(bus, set()).update(range(ends[0], ends[1] + 1))
    for track in {track for track, _, _ in spans}:
        used = [column for bus, span in spans.items() if bus[0] == track for column in span]
        assert len(used) == len(set(used)), "two buses overlap"


def test_what_closes_no_cycle_leads_to_the_right() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 1), (3, 3)]
    columns, rows, tracks = layout(4, edges)
    assert (columns, rows) == ([0, 1, 2, 3], [0, 0, 0, 0]), "a chain is straight"
    assert [track == DIRECT for track in tracks] == [True, True, True, False, False, True]


def test_edges_to_one_state_share_a_bus() -> None:
    """A string of up to nine characters: each place may be the last."""
    edges = [(i, i + 1) for i in range(10)] + [(i, 10) for i in range(9)]
    assert set(layout(11, edges).tracks) == {DIRECT, 0}


def test_many_detours_move_nothing_to_the_right() -> None:
    """An escaped character takes two steps to where others take one."""
    places = range(0, 12, 2)
    edges = [e for i in places for e in ((i, i + 2), (i, i + 1), (i + 1, i + 2))]
    columns, rows, _ = layout(13, edges)
    assert columns == [*((i + 1) // 2 for i in range(12)), 7], "what ends the text is last"
    assert rows[:11] == [i % 2 for i in range(11)]
    assert layout(3, edges[:3]).columns == [0, 1, 2], "one alone is in line"


def test_time_grows_with_the_edges() -> None:
    """A quadratic layout would take minutes."""
    states = 40_000
    edges = [(i, i + 1) for i in range(states - 1)] + [(i, states - 1) for i in range(states - 2)]
    edges += [(i, i // 2) for i in range(1, states)]
    began = time.process_time()
    layout(states, edges)
    assert time.process_time() - began < 10
