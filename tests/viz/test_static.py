"""The static twin: bounded, escaped, and complete without any script; the plain form says the
same."""

from __future__ import annotations

import json
import random
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbconvert import HTMLExporter

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz import LogState, Recording
from sgnb.viz.state.token_table import visible, visible_segments
from sgnb.viz.state.tree import TreeNode
from sgnb.viz.static.bundle import LIMIT, STYLE_BUNDLE, size, static_bundle
from sgnb.viz.static.plain_text import in_line, plain_text, tree_text
from sgnb.viz.static.svg import INSIDE, columns, wrap
from sgnb.viz.static.tree_svg import layout, shown_nodes
from tests.viz.make_log import HOSTILE, SYSTEM, Program, WordEngine, demo
from tests.viz.page import canonical


@pytest.fixture
def state() -> LogState:
    log = EventLog()
    list(demo(log))
    return LogState(log.read().records)


def drawn(bundle: dict[str, str], style: str = "") -> list[ElementTree.Element]:
    """The elements of the picture; with `style` those of that class."""
    elements = list(ElementTree.fromstring(bundle["image/svg+xml"]).iter())
    return [e for e in elements if not style or style in e.get("class", "").split()]


def words(bundle: dict[str, str]) -> list[str]:
    return [e.text or "" for e in drawn(bundle) if e.tag.endswith("}text")]


def batch(rows: int, answer: str, failed: int = -1) -> LogState:
    log = EventLog(memory=10**9)
    engine = WordEngine(log, pool=10**6)
    program = Program(engine, title="capitals", total=rows)
    for i in range(rows):
        name = str(i)
        program.branch(name)
        log.emit(events.ProgramCalled("r1", name, f"country='Land{i}'"))
        program.add(name, f"{SYSTEM}Country: Land{i}\nCapital:")
        if i != failed:
            list(program.gen(name, "capital", answer.format(i)))
        program.end(name, "ValueError: no such land" if i == failed else "")
    program.finish()
    return LogState(log.read().records)


def test_hostile_text_is_shown_and_does_nothing(state: LogState) -> None:
    state.runs["r1"].title = HOSTILE
    bundle = static_bundle([state.runs["r1"], state.tree], "id1")
    assert list(bundle) == ["image/svg+xml", "text/plain"]
    elements = drawn(bundle)
    names = {element.tag.partition("}")[2] for element in elements}
    assert names == {"svg", "style", "rect", "g", "text", "path"}
    assert not any(name.startswith("on") for element in elements for name in element.attrib)
    shown = "".join(words(bundle))
    assert "<img onerror=" in shown and "</script>" in shown
    for text in (bundle["text/plain"], shown, bundle["image/svg+xml"]):
        assert "\u202e" not in text and "\0" not in text


def test_visible_keeps_length_and_survives_encoding() -> None:
    text = "a\x00\u202e\ud83d\t\n\u05d0\u200f\x1b[31m\uffff"
    assert len(visible(text)) == len(text)
    assert visible(text) == "a\ufffd\ufffd\ufffd\t\n\u05d0\ufffd\ufffd[31m\ufffd"
    json.dumps(visible(text)).encode("utf-8")
    visible(text).encode("utf-8")


def test_what_has_no_width_or_turns_the_text_is_shown() -> None:
    hidden = "\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u2060\u2063\ufeff\U000e0041\U000e0100"
    assert visible(f"pay{hidden}pal") == "pay" + "\ufffd" * len(hidden) + "pal"
    assert visible("❤\ufe0f é e\u0301 \u0928\u093f") == "❤\ufe0f é e\u0301 \u0928\u093f"


FAMILY, HEART, FLAG = "👩\u200d👩🏽\u200d👧", "❤\ufe0f\u200d🔥", "🏳\ufe0f\u200d⚧\ufe0f"


