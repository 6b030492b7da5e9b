"""Lanes over time: Python time between calls, forks and joins, ticks of axes; the same in the
page."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb import events
from sgnb.events import EventLog, Record, decode, encode
from sgnb.viz.state.lanes import KEPT_LANES, Lanes, gaps
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.run_state import RunState
from sgnb.viz.state.time_parts import TimeParts
from sgnb.viz.static.axis import tick_label, tick_of
from sgnb.viz.static.lanes_svg import draw_lanes
from sgnb.viz.static.svg import INSIDE

from .make_log import HOSTILE, demo
from .page import node
from .test_page import random_log

FILES = ("dom", "branch", "models", "reduce", "store", "draw", "miss", "axis")
WINDOWS = st.floats(1e-3, 1e3), st.floats(0, 0.9), st.floats(0.01, 100), st.floats(0, 1)


def records_of(log: EventLog) -> list[Record]:
    return list(log.read().records)


def at(*timed: tuple[float, Any]) -> list[Record]:
    return [Record(i, t, event, 0) for i, (t, event) in enumerate(timed, 1)]


def request(number: int, branch: str, began: float, ended: float) -> list[tuple[float, Any]]:
    return [
        (began, events.RequestQueued(number, "r", branch, f"v{number}", "generate", (1, 2, 3))),
        (began + 0.1, events.RequestAdmitted(number, 0)),
        (ended, events.RequestFinished(number, "stop", 3, 0, 0)),
    ]


FORKED = at(
    (0.0, events.RunStarted("r", "demo", "", 1)),
    (0.0, events.BranchStarted("r", "0", "", "")),
    *request(1, "0", 1.0, 2.0),
    (3.0, events.ToolCalled("r", "0", "search")),
    (4.0, events.ToolReturned("r", "0", "search")),
    (5.0, events.BranchStarted("r", "0.0", "0", "text")),
    (5.0, events.BranchStarted("r", "0.1", "0", "text")),
    *request(2, "0.0", 5.5, 7.0),
    *request(3, "0.1", 5.5, 6.0),
    (6.5, events.BranchFinished("r", "0.1", "")),
    (7.0, events.BranchFinished("r", "0.0", "")),
    (8.0, events.BranchPaused("r", "0", "gen 'x'")),
    (9.0, events.BranchResumed("r", "0")),
    (10.0, events.BranchFinished("r", "0", "")),
)
FORKED.sort(key=lambda record: record.t)


def test_python_time_is_between_calls_tools_pauses_and_forks() -> None:
    lanes = Lanes("r")
    for record in FORKED:
        lanes.apply(record)
    root, first, second = lanes
    assert lanes.python_spans(root, 99.0) == [(0, 1), (2, 3), (4, 5), (7, 8), (9, 10)]
    assert lanes.python_spans(first, 99.0) == [(5, 5.5)]
    assert lanes.python_spans(second, 99.0) == [(5, 5.5), (6, 6.5)]
    (group,) = lanes.fork_groups()
    assert (group.parent, group.branches) == (root, [first, second])
    assert (group.forked, group.joined) == (5.0, 7.0)


def test_a_fork_without_a_join_has_no_join() -> None:
    early = [record._replace(t=6.0) if record.t == 10.0 else record for record in FORKED]
    lanes = Lanes("r")
    for record in sorted(early, key=lambda record: record.t):
        lanes.apply(record)
    (group,) = lanes.fork_groups()
    assert group.joined is None


def test_lanes_of_a_large_batch_are_counted() -> None:
    lanes = Lanes("r")
    for i in range(KEPT_LANES + 7):
        lanes.apply(Record(i, float(i), events.BranchStarted("r", str(i), "", "")))
    assert len(list(lanes)) == KEPT_LANES and lanes.hidden == 7


def paired(records: list[Record]) -> list[Record]:
    """Without ends of tools and pauses that never began; engines emit none."""
    ends = {events.ToolReturned: events.ToolCalled, events.BranchResumed: events.BranchPaused}
    kept: list[Record] = []
    opened: Counter[tuple[type, str]] = Counter()
    for record in records:
        kind = type(record.event)
        if kind in ends.values():
            opened[kind, record.event.run] += 1
        elif kind in ends:
            if not opened[ends[kind], record.event.run]:
                continue
            opened[ends[kind], record.event.run] -= 1
        kept.append(record)
    return kept


@pytest.mark.parametrize("seed", range(20))
def test_the_python_time_of_a_branch_without_forks_equals_why_slow(seed: int) -> None:
    """The oracle is the reducer of `sgnb.why_slow`, which advances by events."""
    log = paired(records_of(random_log(random.Random(seed))))
    for run in {record.event.run for record in log if hasattr(record.event, "run")}:
        lanes = Lanes(run)
        for record in log:
            lanes.apply(record)
        parents = {lane.parent for lane in lanes}
        for lane in lanes:
            if lane.branch in parents or lane.began is None or lane.ended is None:
                continue
            oracle = TimeParts(run, lane.branch)
            for record in log:
                oracle.apply(record)
            total = sum(end - begin for begin, end in lanes.python_spans(lane, log[-1].t))
            assert total == pytest.approx(oracle.seconds["Python"], abs=1e-9)


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple))


@given(SPANS)
def test_gaps_are_the_moments_outside(busy: list[tuple[int, int]]) -> None:
    free = gaps(5, 25, busy)
    for i in range(5, 25):
        moment = i + 0.5
        outside = not any(begin <= moment < end for begin, end in busy)
        assert outside == any(begin <= moment < end for begin, end in free)
    assert all(a[1] < b[0] for a, b in pairwise(free))


@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.slow)])
def test_the_page_has_the_same_lanes(count: int) -> None:
    script = """
      return given.map((lines) => {
        const state = newState();
        for (const record of parseLines(lines.join("\\n"))) apply(state, record);
        return [...state.runs.values()].map((run) => {
          const lanes = timelineOf(state, run);
          return [
            lanes.map((lane) => [lane.name, variablesOf(lane), pythonSpans(lane, lanes, 1e9)]),
            forkGroups(lanes).map((group) => [
              group.parent.name, group.branches.map(({ name }) => name), group.forked, group.joined,
            ]),
          ];
        });
      });
    """
    logs = [FORKED, *(records_of(random_log(random.Random(seed))) for seed in range(count))]
    whole = EventLog()
    list(demo(whole))
    logs.append(records_of(whole))
    lines = [[encode(record) for record in log] for log in logs]
    there = node(script, FILES, lines)
    for log, runs in zip(lines, there, strict=True):
        here = [
            [
                [
                    [
                        lane.branch,
                        lane.names,
                        [list(span) for span in lanes.python_spans(lane, 1e9)],
                    ]
                    for lane in lanes
                ],
                [
                    [
                        group.parent.branch,
                        [lane.branch for lane in group.branches],
                        group.forked,
                        group.joined,
                    ]
                    for group in lanes.fork_groups()
                ],
            ]
            for lanes in (run.lanes for run in LogState(map(decode, log)).runs.values())
        ]
        assert here == runs


def drawn(records: list[Record]) -> tuple[str, float]:
    run = RunState("r")
    for record in records:
        run.apply(record)
    return draw_lanes(run)


def test_the_static_picture_has_trunk_join_python_and_tools() -> None:
    body, height = drawn(FORKED)
    elements = list(ElementTree.fromstring(f"<g>{body}</g>"))
    words = [element.text for element in elements if element.tag == "text"]
    assert "0 v1" in words and "0.1 v3" in words and "10 s" in words
    lanes = [element for element in elements if float(element.get("y", 0)) < 3 * 16]
    count = lambda style: sum(element.get("class") == style for element in lanes)  # noqa: E731
    assert (count("t"), count("y"), count("z")) == (8, 1, 2)
    assert sum("H" in element.get("d", "") for element in elements) == 1, "a join"
    right = [float(e.get("x", 0)) + float(e.get("width", 0)) for e in elements]
    assert max(right) <= INSIDE and height < 120


def test_hostile_names_stay_text() -> None:
    body, _ = drawn([*FORKED[:-1], *at((9.5, events.ToolCalled("r", "0", HOSTILE)))])
    tree = ElementTree.fromstring(f"<g>{body}</g>")
    assert "\u202e" not in "".join(element.text or "" for element in tree.iter("text"))


def test_a_run_with_one_lane_has_no_drawing() -> None:
    assert drawn(FORKED[:4]) == ("", 0.0)


@pytest.mark.parametrize("seconds", [2e-4, 0.003, 0.07, 0.31, 1.0, 59.0])
def test_an_axis_has_a_few_round_ticks_with_different_labels(seconds: float) -> None:
    tick = tick_of(seconds)
    assert 2 <= seconds / tick <= 6.0001 and f"{tick:.0e}"[0] in "125"
    labels = [tick_label(tick * i, tick, seconds) for i in range(7)]
    assert len(set(labels)) == 7 and labels[0] == "0"
    script = "return [tickOf(given), ...ticksWithin(0, given).map(([, label]) => label)];"
    found = node(script, FILES, seconds)
    assert found[0] == pytest.approx(tick)
    assert found[1:] == labels[: len(found) - 1]


@given(*WINDOWS)
def test_ticks_name_their_times(seconds: float, share: float, factor: float, at: float) -> None:
    tick = tick_of(seconds)
    first = int(share * seconds / tick) + 1
    for i in range(first, first + 3):
        number, unit = tick_label(tick * i, tick, seconds).split()
        assert float(number) * {"s": 1.0, "ms": 1e-3}[unit] == pytest.approx(tick * i, rel=1e-6)


def test_zoom_keeps_the_time_under_the_pointer_and_stays_inside() -> None:
    rng = random.Random(7)
    cases = []
    for _ in range(300):
        begin, length = rng.uniform(0, 5), rng.uniform(0.01, 20)
        start, end = sorted(rng.uniform(begin, begin + length) for _ in range(2))
        window = {"from": start, "to": max(end, start + 1e-3)}
        whole = {"from": begin, "to": max(begin + length, window["to"])}
        cases.append(
            (window, whole, rng.choice([0.5, 2, 0.9, 8]), rng.uniform(start, window["to"]))
        )
    found = node("return given.map((one) => zoomed(...one));", FILES, cases)
    kept = 0
    for (window, whole, factor, at), new in zip(cases, found, strict=True):
        assert whole["from"] - 1e-9 <= new["from"] < new["to"] <= whole["to"] + 1e-9
        length, old = new["to"] - new["from"], window["to"] - window["from"]
        allowed = min(max(factor * old, 1e-4), whole["to"] - whole["from"])
        assert length == pytest.approx(allowed)
        inside = whole["from"] + 1e-6 < new["from"] and new["to"] < whole["to"] - 1e-6
        if inside:
            kept += 1
            place = (at - window["from"]) / old
            assert (at - new["from"]) / length == pytest.approx(place, abs=1e-6)
    assert kept > 50
