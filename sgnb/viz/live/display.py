"""Display of a cell: live view and static picture in a notebook, text in a terminal.

Only the main thread displays. A failing view becomes a line of text and does not stop the run.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...errors import OptionError, nearest
from ..state.comparison import Comparison
from ..state.run_state import RunState
from ..static.bundle import FINAL_LIMIT, RUNNING_LIMIT, STYLE_BUNDLE, static_bundle
from ..static.plain_text import Shown, plain_text
from .emitter import Emitter
from .feed import Feed
from .kept_pictures import KeptPictures
from .views import VIEWS, Act, Compare, Edit, RunRows, Steer

STATIC_SECONDS = 3.0


class Display:
    """Live views of a run, or of all runs of an engine, from now on.

    Call `open`, `tick` and `close` on the main thread.

    Args:
        emitter: Source of states and records.
        views: Names of views.
        static: Show only static pictures, like `SGNB_STATIC=1` in the environment.
        act: Executes node actions; None for views without buttons.
        keep: Names of views with a static picture next to the default picture.
        steer: Executes a step (see `views.STEPS`) on the run with an id; None without
            buttons.
        edit: Starts an edited run; None without edits.
        compare: Compares the run with an earlier run; see `offer`.
        run_rows: Reruns and exports a batch; see `offer`.
    """

    def __init__(
        self,
        emitter: Emitter,
        views: Sequence[str] = VIEWS,
        *,
        static: bool = False,
        keep: Sequence[str] = (),
        act: Act | None = None,
        steer: Callable[[str, str], None] | None = None,
        edit: Edit | None = None,
        compare: Compare | None = None,
        run_rows: RunRows | None = None,
    ) -> None:
        """Prepare the views; `open` shows the views."""
        for name in views:
            if name not in VIEWS:
                raise OptionError(f"no view is called {name!r}", nearest(name, VIEWS))

        self.uid = uuid.uuid4().hex[:12]
        self.static = static or is_static()
        self.run: RunState | None = None
        self._emitter, self._names, self._after = emitter, list(views), emitter.log.last
        self._act, self._steer = act, steer
        self._edit, self._compare, self._run_rows = edit, compare, run_rows
        self._closed_views: tuple[Any, Any] = (None, None)
        self._edits: list[RunState] = []
        self.live = bool(views) and in_kernel() and not self.static
        # a trace needs the records even without a live view
        self.feed = emitter.feed() if views or keep else None
        self._pictures = KeptPictures(keep, self.uid)
        self._states: list[Shown] = []
        self._view: Any = None
        self._dashboard: Any = None  # the live view, also after the end of the run
        self._static_view: Any = None
        self._static_due = 0.0
        self._said: set[int] = set()

    def open(self, run: str = "", compared: Comparison | None = None) -> None:
        """Show the live view and the static picture in the running cell.

        Args:
            run: Id of the run, or "" for all runs.
            compared: Comparison to show instead of a run; updated by the caller.
        """
        if run and self.feed is not None:
            self.run = RunState(run, self._emitter.trees)
            self._emitter.follow(self.run, self._after)

        states: dict[str, Shown | None] = {"text": self.run, "tree": self._emitter.tree}
        if compared is not None:
            states = {"compare": compared}
        self._states = [
            state for name, state in states.items() if name in self._names and state is not None
        ]
        if self._names and not self.static:
            self._try(partial(self._open_live, run))
        if in_kernel() and self._states:
            self._try(self._open_static)
        if in_kernel():
            self._pictures.open()

    def tick(self) -> None:
        """Redraw outdated views, and report stopped views. Call frequently."""
        self._report()
        self._add_trees()
        if self._view is not None and not self.live:
            self._view.refresh()
        elif self._static_view is not None and time.monotonic() >= self._static_due:
            self._try(self._refresh_static)

    def close(self, reported: bool = False) -> None:
        """Send the remaining records, freeze the view, refresh the static picture. Idempotent.

        Args:
            reported: The cell shows the error of the run, and the views omit the error.
        """
        self._emitter.flush()
        if self.run is not None:
            self.run.reported = reported
        self._report()
        self._add_trees()
        if self.feed is not None:
            self._emitter.detach(self.feed)
            self.feed.suspend()
        if self._view is not None:
            self._try(partial(self._view.end, reported) if self.live else self._view.end)
        self.refresh()
        if self._static_view is None and self.static and self._states:
            print(self.text())
        if self.feed is not None:
            run = self.run.run if self.run is not None else ""
            self._try(partial(self._pictures.close, self.feed.lines, run))

        for state in [self.run, *self._edits]:
            if state is not None:
                self._emitter.unfollow(state)
        if self._view is not None or self._static_view is not None:
            self._closed_views = self._view, self._static_view
        self._view = self._static_view = None
        self.static = False

    @property
    def verifies(self) -> bool:
        """True if a live view waits for the comparison of approximate answers."""
        if not self.live or self.run is None:
            return False
        self._emitter.flush()
        with self._emitter.lock:
            return self.run.splices.pending

    def refresh(self) -> None:
        """Redraw the static picture at the end of the run."""
        if self._static_view is not None:
            self._try(partial(self._refresh_static, FINAL_LIMIT))

    def begin_edit(self, run: str) -> None:
        """Show an edit of the run in the same views. Call before the first record of the edit.

        Args:
            run: Id of the new run.
        """
        if self.run is None or self.feed is None or not self.live:
            return
        self._reopen(self.feed)

        self._edits.append(edited := RunState(run, self._emitter.trees))
        self._emitter.follow(edited, self._emitter.log.last)
        if self.run in self._states:
            self._states.insert(self._states.index(self.run) + len(self._edits), edited)

    def resume(self) -> None:
        """Reopen closed live views. Call before the start of a rerun."""
        self._after = self._emitter.log.last
        if self.feed is not None:
            self._reopen(self.feed)

    def begin_rerun(self, run: str) -> None:
        """Show a run instead of the run of the views. Call after `resume`.

        Args:
            run: Id of the new run.
        """
        rerun = RunState(run, self._emitter.trees)
        self._emitter.follow(rerun, self._after)
        self._states = [rerun if state is self.run else state for state in self._states]
        self.run = rerun
        if self._dashboard is not None:
            self._dashboard.begin_rerun(run)

    def _reopen(self, feed: Feed) -> None:
        if self._view is None:
            self._view, self._static_view = self._closed_views
            self._try(self._view.begin)
            self._emitter.attach_again(feed)

    def offer(self, runs: Sequence[str], batch: bool, hint: str = "") -> None:
        """Show buttons and a hint after the end of the run.

        Args:
            runs: Earlier runs for a comparison, oldest first.
            batch: The states of a batch can be exported and run again.
            hint: A sentence with a button for removal, or "".
        """
        if self._dashboard is not None:
            self._dashboard.reruns, self._dashboard.batch = list(runs), batch
            self._dashboard.hint = hint or self._dashboard.hint

    @property
    def has_live_view(self) -> bool:
        """True if `offer` has an effect."""
        return self._dashboard is not None

    def text(self) -> str:
        """Return the views as plain text."""
        with self._emitter.lock:
            return plain_text(self._states)

    def _add_trees(self) -> None:
        """Add the trees of other engines called by the run; without a run, of all workers."""
        if "tree" not in self._names:
            return
        with self._emitter.lock:
            trees = self._emitter.trees.of_workers() if self.run is None else self.run.trees()
        self._states += [tree for tree in trees if all(tree is not state for state in self._states)]

    def _open_live(self, run: str) -> None:
        if self.live and self.feed is not None:
            from IPython.display import display

            from .widget import Dashboard

            lock = self._emitter.lock
            steer: Steer | None = None if self._steer is None else partial(self._step, run)
            self._view = self._dashboard = Dashboard(
                self.feed,
                lock,
                run,
                self.uid,
                self._names,
                act=self._act,
                steer=steer,
                edit=self._edit,
                compare=self._compare,
                run_rows=self._run_rows,
                measure=self._emitter.measure_cost(),
            )
            display(STYLE_BUNDLE, raw=True)
            data, metadata = self._view.bundle()
            display(data, metadata=metadata, raw=True)
        elif self._states:
            from .terminal import TerminalView

            self._view = TerminalView(self._states)

    def _step(self, run: str, action: str) -> None:
        """Execute a step and show the result at once."""
        assert self._steer is not None
        self._steer(action, run)
        self._emitter.flush()

    def _open_static(self) -> None:
        from IPython.display import display

        self._static_view = display(self._bundle(), raw=True, display_id=self.uid)
        self._static_due = time.monotonic() + STATIC_SECONDS

    def _refresh_static(self, limit: int = RUNNING_LIMIT) -> None:
        self._static_due = time.monotonic() + STATIC_SECONDS
        self._static_view.update(self._bundle(limit), raw=True)

    def _bundle(self, limit: int = RUNNING_LIMIT) -> dict[str, str]:
        with self._emitter.lock:
            return static_bundle(self._states, self.uid, limit)

    def _try(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            self._say(error)

    def _report(self) -> None:
        things: list[Any] = [*self._states, self._emitter.trees, self.feed]
        for thing in things:
            error = self._emitter.failure(thing) if thing is not None else None
            if error is not None and id(thing) not in self._said:
                self._said.add(id(thing))
                self._say(error)

    def _say(self, error: Exception) -> None:
        print(f"view stopped: {type(error).__name__}: {error}", file=sys.stderr)


def is_static() -> bool:
    """Return True if the environment requests static pictures only."""
    return os.environ.get("SGNB_STATIC", "") not in ("", "0")


def in_kernel() -> bool:
    """Return True if a notebook front end shows outputs, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