@pytest.mark.parametrize("text", [FAMILY, HEART, FLAG])
def test_joined_emoji_hide_their_joiner(text: str) -> None:
    assert visible(f"a {text} b") == f"a {text} b"
    assert visible_segments([["text", text[:2]], ["sampled", text[2:]]]) == [
        ["text", text[:2]], ["sampled", text[2:]]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["a\u200d👩", "👩\u200da", "👩\u200d", "👩\u200d\u200d👩", "a\ufe0f\u200d👩"]
)
def test_other_joiners_are_shown(text: str) -> None:
    assert visible(text) == text.replace("\u200d", "\ufffd")


@pytest.mark.slow
def test_the_bundle_is_bounded() -> None:
    log = EventLog(memory=10**9)
    engine = WordEngine(log, pool=10**6)
    program = Program(engine, title="x" * 5_000)
    for i in range(12):
        program.branch(str(i))
        program.add(str(i), f"{i} " + "\u6f22 &<>\"' \n" * 20_000)
    for i in range(2_000):
        engine.insert((1_000 + i, *range(i)))
    log.emit(events.TokensNamed((1,), ("&",)))
    state = LogState(log.read().records)
    bundle = static_bundle([state.runs["r1"], state.tree], "id1")
    assert 5_000 < size(bundle) <= LIMIT == 60_000
    assert drawn(bundle)


@pytest.mark.parametrize(
    "rows, answer",
    [(8, " City {}."), pytest.param(300, " City {}." + " \u6f22é" * 40, marks=pytest.mark.slow)],
)
def test_a_saved_batch_is_small_and_its_answers_are_read(rows: int, answer: str) -> None:
    state = batch(rows, answer, failed=rows - 2)
    bundle = static_bundle([state.runs["r1"], state.tree], "id1")
    assert size(bundle) < (10_200 if rows == 8 else LIMIT)
    shown = words(bundle)
    places = [next(i for i, text in enumerate(shown) if f"City {row}" in text) for row in (0, 1, 5)]
    begin = shown.index("every row begins with")
    assert places == sorted(places) and places[-1] < begin, "answers first"
    assert [text for text in shown[begin:] if text == SYSTEM[:-1]] == [SYSTEM[:-1]]
    assert bundle["text/plain"].count(SYSTEM) == 1
    for text in (bundle["text/plain"], "\n".join(shown)):
        assert "error: ValueError: no such land" in text and "City 5." in text
        assert "country='Land5'" in text
    if rows == 300:
        assert "… 276 more rows" in shown and "and 240 more rows" in bundle["text/plain"]


def test_a_cell_is_small(state: LogState) -> None:
    assert size(static_bundle([state.runs["r1"], state.tree], "id1")) < 20_000


def test_long_text_keeps_its_end_where_the_answer_is() -> None:
    log = EventLog()
    program = Program(WordEngine(log))
    program.branch("0")
    program.add("0", "line\n" * 200)
    list(program.gen("0", "a", " the answer"))
    state = LogState(log.read().records)
    shown = words(static_bundle([state.runs["r1"]], "id1"))
    assert shown[-1] == " the answer" and "… 177 more lines" in shown


@pytest.mark.parametrize("sanitize", [False, True])
def test_nbconvert_shows_the_picture_whether_it_sanitises_or_not(
    state: LogState, sanitize: bool
) -> None:
    bundle = static_bundle([state.runs["r1"], state.tree], "id1")
    output = nbformat.v4.new_output
    outputs = [output("display_data", dict(data)) for data in (STYLE_BUNDLE, bundle)]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    book = nbformat.v4.new_notebook(cells=[cell])
    page, _ = HTMLExporter(sanitize_html=sanitize).from_notebook_node(book)
    body = page[page.index("<main") :]
    assert 'src="data:image/svg+xml;base64,' in body
    assert "&lt;" not in body and ("sgnb-style" not in body or not sanitize)


