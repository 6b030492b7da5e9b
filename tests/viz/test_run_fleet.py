"""Lanes of a fleet's workers: texts, holders of a prompt, and the page's twin."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb import events
from sgnb.events import EventLog, LogReader, decode, encode
from sgnb.viz.live.feed import Feed
from sgnb.viz.state import run_fleet
from sgnb.viz.state.lanes import Bar
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.run_fleet import Route, WorkerCall, rows_of
from sgnb.viz.state.tree import Trees
from sgnb.viz.static.kept_views import WorkersView, view_of
from sgnb.viz.static.media_svg import Thumbnails
from sgnb.viz.static.plain_text import plain_text, run_text

from .page import node
from .test_page import REDUCERS


def emit_request(engine: EventLog, number: int, branch: str, name: str, ends: bool = True) -> None:
    """A request of the run that samples a token."""
    engine.emit(events.RequestQueued(number, "r", branch, name, "generate", (5, 6, 7)))
    engine.emit(events.RequestAdmitted(number, 2))
    extended, sampled = events.Extended(number, 2, 1), events.Sampled(number, 8, -0.5)
    engine.emit(events.StepRan(1, 0.001, (extended,), (sampled,), 9, 0, 0, 0, 0))
    if ends:
        engine.emit(events.RequestFinished(number, "stop", 3, 2, 1))


def fleet_log() -> tuple[EventLog, list[EventLog]]:
    """A run on three workers; worker 2 ends. The logs of the engines are joined."""
    log, engines = EventLog(), [EventLog() for _ in range(3)]
    for number, engine in enumerate(engines):
        log.emit(events.WorkerJoined(number, "tiny", log.join(engine)))
        engine.emit(events.EngineStarted("tiny", "cpu", "float32", "torch", 1000, 512))
    log.emit(events.RunStarted("r", "tale", "", 1))
    log.emit(events.BranchStarted("r", "0", "", ""))
    estimates = (0.25, 0.05, 0.0, 0.4)
    log.emit(events.CallRouted("r", "0", "a", 2, 3, 1000, 0, 0.0, 0.2, 0.0, 0.2))
    emit_request(engines[2], 7, "0", "a", ends=False)
    log.emit(events.WorkerLost(2, "the engine is closed", 3))
    log.emit(events.CallRetried("r", "0", "a", 2, 7))
    reason = {
        "compared": (1, 0),
        "compared_cached": (960, 320),
        "compared_first": (0.3, 0.7),
        "compared_others": (0.02, 0.0),
    }
    log.emit(events.CallRouted("r", "0", "a", 0, 1, 1200, 960, *estimates, 0.0, **reason))
    emit_request(engines[0], 1, "0", "a")
    log.emit(events.CallRouted("other", "0", "b", 1, 2, 10, 0, *estimates))
    log.emit(events.CallRouted("r", "0", "b", 1, 2, 10, 0, *estimates))
    emit_request(engines[1], 4, "0", "b")
    emit_request(engines[1], 5, "0", "b")
    log.emit(events.FleetScaled(3, "start", "an expected wait of 9.0 s"))
    engines[0].emit(events.NodeAdded(1, 0, (5, 6, 7), "space"))
    engines[0].emit(events.NodeAdded(2, 1, (8, 9)))
    engines[1].emit(events.NodeAdded(1, 0, (5, 6), "space"))
    engines[1].emit(events.NodeAdded(2, 0, (5, 6, 7, 8)))
    return log, engines


TEXT = """\
worker 3 start: an expected wait of 9.0 s
worker 0: 1 call · 960 of 1,200 prompt tokens cached
  0 a: worker 0, 960 of 1,200 prompt tokens cached, first token in 300 ms; 400 ms on the least \
busy worker
worker 1: 1 call · 0 of 10 prompt tokens cached
  0 b: worker 1, 0 of 10 prompt tokens cached, first token in 300 ms
