"""The static twin: bounded, escaped, and complete without any script; the plain form says the
same."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz import LogState, Trace
from sgnb.viz.svg import columns, wrap
from sgnb.viz.tokens import visible, visible_segments
from sgnb.viz.twin import LIMIT, twin_bundle
from tests.viz.make_log import HOSTILE, Program, WordEngine, demo
from tests.viz.page import canonical


@pytest.fixture
def state() -> LogState:
    log = EventLog()
    list(demo(log))
    return LogState(log.read().records)


def picture(html: str) -> str:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert found
    return base64.b64decode(found[1]).decode()


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_text_is_shown_and_does_nothing(state: LogState) -> None:
    state.runs["r1"].title = HOSTILE
    bundle = twin_bundle([state.runs["r1"], state.tree], "id1")
    tags = Tags(bundle["text/html"])
    assert tags.tags == {"figure", "style", "img", "figcaption", "table", "tr", "td"}
    assert tags.attributes <= {"class", "style", "alt", "width", "src"}
    root = ElementTree.fromstring(picture(bundle["text/html"]))
    names = {element.tag.partition("}")[2] for element in root.iter()}
    assert names == {"svg", "style", "rect", "g", "text", "path"}
    drawn = "".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert "<img onerror=" in drawn and "</script>" in drawn
    for text in (bundle["text/plain"], drawn, bundle["text/html"]):
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
    bundle = twin_bundle([state.runs["r1"], state.tree], "id1")
    assert 5_000 < sum(map(len, bundle.values())) <= LIMIT
    assert ElementTree.fromstring(picture(bundle["text/html"])) is not None


def test_summary_is_in_the_alt_text_and_table(state: LogState) -> None:
    html = twin_bundle([state.runs["r1"], state.tree], "id1")["text/html"]
    alt = re.search(r'alt="([^"]*)"', html)
    assert alt and "hit rate" in alt[1] and "12 nodes" in alt[1]
    assert "<td>80 passes</td>" in html and "sgnb-twin-id1" in html


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
    again = Trace.open(tmp_path / "run.jsonl")
    assert canonical(again.states.tree, []) == canonical(direct.tree, [])
    assert (
        again.states.runs["r1"].branches["0"].segments == direct.runs["r1"].branches["0"].segments
    )
    bundle = again._repr_mimebundle_()
    assert bundle["text/plain"] == again.text() and bundle["text/html"].startswith("<figure")
