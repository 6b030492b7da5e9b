"""Recorded runs: display without an engine, save, open, export. Records nothing."""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import OptionError, nearest
from ...events import AutomatonDrawn, Record, RunStarted, encode, load, replay
from ..state.log_state import LogState, with_edits
from ..state.tree import Trees
from ..static.automaton_svg import automaton_picture
from ..static.bundle import STYLE_BUNDLE, static_bundle
from ..static.kept_views import KEPT_VIEWS, view_of
from ..static.perfetto import trace_events
from ..static.plain_text import Shown, plain_text
from .display import in_kernel, is_static
from .feed import Feed
from .kept_pictures import ViewPicture, picture_of
from .views import VIEWS

FORMATS = {
    "jsonl": "the records, for `sgnb.open_recording`",
    "html": "one page with all views, for any browser, without network",
    "perfetto": "requests and steps over time, for ui.perfetto.dev and chrome://tracing",
}
SUFFIXES = {".jsonl": "jsonl", ".html": "html", ".json": "perfetto"}


class Recording:
    """Records of a run, or of an engine over some time. Displays as views with a time slider."""

    def __init__(self, lines: Iterable[str], run: str = "") -> None:
        """Create a recording.

        Args:
            lines: Records as JSON, from a `Feed`.
            run: Id of the run, or "" for all runs.
        """
        self.lines, self.run = list(lines), run

    @classmethod
    def open(cls, path: str | Path) -> Recording:
        """Read a file written by `save` or `events.Recorder`. Skips records of unknown kinds.

        Args:
            path: File in JSON Lines format.

        Raises:
            RecordError: A line of the file is damaged.
        """
        records = list(load(path))
        runs = [record.event.run for record in records if isinstance(record.event, RunStarted)]
        return cls(map(encode, records), runs[0] if len(runs) == 1 else "")

    def save(self, path: str | Path, format: str = "") -> Path:
        """Save the recording.

        Args:
            path: File to write.
            format: One of `FORMATS`; by default from the suffix: .jsonl, .html, or .json for
                Perfetto.

        Returns:
            The path.
        """
        path = Path(path)
        format = format or SUFFIXES.get(path.suffix, path.suffix)
        if format not in FORMATS:
            raise OptionError(f"no recording can be saved as {format!r}", nearest(format, FORMATS))
        path.write_text(self._as(format), encoding="utf-8")
        return path

    def _as(self, format: str) -> str:
        if format == "jsonl":
            return "\n".join([*self.lines, ""])
        if format == "perfetto":
            return json.dumps({"traceEvents": trace_events(replay(self.lines))})
        from .widget import standalone

        return standalone(self.lines, self.run)

    def picture(self, view: str) -> ViewPicture:
        """Return the static picture of a view, for pages and saved notebooks.

        Args:
            view: "text", "tree", "source", "branches", "workers", "time", "grammar", "rows" or
                "compare".

        Raises:
            OptionError: No view has the name, or the run has no data for the view.
        """
        picture = picture_of(view, list(replay(self.lines)), self.run)
        if picture is None:
            shown = ", ".join(self.views())
            raise OptionError(f"the run has no data for the view {view!r}", f"views: {shown}")
        return picture

    def views(self) -> list[str]:
        """Return the names of the views with data, for `picture`."""
        records = list(replay(self.lines))
        return [name for name in KEPT_VIEWS if view_of(name, records, self.run) is not None]

    def of_program(self, branch: str) -> Recording:
        """Return the recording of one program of a batch.

        Args:
            branch: Branch of the program, for example "3".
        """
        records = []
        for record in replay(self.lines):
            event = record.event
            if isinstance(event, RunStarted) and event.run == self.run:
                title = f"{event.title}, row {branch}"
                record = record._replace(event=dataclasses.replace(event, title=title, total=1))
            of_run = getattr(event, "run", "") == self.run
            program = getattr(event, "branch", branch).partition(".")[0]
            if not of_run or program == branch:
                records.append(record)
        return Recording(map(encode, records), self.run)

    @cached_property
    def states(self) -> LogState:
        """Return the states after the last record."""
        return LogState(replay(self.lines))

    def _shown(self) -> list[Shown]:
        if self.states.comparison.variants:
            return [self.states.comparison]
        runs = self.states.runs
        shown = with_edits(runs, self.run) if self.run in runs else list(runs.values())
        trees = [tree for run in shown[-1:] for tree in run.trees()]
        return [*shown, *(trees or [self.states.tree])]

    def text(self) -> str:
        """Return the views as text."""
        return plain_text(self._shown())

    def __repr__(self) -> str:
        return f"Recording({len(self.lines):,} records, {len(self.states.runs)} runs)"

    def widget(self) -> Any:
        """Return the views as a widget (`anywidget.AnyWidget`), for notebooks like marimo:
        `mo.ui.anywidget(recording.widget())`."""
        return self.widget_of(uuid.uuid4().hex[:12])

    def widget_of(self, uid: str) -> Any:
        from .widget import Dashboard

        feed = Feed(Trees(), 0.0)
        feed.lines = self.lines
        return Dashboard(feed, threading.RLock(), self.run, uid, list(VIEWS), live=False)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        uid = uuid.uuid4().hex[:12]
        bundle = static_bundle(self._shown(), uid)
        if is_static() or not in_kernel():
            return bundle
        data, metadata = self.widget_of(uid).bundle()
        return {**bundle, **data}, metadata


def show_automaton(drawn: AutomatonDrawn, text: str) -> None:
    """Display an automaton in the running cell: a live view, and a picture for the saved notebook.

    Args:
        drawn: The automaton with layout.
        text: Fallback text for front ends without pictures.
    """
    from IPython.display import display

    uid = uuid.uuid4().hex[:12]
    if not is_static():
        data, metadata = Recording([encode(Record(1, 0.0, drawn))]).widget_of(uid).bundle()
        display(STYLE_BUNDLE, raw=True)
        display(data, metadata=metadata, raw=True)
    picture = automaton_picture(drawn, f"sgnb-static sgnb-static-{uid}")
    display({"image/svg+xml": picture, "text/plain": text}, raw=True)
