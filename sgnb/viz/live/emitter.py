"""Background thread per log to update states and views. Engine and main thread do no view work.

The thread drains the log about 29 times per second. The thread never displays or prints, because
output of a background thread lands in the wrong cell.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Protocol

from ...events import AutomatonDrawn, EventLog, GrammarReady, LogReader, Record
from ...latch import Latch
from ..state.tree import Trees, TreeState
from .feed import Feed

INTERVAL = 0.034
IDLE_INTERVAL = 0.5
"""Seconds between drains with and without an attached view. Idle drains prevent a log overflow."""

KEPT_DRAWINGS = 32
"""Number of automaton drawings kept for later views."""

Wakes = queue.SimpleQueue[bool]
"""Wake-up queue of the thread: True drains immediately, False drains a last time."""


class State(Protocol):
    """Reducer of records: `apply` consumes a record, and `lost` counts missed records."""

    lost: int

    def apply(self, record: Record) -> None: ...


class View(Protocol):
    """Receiver of new records. `push` is called on the emitter's thread, under the lock and before
    the states are updated. An error in `push` detaches only this view."""

    def push(self, records: list[Record], lost: int) -> None: ...


class Emitter:
    """Reader of a log and all joined logs, from the first record on.

    `lock` guards the states: acquire the lock to read a state from another thread. Never call
    `flush`, `follow` or `close` while holding the lock, because these methods wait for the thread.
    """

    def __init__(
        self, log: EventLog, drawing: Callable[[int], AutomatonDrawn | None] = lambda number: None
    ) -> None:
        """Start the thread.

        Args:
            log: Log to follow.
            drawing: Returns the drawing of an automaton by number, or None. May take up to a
                second.
        """
        self.log = log
        self._drawing = lru_cache(KEPT_DRAWINGS)(drawing)
        self.trees = Trees()
        self.lock = threading.RLock()
        self._reader = LogReader(log)
        self._states: list[State] = [self.trees]
        self._views: list[View] = []
        self._failures = weakref.WeakKeyDictionary[State | View, Exception]()
        self._waiting: list[Latch] = []
        self._wake: Wakes = queue.SimpleQueue()
        self._closed = False
        self._seconds = 0.0  # processor time of drains
        on_stop = partial(_wake_once, self._wake)
        log.on_stop.append(on_stop)
        weakref.finalize(self, _end, self._wake, log.on_stop, on_stop)
        feed = partial(_feed, weakref.ref(self), self._wake)
        self._thread = threading.Thread(target=feed, name="sgnb-emitter", daemon=True)
        self._thread.start()

    @property
    def tree(self) -> TreeState:
        """Return the tree of the log's own engine."""
        return self.trees[0]

    def measure_cost(self) -> Callable[[], dict[str, float]]:
        """Return a function that returns `now`, the time of the log, and `share`, the processor
        time of this thread over that of the process, both since this call."""
        before, process = self._seconds, time.process_time()

        def measure() -> dict[str, float]:
            seconds = self._seconds - before
            share = seconds / max(time.process_time() - process, seconds, 1e-3)
            return {"now": self.log.now(), "share": round(share, 4)}

        return measure

    def follow(self, state: State, after: int = 0) -> None:
        """Update `state` with all records after `after`.

        Args:
            state: Reducer to update.
            after: Sequence number of the last record to skip.
        """
        self.flush()
        with self.lock:
            records, state.lost = self._reader.again(after)
            for record in records:
                state.apply(record)
            self._states.append(state)

    def unfollow(self, state: State) -> None:
        with self.lock:
            self._states = [other for other in self._states if other is not state]

    def attach(self, view: View) -> None:
        """Push new records to `view` at every drain."""
        with self.lock:
            self._views.append(view)
        self._wake.put(True)

    def feed(self) -> Feed:
        """Return an attached feed with all records for a page from now on."""
        self.flush()
        with self.lock:
            feed = Feed(self.trees, self.log.now())
            self.attach(feed)
        return feed

    def attach_again(self, feed: Feed) -> None:
        """Attach a detached feed, from now on."""
        self.flush()
        with self.lock:
            feed.resume(self.log.now())
            self.attach(feed)

    def detach(self, view: View) -> None:
        """Detach `view`, if attached."""
        with self.lock:
            self._views = [other for other in self._views if other is not view]

    def failure(self, thing: State | View) -> Exception | None:
        """Return the error of a stopped state or view, or None."""
        return self._failures.get(thing)

    def flush(self) -> None:
        """Wait until all earlier records have reached the states and views.

        Raises:
            EngineError: The process is a forked child.
        """
        self.log.home.check()
        if self._closed:
            self._drain()
            return
        done = Latch()
        with self.lock:
            self._waiting.append(done)
        self._wake.put(True)
        # The thread drains instead of the caller, because an interrupt of the caller could leave a
        # state partially updated.
        done.wait()

    def close(self) -> None:
        """Drain a last time and stop the thread. Idempotent; no effect in a forked child."""
        if self.log.home.left:
            return
        self._closed = True
        self._wake.put(False)
        self._thread.join()

    @property
    def interval(self) -> float:
        return INTERVAL if self._views else IDLE_INTERVAL

    def _drain(self) -> None:
        began = time.thread_time()
        self._drain_records()
        self._seconds += time.thread_time() - began

    def _drain_records(self) -> None:
        with self.lock:
            waiting, self._waiting = self._waiting, []
            records, lost = self._reader.read()
            for record in self._reader.before:
                self.trees.apply(record)
            for view in self._views:
                self._guard(view, partial(self._push, view, records, lost))
            for state in self._states:
                self._guard(state, partial(_feed_state, state, records, lost))
            for done in waiting:
                done.set()

    def _push(self, view: View, records: list[Record], lost: int) -> None:
        """Push records, with the drawing of each automaton before the matching `GrammarReady`. Own
        engine only."""
        pushed: list[Record] = []
        for record in records:
            ready = isinstance(record.event, GrammarReady) and not record.engine
            if ready and record.event.automaton:
                drawing = self._drawing(record.event.automaton)
                pushed += [record._replace(event=drawing)] if drawing else []
            pushed.append(record)
        view.push(pushed, lost)

    def _guard(self, thing: State | View, action: Callable[[], None]) -> None:
        """Run `action`; on an error detach the view or state and keep the error for `failure`."""
        try:
            action()
        except Exception as error:
            self._failures[thing] = error
            self._views = [view for view in self._views if view is not thing]
            self._states = [state for state in self._states if state is not thing]


def _feed_state(state: State, records: list[Record], lost: int) -> None:
    state.lost += lost
    for record in records:
        state.apply(record)


def _wake_once(wake: Wakes) -> None:
    """Drain at once: a stop is shown without the rest of the interval. Many stops need one
    drain."""
    if wake.empty():
        wake.put(True)


def _end(wake: Wakes, on_stop: list[Callable[[], None]], notify: Callable[[], None]) -> None:
    on_stop.remove(notify)
    wake.put(False)


def _feed(emitter: Callable[[], Emitter | None], wake: Wakes) -> None:
    """Thread function. References the emitter only while draining, so that unused emitters can be
    collected."""
    interval, going_on = 0.0, True
    while going_on:
        with suppress(queue.Empty):
            going_on = wake.get(timeout=interval)
        owner = emitter()
        if owner is None:
            return
        owner._drain()
        interval = owner.interval
        del owner
