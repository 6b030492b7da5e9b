"""Lanes of a fleet's workers: texts, holders of a prompt, and the page's twin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgnb import events
from sgnb.events import EventLog, LogReader, decode, encode
from sgnb.viz.state import run_fleet
from sgnb.viz.state.log_state import LogState
from sgnb.viz.static.plain_text import plain_text, run_text

from .page import node
from .test_page import REDUCERS


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
    log.emit(events.WorkerLost(2, "the engine is closed"))
    log.emit(events.CallRetried("r", "0", "a", 2, 7))
    log.emit(events.CallRouted("r", "0", "a", 0, 1, 1200, 960, *estimates))
    log.emit(events.CallRouted("other", "0", "b", 1, 2, 10, 0, *estimates))
    log.emit(events.CallRouted("r", "0", "b", 1, 2, 10, 0, *estimates))
    engines[0].emit(events.NodeAdded(1, 0, (5, 6, 7), "space"))
    engines[0].emit(events.NodeAdded(2, 1, (8, 9)))
    engines[1].emit(events.NodeAdded(1, 0, (5, 6), "space"))
    engines[1].emit(events.NodeAdded(2, 0, (5, 6, 7, 8)))
    return log, engines


TEXT = """\
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
    names = [f"radix tree of worker {worker}: {trees[worker]}" for worker in run.fleet.lanes]
    assert headings == names


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


def test_holders_of_a_prompt() -> None:
    log, _engines = fleet_log()
    state = LogState(LogReader(log).read().records)
    for tokens, namespace, expected in PROMPTS:
        assert state.runs["r"].fleet.holders(state.trees, tokens, namespace) == expected


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
      const found = routeOf(run, { branch: "0", name: "a", queued: 1e9 }).event.worker;
      const shared = [...shown.others.values()].every((own) => own.peers === shown.others);
      return [wordsOfFleet(run), routes, holders, found, shared, enginesOf(shown, run).length];
    """
    given: Any = {"lines": lines, "prompts": [prompt[:2] for prompt in PROMPTS]}
    words, routes, holders, found, shared, count = node(script, (*REDUCERS, "miss"), given)
    fleet = LogState(map(decode, lines)).runs["r"].fleet
    assert words == fleet.line()
    assert routes == [r.line() for _, lane in sorted(fleet.lanes.items()) for r in lane.routes]
    assert json.loads(json.dumps(holders)) == [
        {str(worker): length for worker, length in expected.items()} for *_, expected in PROMPTS
    ]
    assert (found, shared, count) == (0, True, 4)
