"""The thread between the log and the views: what reaches a view, and what happens when one
fails."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.events.event_log import RECORD_BYTES
from sgnb.viz import Emitter, RunState, TreeState
from sgnb.viz.live import emitter as emitter_module
from sgnb.viz.live.feed import Feed
from tests.interrupts import LOCKS, in_time, interrupted_at
from tests.viz.make_log import SYSTEM, Program, WordEngine, demo
from tests.viz.page import canonical


class View:
    def __init__(self, fail: bool = False) -> None:
        self.fail, self.lost = fail, 0
        self.records: list[Record] = []
        self.threads: set[str] = set()

    def push(self, records: list[Record], lost: int) -> None:
        self.threads.add(threading.current_thread().name)
        if self.fail:
            raise RuntimeError("no page")
        self.records += records
        self.lost += lost


def test_a_drawing_that_fails_ends_the_view_alone() -> None:
    log = EventLog()

    def drawing(number: int) -> None:
        raise ValueError(f"no drawing of {number}")

    emitter = Emitter(log, drawing)
    view = View()
    emitter.attach(view)
    log.emit(events.GrammarReady(1, "regex", 5, 0.0, False, 7))
    emitter.flush()
    assert str(emitter.failure(view)) == "no drawing of 7"
    WordEngine(log).insert((1, 2))
    emitter.flush()
    assert len(emitter.tree.nodes) == 2
    emitter.close()


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def emitter(log: EventLog) -> Iterator[Emitter]:
    emitter = Emitter(log)
    yield emitter
    emitter.close()


def test_views_get_every_record_once_and_in_order(log: EventLog, emitter: Emitter) -> None:
    view = View()
    emitter.attach(view)
    for i, _ in enumerate(demo(log)):
        if i % 20 == 0:
            emitter.flush()
    emitter.flush()
    assert view.records == log.read().records
    assert view.threads == {"sgnb-emitter"}


def test_a_view_sees_the_states_as_they_were_before(log: EventLog, emitter: Emitter) -> None:
    class Looking(View):
        def push(self, records: list[Record], lost: int) -> None:
            if any(isinstance(record.event, events.NodeAdded) for record in records):
                assert len(emitter.tree.nodes) == 1
            super().push(records, lost)

    view = Looking()
    emitter.attach(view)
    WordEngine(log).insert((1, 2))
    emitter.flush()
    assert view.records and not emitter.failure(view) and len(emitter.tree.nodes) == 2


def test_records_come_without_a_flush(log: EventLog, emitter: Emitter) -> None:
    view = View()
    emitter.attach(view)
    WordEngine(log).insert((1, 2))
    end = time.monotonic() + 60
    while not view.records and time.monotonic() < end:
        time.sleep(0.01)
    assert any(isinstance(record.event, events.NodeAdded) for record in view.records)


@pytest.mark.parametrize(
    "stop", [events.BranchPaused("r1", "0", "gen 'a'"), events.RequestWaits(1, "paused", 0, 0)]
)
def test_a_stop_comes_without_the_rest_of_the_interval(
    log: EventLog, emitter: Emitter, stop: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emitter_module, "INTERVAL", 600.0)
    view = View()
    emitter.attach(view)
    emitter.flush()
    log.emit(events.RequestWaits(1, "memory", 0, 0))
    time.sleep(0.05)
    assert not view.records, "other records wait for the interval"
    log.emit(stop)
    end = time.monotonic() + 60
    while len(view.records) < 2 and time.monotonic() < end:
        time.sleep(0.002)
    assert [record.event for record in view.records][1] == stop


def test_a_collected_emitter_leaves_the_log(log: EventLog) -> None:
    emitter = Emitter(log)
    assert len(log.on_stop) == 1
    emitter.close()
    del emitter
    gc.collect()
    assert not log.on_stop


def test_following_late_gives_the_same_state(log: EventLog, emitter: Emitter) -> None:
    early, late = RunState("r1", emitter.trees), RunState("r1", emitter.trees)
    emitter.follow(early)
    list(demo(log))
    emitter.follow(late)
    assert canonical(emitter.tree, [early]) == canonical(emitter.tree, [late])
    assert early.metrics.output_tokens == 80


def test_a_failing_view_stops_alone(log: EventLog, emitter: Emitter) -> None:
    good, bad = View(), View(fail=True)
    emitter.attach(bad)
    emitter.attach(good)
    WordEngine(log).insert((1, 2))
    emitter.flush()
    assert good.records and isinstance(emitter.failure(bad), RuntimeError)
    assert emitter.failure(good) is None
    before = len(good.records)
    WordEngine(log)
    emitter.flush()
    assert len(good.records) == before + 1


def test_a_failing_state_stops_alone(log: EventLog, emitter: Emitter) -> None:
    broken = TreeState()
    emitter.follow(broken)
    broken.apply = None  # type: ignore[method-assign, assignment]
    good = View()
    emitter.attach(good)
    WordEngine(log).insert((1,))
    emitter.flush()
    assert isinstance(emitter.failure(broken), TypeError) and good.records
    assert len(emitter.tree.nodes) == 2


def test_lost_records_are_told() -> None:
    log = EventLog(memory=10 * RECORD_BYTES)
    slow = Emitter(log)
    view, feed = View(), Feed(slow.trees, 0.0)
    slow.attach(view)
    slow.attach(feed)
    with slow.lock:
        for i in range(25):
            log.emit(events.NodeTouched(0, i))
    slow.flush()
    assert slow.tree.lost == view.lost > 0
    assert f'"RecordsLost","count":{view.lost}' in "".join(feed.lines)
    slow.close()


def test_close_drains_and_may_be_repeated(log: EventLog) -> None:
    emitter = Emitter(log)
    program = Program(WordEngine(log))
    program.branch("0")
    program.add("0", SYSTEM)
    run = RunState("r1")
    emitter.follow(run)
    program.finish()
    emitter.close()
    emitter.close()
    emitter.flush()
    assert run.status == "done" and not emitter._thread.is_alive()


def test_a_forgotten_emitter_ends_its_thread() -> None:
    emitter = Emitter(EventLog())
    thread = emitter._thread
    del emitter
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_an_interrupt_where_threads_meet_stops_no_emitter(log: EventLog) -> None:
    emitter = Emitter(log)
    where = [*LOCKS, Emitter.flush, Emitter.attach]

    def use() -> None:
        emitter.attach(View())
        emitter.flush()

    number = 1
    while in_time(lambda n=number: interrupted_at(n, use, where, calls=True)):  # type: ignore[misc]
        in_time(emitter.flush)
        number += 1
    assert number > 10

    number = 1
    while in_time(lambda n=number: interrupted_at(n, emitter.close, LOCKS, calls=True)):  # type: ignore[misc]
        number += 1
    in_time(emitter.close)
