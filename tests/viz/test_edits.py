"""Edited runs in the views: a feed that goes on after a gap, texts, and replay."""

from __future__ import annotations

import random

import pytest

from sgnb import events
from sgnb.events import EventLog, LogReader, decode, encode
from sgnb.viz.live.feed import Feed
from sgnb.viz.live.recorded_run import Recording
from sgnb.viz.live.widget import _read_edit
from sgnb.viz.state.log_state import LogState, with_edits
from sgnb.viz.state.run_state import RunState
from sgnb.viz.state.tree import Trees, TreeState

from .make_log import Program, WordEngine
from .page import canonical, node


def edited_log(log: EventLog) -> None:
    """A run and an edit of its second word."""
    engine = WordEngine(log)
    program = Program(engine, "r1", "story")
    program.branch("0")
    program.add("0", "Once upon")
    list(program.gen("0", "a", " a time there"))
    program.add("0", " was")
    list(program.gen("0", "b", " a king"))
    program.end("0")
    program.finish()
    edited = Program(engine, "r2", "story")
    log.emit(events.RunEdited("r2", "r1", "0", "0", "b", 6, " queen"))
    edited.branch("0")
    edited.add("0", "Once upon")
    edited.recorded("0", "a", " a time there")
    edited.add("0", " was")
    list(edited.gen("0", "b", " of Spain", given=" a queen"))
    edited.end("0")
    edited.finish()


def recorded() -> Recording:
    log = EventLog()
    edited_log(log)
    return Recording([encode(record) for record in LogReader(log).read()[0]], "r1")


def test_the_text_of_an_edit_has_the_cached_part() -> None:
    runs = recorded().states.runs
    assert [run.run for run in with_edits(runs, "r1")] == ["r1", "r2"]
    assert [run.run for run in with_edits(runs, "r2")] == ["r2"]
    branch = runs["r2"].branches["0"]
    assert branch.segments == [
        ["cached", "Once upon a time there was a"], ["computed", " queen"], ["sampled", " of Spain"]
    ]  # fmt: skip
    assert branch.variables == {"a": " a time there", "b": " a queen of Spain"}
    metrics = runs["r2"].metrics
    assert (metrics.prompt_tokens, metrics.output_tokens) == (8, 2)


def test_texts_and_recordings_show_edits() -> None:
    text = recorded().text()
    assert "story, edit of r1: ' queen' in b · done" in text
    assert text.index("a king") < text.index("edit of r1") < text.index("a queen of Spain")


def test_an_edit_without_text_is_named() -> None:
    log = EventLog()
    edited_log(log)
    event = events.RunEdited("r2", "r1", "0", "0", "b", 6, "")
    records = [
        record._replace(event=event) if isinstance(record.event, events.RunEdited) else record
        for record in LogReader(log).read()[0]
    ]
    assert (
        "story, edit of r1: chosen again in b · done"
        in Recording(list(map(encode, records)), "r1").text()
    )
    script = """
      return given.map((text) => wordsOfEdit({ edited: "r1", name: "b", text }));"""
    words = node(script, ("dom", "draw", "edits"), ["", " queen"])
    assert words == ["edit of r1: chosen again in b", "edit of r1: “␣queen” in b"]


def test_an_edit_replays_field_by_field() -> None:
    log = EventLog()
    edited_log(log)
    live, replayed = LogState(), LogState()
    for record in LogReader(log).read()[0]:
        saved = decode(encode(record))
        live.apply(record._replace(t=saved.t))  # a saved time is rounded
        replayed.apply(saved)
        states = [canonical(state.tree, [*state.runs.values()]) for state in (live, replayed)]
        assert states[0] == states[1]
    assert replayed.runs["r2"].edit is not None
    assert replayed.runs["r2"].edit == live.runs["r2"].edit


@pytest.mark.parametrize("seed", range(40))
def test_a_feed_goes_on_after_a_gap(seed: int) -> None:
    rng = random.Random(seed)
    log, trees = EventLog(), Trees()
    engine, reader = WordEngine(log), LogReader(log)
    words = ["a", " b", " c", " d"]

    def work() -> None:
        for _ in range(rng.randint(1, 6)):
            prompt = "".join(rng.choices(words, k=rng.randint(1, 6)))
            list(engine.generate(prompt, rng.choice(words)))
            while rng.random() < 0.4 and (leaves := engine.leaves()):
                engine.evict(rng.choice(leaves))

    def drain(feed: Feed | None) -> None:
        records, lost = reader.read()
        if feed is not None:
            feed.push(records, lost)
        for record in records:
            trees.apply(record)

    work()
    drain(None)
    feed = Feed(trees, log.now())
    for _ in range(3):
        work()
        drain(feed)
        feed.suspend()
        work()
        drain(None)
        feed.resume(log.now())
    work()
    drain(feed)
    page = TreeState()
    for line in feed.lines:
        page.apply(decode(line))
    assert page.missing == 0
    for id in feed._sent[0].nodes & trees[0].nodes.keys() - {0}:
        sent, node = page.nodes[id], trees[0].nodes[id]
        assert (sent.parent, tuple(sent.tokens)) == (node.parent, tuple(node.tokens))


def test_messages_of_pages_are_checked() -> None:
    fields = {"run": "run1", "branch": "0", "position": 3, "text": "a", "token": None}
    request = _read_edit(fields)
    assert request is not None and request.position == 3
    for name, value in [("run", 1), ("position", "3"), ("position", True), ("text", 2)]:
        assert _read_edit({**fields, name: value}) is None
    assert _read_edit({}) is None


def test_a_run_without_edits() -> None:
    assert RunState("r1").edit is None
