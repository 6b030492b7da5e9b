"""The drawing of an automaton: where things are, on the page and in the saved picture."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from sgnb.events import AutomatonDrawn, Record, decode, encode
from sgnb.viz.static.automaton_svg import PILL, AutomatonLayout, automaton_picture
from sgnb.viz.static.bundle import LIMIT
from sgnb.viz.static.svg import INSIDE
from tests.viz.make_log import HOSTILE
from tests.viz.page import node

FILES = [
    "dom",
    "branch",
    "models",
    "reduce",
    "store",
    "draw",
    "text",
    "tree",
    "automaton",
    "inspect",
]


def drawn(
    edges: list[tuple[int, int, str, int]], columns: list[int], rows: list[int], **more: Any
) -> AutomatonDrawn:
    """edges: start, target, the text that is forced, track."""
    starts, targets, texts, tracks = zip(*edges, strict=True)
    return AutomatonDrawn(
        automaton=1,
        grammar="regex",
        source="a pattern",
        complete=True,
        states=tuple(range(1, len(columns) + 1)),
        columns=tuple(columns),
        rows=tuple(rows),
        final=(len(columns),),
        starts=starts,
        targets=targets,
        ways=tuple(range(len(edges))),
        parts=(0,) * len(edges),
        tracks=tracks,
        texts=texts,
        paths=tuple((("ab", text),) for text in texts),
        part_names=("$.part",),
        **more,
    )


def chain(states: int) -> AutomatonDrawn:
    """A string: each place leads to the next one, and to the end."""
    edges = [(i, i + 1, "x", -1) for i in range(states - 1)]
    edges += [(i, states - 1, "the end", 0) for i in range(states - 2)]
    return drawn(edges, list(range(states)), [0] * states)


def ladder() -> AutomatonDrawn:
    """Two rows, loops, and buses forward and back."""
    edges = [(0, 1, "one", -1), (0, 2, "two", -1), (1, 1, "again and again", -1)]
    edges += [(1, 3, "three", -1), (2, 3, "four", -1), (3, 0, "back", 0), (0, 3, "far", 1)]
    return drawn(edges, [0, 1, 1, 2], [0, 0, 1, 0])


def given(one: AutomatonDrawn) -> Any:
    return json.loads(encode(Record(1, 0.0, one)))


PLACE = """
  return given.map(([drawn, width]) => {
    const { width: columns, height } = graphOf(drawn);
    const whole = { width, columns: [0, columns - 1], rows: [0, height - 1] };
    const placed = placeAutomaton(drawn, whole);
    const states = drawn.states.map((_, i) => [placed.at(i).x, placed.at(i).y]);
    return { states, pill: placed.pill, height: placed.height, bands: placed.bands.length,
      lines: placed.arrows.map((arrow) => linesOf(drawn, placed, arrow)) };
  });"""


def test_an_event_is_read_as_it_was_written() -> None:
    assert decode(encode(Record(1, 0.0, ladder()))).event == ladder()


@pytest.mark.parametrize("width", [320, 700, 1600])
def test_states_are_beside_or_below_one_another(width: int) -> None:
    automata = [chain(2), chain(60), ladder()]
    for found in node(PLACE, FILES, [[given(one), width] for one in automata]):
        half, places = found["pill"] / 2, found["states"]
        for i, (x, y) in enumerate(places):
            assert half <= x <= width - half and PILL <= y <= found["height"] - PILL / 2
            for other, under in places[:i]:
                assert abs(x - other) >= 2 * half or abs(y - under) >= PILL
        for lines in found["lines"]:
            for x, y in (point for line in lines for point in line):
                assert 0 <= x <= width and 0 <= y <= found["height"]


def test_the_saved_picture_has_things_where_the_page_has_them() -> None:
    automata = [chain(2), chain(60), ladder()]
    for one, page in zip(
        automata, node(PLACE, FILES, [[given(a), INSIDE] for a in automata]), strict=True
    ):
        placed = AutomatonLayout(one, frozenset(range(len(one.states))))
        assert len(placed.bands) == page["bands"]
        states = [placed.at(i) for i in range(len(one.states))]
        assert page["states"] == [pytest.approx(at) for at in states]
        lines = [placed.lines(arrow) for arrow in placed.arrows]
        assert page["lines"] == [[[pytest.approx(p) for p in ln] for ln in own] for own in lines]


def test_texts_do_not_lie_on_one_another() -> None:
    """Of arrows between the same rows, one has its text."""
    edges = [(0, 1, "a", -1), (0, 2, "b", -1), (1, 3, "c", -1), (1, 4, "d", -1)]
    edges += [(2, 3, "e", -1), (2, 4, "f", -1), (3, 5, "g", -1), (4, 5, "h", -1)]
    one = drawn(edges, [0, 1, 1, 2, 2, 3], [0, 0, 1, 0, 1, 0])
    placed = AutomatonLayout(one, frozenset(range(6)))
    without = [arrow.text for arrow in placed.arrows if placed.is_crowded(arrow)]
    assert without == ["d", "e"]
    script = """
      const all = { width: 800, columns: [0, 3], rows: [0, 1] };
      const { isCrowded, arrows } = placeAutomaton(given, all);
      return arrows.filter(isCrowded).map(({ text }) => text);"""
    assert node(script, FILES, given(one)) == without
    picture = automaton_picture(one, "name")
    assert "stroke-dasharray:none" in picture, "the dashes of other pictures' .e"
    assert picture.count("class='b'") == len(edges) - len(without)


def test_of_a_large_one_what_is_around_a_state_is_shown() -> None:
    script = """
      const graph = graphOf(given);
      return [0, 700, 1999].map((i) => windowOf(given, graph, i, 600).columns);"""
    first, middle, last = node(script, FILES, given(chain(2000)))
    assert first[0] == 0 and 12 <= first[1] <= 50, "in a few bands"
    assert middle[0] == 699 and middle[1] - middle[0] >= 12
    assert last[1] == 1999 and last[1] - last[0] >= 2


def test_2000_states_are_placed_at_once() -> None:
    """`python -m benchmarks views` says in how many milliseconds Chromium draws them."""
    script = """
      const begin = performance.now(), graph = graphOf(given);
      placeAutomaton(given, { width: 800, columns: [0, graph.width - 1], rows: [0, 9] });
      windowOf(given, graph, 1000, 800);
      return performance.now() - begin;"""
    assert node(script, FILES, given(chain(2000))) < 3000


def test_which_share_of_an_edge_is_forced() -> None:
    one = drawn([(0, 1, "", -1), (1, 2, "xyz", -1)], [0, 1, 2], [0, 0, 0])
    script = "return graphOf(given).arrows.map(({ chosen }) => chosen);"
    assert node(script, FILES, given(one)) == [1, 0.25]


def test_a_way_goes_byte_by_byte() -> None:
    """A token over two edges, one that ends inside a character, one that ends inside an edge."""
    way = ("ab", "", "ÃÃ", "", "©©", "")
    one = drawn([(0, 1, "", -1), (1, 2, "", -1), (2, 3, "tail", -1)], [0, 1, 2, 3], [0] * 4)
    paths = ((("ab", ""),), (("ÃÃ", "", "©©", ""), ("x-", "")), (("", "tail"),))
    assert way[2:] == paths[1][0]
    given_ = given(one) | {"paths": paths}
    script = """
      const state = newState(), mask = (before, after) => ({ before, after });
      const pieces = ["a", "bx", "a\\u00c3", "\\u00a9ta", "il"];
      pieces.forEach((piece, i) => state.tokenTable.set(i, latin1(piece)));
      const walk = (ids) => walkOf(state, given, {
        output: ids.map((token) => ({ token, mask: mask(1, 1) })) });
      const brief = (step) => [step.edges, step.state, onEdge(step)?.read ?? null];
      return [walk([2, 3, 4]).map(brief), walk([0, 1]).map(brief)];"""
    inside, wrong = node(script, FILES, given_)
    assert inside == [[[0], 1, 1], [[1], 2, 2], [[2], 3, None]]
    assert wrong[0] == [[0], 1, None] and wrong[1][0] == [], "nothing there leads on with b"


def test_text_is_text_in_the_picture() -> None:
    one = drawn([(0, 1, HOSTILE, -1)], [0, 1], [0, 0], allowed=(3, 0))
    picture = automaton_picture(one, f"x' {HOSTILE}")
    tree = ElementTree.fromstring(picture.replace("\x00", ""))
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert names <= {"svg", "style", "g", "rect", "path", "text"}
    words = [element.text for element in tree.iter() if element.tag.endswith("}text")]
    assert "3" in words and any("<img" in word for word in words if word)


def test_the_picture_of_a_large_one_is_bounded_and_says_so() -> None:
    columns, rows = [0, *([1] * 1998), 2], [0, *range(1998), 0]
    wide = [(0, i, "x", -1) for i in range(1, 1999)] + [(i, 1999, "y", -1) for i in range(1, 1999)]
    full = [(i, j, "x", -1 if j == i + 1 else j) for i in range(60) for j in range(60)]
    for one, said in [
        (chain(2000), "the 40 at the start are drawn"),
        (drawn(wide, columns, rows), "at the start are drawn"),
        (drawn(full, list(range(60)), [0] * 60), "at the start are drawn"),
    ]:
        picture = automaton_picture(one, "x")
        assert len(json.dumps(picture)) < LIMIT - 10_000 and said in picture
    assert "at the start" not in automaton_picture(chain(60), "x")


def test_a_state_says_what_leads_on() -> None:
    script = """
      const state = newState();
      apply(state, given);
      const [found, ...none] = [[1, 1], [1, 99], [2, 1]].map(([automaton, number]) =>
        describe(state, { automaton, state: number }));
      return [found.facts, ...none];"""
    one = drawn([(0, 1, "xyz", -1), (0, 2, "q", 0)], [0, 1, 2], [0, 0, 0], allowed=(7, 0, 0))
    facts, *none = node(script, FILES, given(one))
    assert facts == [
        ["state", "1"],
        ["allowed", "7 tokens"],
        ["part", "$.part"],
        ["leads on", "xyz to 2, q to 3"],
    ]
    assert none == [None, None]
