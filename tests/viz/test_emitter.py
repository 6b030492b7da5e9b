"""The thread between the log and the views: what reaches a view, and what happens when one
fails."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sgnb import events
from sgnb.events import EventLog
from sgnb.events.log import RECORD_BYTES
from sgnb.viz import Emitter, RunState, TreeState
from sgnb.viz.emitter import Batch
from tests.interrupts import LOCKS, in_time, interrupted_at
from tests.viz.make_log import SYSTEM, Program, WordEngine, demo
from tests.viz.page import TextPage, TreePage


class View:
    def __init__(self, state: Any, fail: bool = False) -> None:
        self.state, self.fail = state, fail
        self.batches: list[Batch] = []
        self.threads: set[str] = set()

    def push(self, batch: Batch) -> None:
        self.threads.add(threading.current_thread().name)
        if self.fail:
            raise RuntimeError("no page")
        if batch.ops:
            self.batches.append(batch)


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def emitter(log: EventLog) -> Iterator[Emitter]:
    emitter = Emitter(log)
    yield emitter
    emitter.close()


def test_batches_are_numbered_and_complete(log: EventLog, emitter: Emitter) -> None:
    run = RunState("r1", emitter.tree.vocabulary)
    emitter.follow(run)
    text, tree = View(run), View(emitter.tree)
    emitter.attach(text)
    emitter.attach(tree)
    for i, _ in enumerate(demo(log)):
        if i % 20 == 0:
            emitter.flush()
    emitter.flush()
    for view, page in ((text, TextPage()), (tree, TreePage())):
        assert [batch.seq for batch in view.batches] == list(range(1, len(view.batches) + 1))
        for batch in view.batches:
            page.apply(batch.ops)
        assert page.state() == type(page)(view.state.snapshot()).state()
        assert view.threads == {"sgnb-emitter"}
    assert run.status == "done"


def test_records_come_without_a_flush(log: EventLog, emitter: Emitter) -> None:
    view = View(emitter.tree)
    emitter.attach(view)
    WordEngine(log).insert((1, 2))
    page, end = TreePage(), time.monotonic() + 60
    while 1 not in page.nodes and time.monotonic() < end:
        time.sleep(0.01)
        page = TreePage(op for batch in list(view.batches) for op in batch.ops)
    assert page.nodes[1]["tokens"] == 2


def test_following_late_gives_the_same_state(log: EventLog, emitter: Emitter) -> None:
    early, late = RunState("r1", emitter.tree.vocabulary), RunState("r1", emitter.tree.vocabulary)
    emitter.follow(early)
    list(demo(log))
    emitter.follow(late)
    assert early.snapshot() == late.snapshot() and early.figures.output_tokens == 80


def test_a_failing_view_stops_alone(log: EventLog, emitter: Emitter) -> None:
    good, bad = View(emitter.tree), View(emitter.tree, fail=True)
    emitter.attach(bad)
    emitter.attach(good)
    WordEngine(log).insert((1, 2))
    emitter.flush()
    assert good.batches and isinstance(emitter.failure(bad), RuntimeError)
    assert emitter.failure(good) is None
    WordEngine(log)
    emitter.flush()
    assert len(good.batches) == 2


def test_a_failing_state_takes_its_views_with_it(log: EventLog, emitter: Emitter) -> None:
    broken = TreeState()
    emitter.follow(broken)
    broken.nodes.clear()
    broken.apply = None  # type: ignore[method-assign, assignment]
    emitter.attach(View(broken))
    good = View(emitter.tree)
    emitter.attach(good)
    WordEngine(log).insert((1,))
    emitter.flush()
    assert isinstance(emitter.failure(broken), TypeError) and good.batches


def test_lost_records_are_told(emitter: Emitter) -> None:
    log = EventLog(memory=10 * RECORD_BYTES)
    slow = Emitter(log)
    with slow.lock:
        for i in range(25):
            log.emit(events.NodeTouched(0, i))
    slow.flush()
    assert slow.tree.lost > 0
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
        emitter.attach(View(emitter.tree))
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
