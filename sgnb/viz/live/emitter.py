"""One thread for each log, which feeds states and views: the engine and the main thread do not.

It drains the log some 29 times a second into the states it follows and gives every attached view
what is new. It displays and prints nothing: output of a background thread lands in the wrong cell.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Protocol

from ...events import AutomatonDrawn, EventLog, GrammarReady, Reader, Record
from ...latch import Latch
from ..state.tree import Trees, TreeState
from .feed import Feed

INTERVAL = 0.034
IDLE_INTERVAL = 0.5
"""Seconds between drains with a view attached, and without one: the log must not overflow."""

KEPT_DRAWINGS = 32
"""Of grammars, for the next view of the same."""

Wakes = queue.SimpleQueue[bool]
"""What the thread waits for: True to drain at once, False to do so a last time."""


class State(Protocol):
    """A reducer: `apply` takes one record in; `lost` counts those that were missed."""

    lost: int

    def apply(self, record: Record) -> None: ...


class View(Protocol):
    """`push` gets what is new at every drain, before the states do. It runs on the emitter's
    thread, under its lock; an error there ends only the view."""

    def push(self, records: list[Record], lost: int) -> None: ...


class Emitter:
    """Follows a log, and those that join it, from the first record. `lock` guards the states: hold
    it to read one from another thread.

    Nothing that holds the lock may call `flush`, `follow` or `close`: they wait for the thread.
    """

    def __init__(
        self, log: EventLog, drawing: Callable[[int], AutomatonDrawn | None] = lambda number: None
    ) -> None:
        """drawing: of the automaton of that number, for the views. Takes up to a second for a large
        one."""
        self.log = log
        self._drawing = lru_cache(KEPT_DRAWINGS)(drawing)
        self.trees = Trees()
        self.lock = threading.RLock()
        self._reader = Reader(log)
        self._states: list[State] = [self.trees]
        self._views: list[View] = []
        self._failures = weakref.WeakKeyDictionary[State | View, Exception]()
        self._waiting: list[Latch] = []
        self._wake: Wakes = queue.SimpleQueue()
        self._closed = False
        weakref.finalize(self, self._wake.put, False)
        feed = partial(_feed, weakref.ref(self), self._wake)
        self._thread = threading.Thread(target=feed, name="sgnb-emitter", daemon=True)
        self._thread.start()

    @property
    def tree(self) -> TreeState:
        """That of the log's own engine."""
        return self.trees[0]

    def follow(self, state: State, after: int = 0) -> None:
        """Feed `state` from the record after `after` on."""
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
        """Give `view` the records from now on, at every drain."""
        with self.lock:
            self._views.append(view)
        self._wake.put(True)

    def feed(self) -> Feed:
        """What a page needs from now on; attached."""
        self.flush()
        with self.lock:
            feed = Feed(self.trees, self.log.now())
            self.attach(feed)
        return feed

    def detach(self, view: View) -> None:
        """Harmless when the view is not attached."""
        with self.lock:
            self._views = [other for other in self._views if other is not view]

    def failure(self, thing: State | View) -> Exception | None:
        """Why a state or a view was stopped."""
        return self._failures.get(thing)

    def flush(self) -> None:
        """Return when every record emitted before the call has reached the states and views."""
        if self._closed:
            self._drain()
            return
        done = Latch()
        with self.lock:
            self._waiting.append(done)
        self._wake.put(True)
        # The thread drains, not the caller: an interrupt here cannot leave a state half fed.
        done.wait()

    def close(self) -> None:
        """Drain a last time and end the thread. Harmless when repeated."""
        self._closed = True
        self._wake.put(False)
        self._thread.join()

    @property
    def interval(self) -> float:
        return INTERVAL if self._views else IDLE_INTERVAL

    def _drain(self) -> None:
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
        """With the drawing of each automaton of the log's own engine before the record that it is
        ready."""
        told: list[Record] = []
        for record in records:
            ready = isinstance(record.event, GrammarReady) and not record.engine
            if ready and record.event.automaton:
                drawing = self._drawing(record.event.automaton)
                told += [record._replace(event=drawing)] if drawing else []
            told.append(record)
        view.push(told, lost)

    def _guard(self, thing: State | View, action: Callable[[], None]) -> None:
        """Drop a view or state that fails and keep its error for `failure`; the others go on."""
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


def _feed(emitter: Callable[[], Emitter | None], wake: Wakes) -> None:
    """The thread. Holds the emitter only while draining, so that a forgotten one is collected."""
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
