"""The traces of this process: of the runs that a cell showed, and what is recorded on demand."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import OptionError, nearest
from ..viz import Emitter, Feed, Trace

KEPT_CHARACTERS = 256 << 20
"""Of all traces; the oldest are forgotten, by the pages that come late to them too."""


class Traces:
    """What a `run` did, by its id, as a trace; `on` and `off` record all runs."""

    def __init__(self, emitter: Callable[[], Emitter]) -> None:
        """`emitter()` is the current engine's."""
        self._emitter = emitter
        self._runs: dict[str, Feed] = {}
        self._recording: tuple[Emitter, Feed] | None = None

    def __call__(self, run: str = "last") -> Trace:
        """What a run did: of the last one, or of the run with that id (see `sgnb.runs()`)."""
        if not self._runs:
            hint = "run a %%sglang cell with views first, or record: %sglang trace on"
            raise OptionError("nothing was traced yet", hint)
        name = next(reversed(self._runs)) if run == "last" else run
        if name not in self._runs:
            raise OptionError(f"there is no trace of {run!r}", nearest(run, ["last", *self._runs]))
        return Trace(self._runs[name].lines, name)

    def on(self) -> None:
        """Record all that the current engine does from now on."""
        if self._recording is not None:
            raise OptionError("a trace is being recorded already", "end it: %sglang trace off")
        emitter = self._emitter()
        self._recording = emitter, emitter.feed()

    def off(self) -> Trace:
        """End the recording."""
        if self._recording is None:
            raise OptionError("no trace is being recorded", "begin one: %sglang trace on")
        emitter, feed = self._recording
        self._recording = None
        emitter.flush()
        emitter.detach(feed)
        return Trace(feed.lines)

    def keep(self, run: str, feed: Feed) -> None:
        """Remember what was told of a run that has ended."""
        self._runs[run] = feed
        size = sum(feed.size for feed in self._runs.values())
        for oldest in list(self._runs)[:-1]:
            if size <= KEPT_CHARACTERS:
                break
            dropped = self._runs.pop(oldest)
            size -= dropped.size
            dropped.drop(len(dropped.lines))