def test_savings_are_tokens_without_a_time(state: LogState) -> None:
    bundle = static_bundle([state.runs["r1"]], "id1")
    line = "239 of 267 prompt tokens found in the cache"
    assert line in bundle["text/plain"].splitlines()
    assert line in words(bundle) and f"{line}:" not in words(bundle)


def test_an_error_is_said_once() -> None:
    log = EventLog()
    program = Program(WordEngine(log))
    program.branch("0")
    program.end("0", "ValueError: bad")
    state = LogState(log.read().records)
    text = plain_text([state.runs["r1"]])
    assert text.count("ValueError: bad") == 1 and " · 1 failed: ValueError" in text


def test_a_stopped_row_shows_the_partial_text() -> None:
    log = EventLog()
    program = Program(WordEngine(log), total=2)
    for row, error in enumerate(("Aborted: the run was stopped", "ValueError: bad")):
        program.branch(f"{row}")
        for _ in program.gen(f"{row}", "story", " Once upon a time"):
            pass
        program.end(f"{row}", error)
    program.finish("interrupted")
    state = LogState(log.read().records)
    run = state.runs["r1"]
    assert [row.status for row in run.rows.values()] == ["stopped", "error"]
    assert (run.stopped, run.failed, run.metrics.finished) == (1, 1, 1)
    text = plain_text([run])
    assert "Once upon a time" in text and "Aborted" not in text
    assert "1 failed · 1 stopped, with partial texts" in text


def test_white_space_is_seen(state: LogState) -> None:
    assert [in_line(text, 9) for text in (" ", "\n", " a b  ", "\t", " a" * 9)] == [
        "␣", "⏎", "␣a b␣␣", "⇥", "␣a a a a…"
    ]  # fmt: skip
    assert "─ ␣How do I" in tree_text(state.tree)


