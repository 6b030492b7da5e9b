"""What a cell shows for a run or the cache: live widgets and a static twin, or text in a terminal.

Only the main thread displays. A view that fails becomes a line of text; the run goes on.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import OptionError, nearest
from ..events import EventLog, load
from .emitter import Emitter, View
from .plain_text import Shown, plain_text
from .run import RunState
from .state import LogState
from .twin import twin_bundle

VIEWS = ("text", "tree")
TWIN_SECONDS = 3.0


class Display:
    """Shows `states`, top to bottom. `open`, `tick` and `close` belong to the main thread.

    static: the twin only, as with `SGNB_STATIC=1` in the environment.
    """

    def __init__(self, emitter: Emitter, states: Sequence[Shown], *, static: bool = False) -> None:
        self.uid = uuid.uuid4().hex[:12]
        self.static = static or os.environ.get("SGNB_STATIC", "") not in ("", "0")
        self._emitter, self._states = emitter, list(states)
        self._views: list[View] = []
        self._end_views: list[Callable[[], None]] = []
        self._twin: Any = None
        self._twin_due = 0.0
        self._said: set[int] = set()

    def open(self) -> None:
        """Show the live view, then the twin under a display id, in the running cell."""
        if not self._states:
            return
        if not self.static:
            self._try(self._open_live)
        if in_kernel():
            self._try(self._open_twin)

    def tick(self) -> None:
        """Refresh the twin when it is due, and say when a view has stopped. Call it often."""
        self._report()
        if self._twin is not None and time.monotonic() >= self._twin_due:
            self._try(self._refresh_twin)

    def close(self) -> None:
        """Send what is left, freeze the views, refresh the twin. Harmless when repeated."""
        self._emitter.flush()
        self._report()
        for view in self._views:
            self._emitter.detach(view)
        for end in self._end_views:
            self._try(end)
        if self._twin is not None:
            self._try(self._refresh_twin)
        elif self.static and self._states:
            print(self.text())
        self._views, self._end_views, self._twin, self.static = [], [], None, False

    def text(self) -> str:
        """The same states as plain text."""
        with self._emitter.lock:
            return plain_text(self._states)

    def _open_live(self) -> None:
        if in_kernel():
            from IPython.display import display

            from .widget import live_view

            widgets = [live_view(state, self._emitter, self.uid) for state in self._states]
            for widget in widgets:
                display(widget)
            self._views = [*widgets]
            self._end_views = [view.freeze for view in widgets]
        else:
            from .terminal import TerminalView

            terminal = TerminalView(self._states)
            self._views, self._end_views = [terminal], [terminal.close]
        for view in self._views:
            self._emitter.attach(view)

    def _open_twin(self) -> None:
        from IPython.display import display

        self._twin = display(self._bundle(), raw=True, display_id=self.uid)
        self._twin_due = time.monotonic() + TWIN_SECONDS

    def _refresh_twin(self) -> None:
        self._twin_due = time.monotonic() + TWIN_SECONDS
        self._twin.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        with self._emitter.lock:
            return twin_bundle(self._states, self.uid)

    def _try(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            self._say(error)

    def _report(self) -> None:
        for thing in [*self._states, *self._views]:
            error = self._emitter.failure(thing)
            if error is not None and id(thing) not in self._said:
                self._said.add(id(thing))
                self._say(error)

    def _say(self, error: Exception) -> None:
        print(f"view stopped: {type(error).__name__}: {error}", file=sys.stderr)


class RunDisplay(Display):
    """The views named in `show` of run `run`, whose records come after seq `after`."""

    def __init__(
        self,
        log: EventLog,
        run: str,
        show: Sequence[str] = VIEWS,
        *,
        emitter: Emitter,
        static: bool = False,
        after: int = 0,
    ) -> None:
        for name in show:
            if name not in VIEWS:
                raise OptionError(f"no view is called {name!r}", nearest(name, VIEWS))
        if log is not emitter.log:
            hint = "give the emitter made for this log"
            raise OptionError("the emitter follows another log", hint)
        self.state = RunState(run, emitter.tree.vocabulary)
        emitter.follow(self.state, after)
        states: dict[str, Shown] = {"text": self.state, "tree": emitter.tree}
        super().__init__(emitter, [states[name] for name in show], static=static)

    def close(self) -> None:
        super().close()
        self._emitter.unfollow(self.state)


def tree_view(emitter: Emitter, *, static: bool = False) -> Display:
    """The whole cache, live until closed."""
    return Display(emitter, [emitter.tree], static=static)


class Replay(LogState):
    """The states of a recorded log; as a cell's value it shows them as the static twin."""

    def _states(self) -> list[Shown]:
        return [*self.runs.values(), self.tree]

    def text(self) -> str:
        return plain_text(self._states())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return twin_bundle(self._states(), uuid.uuid4().hex[:12])


def replay(path: str | Path) -> Replay:
    """Read a file written by `events.Recorder`."""
    return Replay(load(path))


def in_kernel() -> bool:
    """Whether outputs go to a notebook front end rather than to a terminal. Imports nothing."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
