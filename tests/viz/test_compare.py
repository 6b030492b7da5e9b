"""A comparison as a state: metrics, what was found, and the same in the page."""

from __future__ import annotations

import itertools
import json
from xml.etree import ElementTree

import pytest

from sgnb import events
from sgnb.events import EventLog, encode, event_log
from sgnb.viz import LogState
from sgnb.viz.state.comparison import AS_IS, Comparison
from sgnb.viz.static.bundle import size, static_bundle
from sgnb.viz.static.plain_text import plain_text

from .make_log import HOSTILE, SYSTEM, Program, WordEngine
from .page import node

FILES = (
    *("dom", "branch", "models", "reduce", "store", "draw", "text", "miss", "axis"),
    *("lane_drawing", "branches", "rerun", "compare"),
)
HOW = "median of 2 runs of each, in turns"
GAIN = "nocache: Without the cache it takes 2.00 times as long (99% interval 1 to 3); the same text"


def compared(
    answers: dict[str, str], forks: int = 0, title: str = "demo", done: bool = True
) -> EventLog:
    """Each variant ran twice, and gave its answer; "" stands for one that was not run."""
    log = EventLog()
    engine, ran = WordEngine(log), 0
    for turn in range(2):
        for variant, answer in answers.items():
            if not answer:
                if not turn:
                    log.emit(events.VariantRan("c1", variant, "", "it cannot differ"))
                continue
            ran += 1
            program = Program(engine, f"r{ran}", title)
            program.branch("0")
            program.add("0", SYSTEM)
            for i in range(forks):
                program.branch(f"0.{i}", "0")
                list(program.gen(f"0.{i}", "tip", answer))
            list(program.gen("0", "answer", answer))
            program.end("0")
            program.finish()
            differs = "" if answer == answers[AS_IS] else "branch 0, answer, character 3"
            log.emit(events.VariantRan("c1", variant, f"r{ran}", differs))
    if done:
        log.emit(events.ComparisonDone("c1", (HOW, GAIN)))
    return log


def state(log: EventLog) -> Comparison:
    return LogState(log.read().records).comparison


LOGS = [
    compared({AS_IS: " A tip.", "nocache": " A tip.", "nofork": ""}),
    compared({AS_IS: " A tip.", "nojump": f" {HOSTILE}"}, forks=3, done=False),
]


@pytest.mark.parametrize("log", LOGS)
def test_the_page_has_the_same_rows(log: EventLog) -> None:
    # Seconds of a recorded log are rounded.
    log_state = LogState(events.replay(encode(record) for record in log.read().records))
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const { id, lines } = state.comparison;
      return [id, lines, comparedRows(state)];"""
    found = node(script, FILES, [encode(record) for record in log.read().records])
    here = log_state.comparison
    assert found == json.loads(json.dumps([here.id, here.lines, here.rows()]))
    assert len(here.rows()) == len(here.variants) >= 2


def test_the_run_of_median_time_is_shown_and_its_figures() -> None:
    here = state(LOGS[0])
    as_is, nocache, nofork = here.rows()
    assert (as_is["variant"], as_is["times"], as_is["same_text"]) == (AS_IS, 1.0, True)
    assert as_is["fastest"] == as_is["seconds"] < as_is["slowest"], "of two the faster"
    assert as_is["prompt_tokens"] == as_is["cached_tokens"] + as_is["computed_tokens"] > 0
    assert (nocache["passes"], nocache["sampled_tokens"], nocache["jumped_tokens"]) == (3, 3, 0)
    assert nofork == {"variant": "nofork", "note": "it cannot differ"}


def test_a_new_comparison_takes_the_place_of_the_last() -> None:
    log = compared({AS_IS: " A tip.", "nocache": " A tip."})
    log.emit(events.VariantRan("c2", AS_IS, "r1", ""))
    log.emit(events.ComparisonDone("c1", ("of the old one",)))
    here = state(log)
    assert (list(here.variants), here.lines) == ([AS_IS], ())


def test_the_picture_is_small_and_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine would make the bars of short requests too narrow to draw.
    ticks = itertools.count()
    monkeypatch.setattr(event_log.time, "perf_counter", lambda: 0.001 * next(ticks))
    answers = {
        AS_IS: " A tip.",
        "nocache": " A tip.",
        "nojump": " Another tip.",
        "nofork": " A tip.",
    }
    here = state(compared(answers, forks=40, title=HOSTILE))
    bundle = static_bundle([here], "id1")
    assert size(bundle) < 20_000
    elements = list(ElementTree.fromstring(bundle["image/svg+xml"]).iter())
    words = [element.text or "" for element in elements if element.tag.endswith("}text")]
    for text in (bundle["text/plain"], "\n".join(words)):
        assert "<img onerror=" in text and "\u202e" not in text
        assert HOW in text and "it takes 2.00 times as long" in text
        assert "the same" in text and "differs" in text
    assert words.count("and 35 more lanes") == 4 and words.count(AS_IS) == 2
    bars = [element for element in elements if element.get("class") in ("w", "p", "d")]
    right = max(float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in bars)
    assert len(bars) > 24 and right <= 745


def test_what_was_not_run_says_so_and_what_is_measured_is_not_over() -> None:
    text = plain_text([state(compared({AS_IS: " A tip.", "nofork": ""}, done=False))])
    assert "measuring" in text.splitlines()[0]
    assert text.splitlines()[-1].split() == ["nofork", "not", "run"]