worker 2: 1 call · 0 of 1,000 prompt tokens cached · 1 continued elsewhere · ended: the engine is \
closed
  0 a: worker 2, 0 of 1,000 prompt tokens cached, first token in 200 ms"""


def without_times(text: str) -> str:
    lines = (line.partition(" s  ") for line in text.split("\n"))
    return "\n".join(f"  {after}" if after else before for before, _, after in lines)


def test_lanes_and_reasons_as_text() -> None:
    log, _engines = fleet_log()
    state = LogState(LogReader(log).read().records)
    run = state.runs["r"]
    assert without_times(run.fleet.text()) == TEXT
    assert run.fleet.line() in run_text(run)
    assert [tree.engine is not None for tree in run.trees()] == [False, True, True, True]


def test_changes_after_the_run_are_not_of_the_run() -> None:
    log, _engines = fleet_log()
    log.emit(events.RunFinished("r", "done"))
    log.emit(events.FleetScaled(3, "stop", "not needed"))
    lines = LogState(LogReader(log).read().records).runs["r"].fleet.line().split("\n")
    assert lines[-1] == "worker 3 start: an expected wait of 9.0 s"


def test_trees_are_named_after_the_workers() -> None:
    """The log of a fleet has no engine, and therefore no tree."""
    log, _engines = fleet_log()
    state = LogState(LogReader(log).read().records)
    run = state.runs["r"]
    headings = [
        line.partition(" · ")[0]
        for line in plain_text([run, *run.trees()]).split("\n")
        if line.startswith("radix tree")
    ]
    trees = {0: "2 nodes", 1: "2 nodes", 2: "0 nodes"}
    names = [
        f"radix tree of worker {worker}: {trees[worker]}" for worker in sorted(run.fleet.lanes)
    ]
    assert headings == names


def test_calls_have_the_requests_of_their_worker() -> None:
    log, _engines = fleet_log()
    run = LogState(LogReader(log).read().records).runs["r"]
    calls = run.fleet.calls(run.lanes)
    assert {worker: [len(call.bars) for call in own] for worker, own in calls.items()} == {
        0: [1], 1: [2], 2: [1]
    }  # fmt: skip
    (moved,), (absence,) = calls[2], run.fleet.lanes[2].absences
    assert moved.route.moved is not None and moved.route.moved >= absence.began
    assert moved.bars[0].finished == absence.began, "no request outlives its worker"
    assert calls[0][0].end(99.0) == calls[0][0].bars[0].finished


def test_a_worker_returns_with_another_engine() -> None:
    log, _engines = fleet_log()
    back = EventLog()
    log.emit(events.WorkerJoined(2, "tiny", log.join(back)))
    log.emit(events.WorkerJoined(3, "tiny", log.join(EventLog())))
    run = LogState(LogReader(log).read().records).runs["r"]
    lane, (absence,) = run.fleet.lanes[2], run.fleet.lanes[2].absences
    assert absence.ended is not None and absence.line().startswith("ended: the engine is closed, b")
    assert (lane.engine, lane.joined) == (4, None)
    assert run.fleet.lanes[3].joined is not None and 3 not in [w.worker for w in run.fleet.used]


@given(st.lists(st.tuples(*[st.integers(0, 20)] * 3), max_size=12))
def test_calls_of_a_row_do_not_overlap(times: list[tuple[int, int, int]]) -> None:
    calls = []
    for t, waited, seconds in sorted(times):
        event = events.CallRouted("r", "0", "a", 0, 1, 9, 0, 0.0, 0.0, 0.0, 0.0, waited)
        bar = Bar("0", "a", t, finished=t + seconds if seconds < 15 else None)
        calls.append(WorkerCall(Route(t, event), (bar,)))
    rows = rows_of(calls, 50.0)
    for (i, one), (j, other) in combinations(enumerate(calls), 2):
        if rows[i] == rows[j]:
            assert one.end(50.0) <= other.began or other.end(50.0) <= one.began


def test_a_feed_has_the_workers_and_their_records() -> None:
    """The workers joined before the feed began; a page sees the calls and the trees of all."""
    log, _engines = fleet_log()
    records = [decode(encode(record)) for record in LogReader(log).read().records]
    start = next(i for i, record in enumerate(records) if type(record.event) is events.RunStarted)
    trees = Trees()
    for record in records[:start]:
        trees.apply(record)
    feed = Feed(trees, 0.0)
    feed.push(records[start:], 0)
    fed = LogState(map(decode, feed.lines)).runs["r"]
    direct = LogState(records).runs["r"]
    assert fed.fleet.text() == direct.fleet.text()
    assert [lane.joined for lane in fed.fleet.lanes.values()] == [None] * 3
    assert [len(own) for own in fed.fleet.calls(fed.lanes).values()] == [1, 1, 1]
    assert fed.metrics == direct.metrics and fed.metrics.output_tokens == 4


@pytest.mark.parametrize("rows", [1, 8])
def test_the_picture_of_workers(rows: int) -> None:
    log, _engines = fleet_log()
    records = LogReader(log).read().records
    view = view_of("workers", records, "r")
    assert isinstance(view, WorkersView) and view.text().endswith(view.run.fleet.text())
    body, _height = view.draw(rows, Thumbnails("id", 0))
    elements = list(ElementTree.fromstring(f"<g>{body}</g>").iter())
    words = [element.text for element in elements if element.tag == "text"]
    shown = {word for word in words if word and word.startswith("worker ")}
    assert shown >= {f"worker {worker}" for worker in range(min(3, 2 * rows))}
    assert ("and 1 more worker" in words) == (rows == 1)
    assert view_of("workers", records[:2], "r") is None


def test_later_decisions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_fleet, "KEPT_ROUTES", 2)
    log = EventLog()
    log.emit(events.RunStarted("r", "tale", "", 1))
    for _ in range(5):
        log.emit(events.CallRouted("r", "0", "a", 0, 1, 10, 0, 0.0, 0.2, 0.0, 0.2))
    fleet = LogState(log.read().records).runs["r"].fleet
    assert len(fleet.lanes[0].routes) == 2
    assert fleet.text().endswith("and 3 more calls")


PROMPTS: list[tuple[list[int], str, dict[int, int]]] = [
    ([5, 6, 7, 8, 9], "space", {0: 5, 1: 2}),
    ([5, 6, 7, 8, 9], "", {1: 4}),
    ([5, 6, 1], "space", {0: 2, 1: 2}),
    ([4], "", {}),
]


def test_the_page_has_the_same_words_and_holders() -> None:
    log, _engines = fleet_log()
    lines = [encode(record) for record in LogReader(log).read().records]
    script = """
      const state = newState();
      for (const line of given.lines) apply(state, parseLine(line));
      const shown = copyState(state), run = shown.runs.get("r");
      const holders = given.prompts.map(([tokens, space]) =>
        Object.fromEntries(holdersOf(run, shown.peers, tokens, space)));
      const routes = workerLanes(run).flatMap((lane) => lane.routes.map(wordsOfRoute));
      const calls = callsOfWorkers(run, timelineOf(shown, run));
      const facts = [...calls.values()].flat().map(({ route: { t, event } }) =>
        describe(shown, { run: "r", worker: event.worker, branch: "0", routed: t }).facts);
      const found = routeOf(run, { branch: "0", name: "a", queued: 1e9 }).event.worker;
      const shared = [...shown.others.values()].every((own) => own.peers === shown.others);
      const count = enginesOf(shown, run).length, details = facts.map(Object.fromEntries);
      return [wordsOfFleet(run), routes, holders, found, shared, count, details];
    """
    sent: Any = {"lines": lines, "prompts": [prompt[:2] for prompt in PROMPTS]}
    files = (
        *REDUCERS,
        "draw",
        "inspect",
        "axis",
        "lane_search",
        "lane_drawing",
        "branches",
        "workers",
    )
    words, routes, holders, found, shared, count, facts = node(script, files, sent)
    fleet = LogState(map(decode, lines)).runs["r"].fleet
    assert words == fleet.line()
    assert routes == [r.line() for _, lane in sorted(fleet.lanes.items()) for r in lane.routes]
    assert json.loads(json.dumps(holders)) == [
        {str(worker): length for worker, length in expected.items()} for *_, expected in PROMPTS
    ]
    assert (found, shared, count) == (0, True, 4)
    moved, _, chosen = sorted(facts, key=lambda fact: fact["worker"], reverse=True)
    assert moved["moved"].endswith("the worker ended, the engine is closed")
    assert chosen["worker"] == "0, 960 of 1,200 prompt tokens cached"
    assert chosen["cost of worker 1"] == (
        "320 ms: first token 300 ms, later calls 20 ms; 960 tokens cached"
    )
    assert chosen["cost of worker 0"].startswith("700 ms, the choice: first token 700 ms")
    assert "in the fleet" in chosen["measured"] and "decode" in chosen["measured"]