def boxes(bundle: dict[str, str], legend: int = 4) -> list[tuple[float, float, float, float]]:
    """The nodes of the icicle: left, top, right, bottom; without the last, the legend's."""
    found = []
    for element in drawn(bundle, "n"):
        x, y, width, height = (float(element.get(key, "")) for key in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found[:-legend]


def random_tree(rng: random.Random, nodes: int) -> LogState:
    log = EventLog()
    engine = WordEngine(log)
    paths: list[tuple[int, ...]] = [()]
    for i in range(nodes):
        path = (*rng.choice(paths), *[1000 + i, *[7] * rng.choice([0, 3, 300])])
        paths.append(path)
        engine.insert(path)
    log.emit(events.RunStarted("r1", "run", "", 1))
    return LogState(log.read().records)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_in_the_tree_covers_anything(seed: int) -> None:
    rng = random.Random(seed)
    state = random_tree(rng, rng.choice([5, 126]))
    bundle = static_bundle([state.runs["r1"], state.tree], "id1")
    nodes = boxes(bundle)
    for a, b in combinations(nodes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert max(right for _, _, right, _ in nodes) <= INSIDE
    labels = [e for e in drawn(bundle) if e.get("class") in ("b", "c")]
    for label in labels:
        x, y, length = (float(label.get(key, "")) for key in ("x", "y", "textLength"))
        end = (x, y + length) if label.get("transform") else (x + length, y)
        assert any(n[0] < x and n[1] < y and end[0] < n[2] and end[1] < n[3] for n in nodes)
    hidden = len(state.tree.nodes) - 1 - len(nodes)
    said = f"{hidden} more node{'s' * (hidden != 1)} not drawn; +N says how many below a node"
    assert (said in words(bundle)) == (hidden > 0)


def widths_of(lengths: list[int]) -> tuple[list[float], list[str]]:
    """Widths of the drawn nodes, and the words of the picture."""
    log = EventLog()
    engine = WordEngine(log)
    for i, length in enumerate(lengths):
        engine.insert((i + 100, *[7] * (length - 1)))
    bundle = static_bundle([LogState(log.read().records).tree], "id1")
    return [right - left for left, _, right, _ in boxes(bundle, legend=1)], words(bundle)


def test_widths_are_linear_if_all_nodes_fit() -> None:
    widths, text = widths_of([10, 20, 40])
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.05)
    assert widths[2] / widths[0] == pytest.approx(4, rel=0.05)
    assert not any("logarithm" in line for line in text)


def test_a_longer_node_is_wider_in_any_tree() -> None:
    widths, text = widths_of([10, 22, 200, 973, 2_000])
    assert all(b > a + 5 for a, b in pairwise(widths)) and widths[3] > 1.5 * widths[1]
    assert "widths grow with the logarithm of the tokens" in text


def test_the_legend_stays_inside_the_picture() -> None:
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1")
    program.branch("0")
    for i, length in enumerate([10, 22, 200, 973, 2_000]):
        node = engine.insert((i + 100, *[7] * (length - 1)))
    log.emit(events.NodePinned(node, "me", 1))
    program.end("0")
    program.finish()
    state = LogState(log.read().records)
    texts = drawn(static_bundle([state.tree, state.runs["r1"]], "id1"), "m")
    ends = {e.text: float(e.get("x", 0)) + 6 * len(e.text or "") for e in texts if e.text}
    assert {"pinned", "widths grow with the logarithm of the tokens"} <= ends.keys()
    assert max(ends.values()) <= INSIDE


def test_a_deep_tree_has_a_place_for_every_node() -> None:
    nodes = [TreeNode(i, i - 1, (i, i)) for i in range(1, 3_000)]
    placed, _, _ = layout(nodes, 800)
    assert all(placed[b.id].x >= placed[a.id].x for a, b in pairwise(nodes))
    last = placed[2_999]
    assert last.x + last.width <= 801


def test_the_runs_own_part_is_shown_first() -> None:
    log = EventLog()
    engine = WordEngine(log)
    list(engine.generate("Once upon a time", " there was"))
    program = Program(engine)
    program.branch("0")
    program.add("0", "Once upon a hill")
    list(program.gen("0", "a", " we sat"))
    for i in range(50):
        engine.insert((5_000 + i,))
    state = LogState(log.read().records)
    kept = shown_nodes(state.tree, state.runs["r1"], 2)
    texts = {state.tree.text(node): node for node in state.tree.nodes.values() if node.id in kept}
    assert {"Once upon a", " hill we sat"} < set(texts) and len(texts) == 3
    assert (texts["Once upon a"].hits, texts["Once upon a"].made_by) == (1, "")
    assert (texts[" hill we sat"].hits, texts[" hill we sat"].made_by) == (0, "r1")


def test_wrapping_breaks_at_spaces_and_by_cells() -> None:
    lines = list(wrap([["cached", "aaa bbb "], ["sampled", "cccccccccc\nd\u6f22\u6f22"]], 8))
    assert lines == [
        [("cached", "aaa bbb ")],
        [("sampled", "cccccccc")],
        [("sampled", "cc")],
        [("sampled", "d\u6f22\u6f22")],
    ]
    assert columns("d\u6f22\u0301") == 3
    assert list(wrap([["text", "\u6f22\u6f22"]], 1)) == [[("text", "\u6f22")], [("text", "\u6f22")]]


def test_a_recorded_log_replays_to_the_same_picture(tmp_path: Path) -> None:
    log = EventLog()
    list(demo(log))
    with events.Recorder(log, tmp_path / "run.jsonl"):
        pass
    direct = LogState(log.read().records)
    again = Recording.open(tmp_path / "run.jsonl")
    assert canonical(again.states.tree, []) == canonical(direct.tree, [])
    assert (
        again.states.runs["r1"].branches["0"].segments == direct.runs["r1"].branches["0"].segments
    )
    bundle = again._repr_mimebundle_()
    assert bundle["text/plain"] == again.text() and bundle["image/svg+xml"].startswith("<svg")
