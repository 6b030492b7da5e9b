"""Live view: a page that receives records and draws the resulting states (`page/`). Runs no reducer
in Python.

Protocol. A record is a line of JSON, as in a recorded log; lines are numbered from 0. A custom
message `{from}` has a buffer with the lines from that number, at least every `HEARTBEAT` seconds to
detect a dead kernel. The trait `records` is `{from, lines, live, reported}` with all kept lines,
built only on sending; `reported` is true if the cell shows the error of the run. A page with
missing lines sends `{"kind": "resync"}`. A running cell delays the answer, hence the kernel also
sends the trait at doubling intervals. The intervals begin early, because a page may still be
loading the module and miss messages. If `controls` is true, `{"kind": "act", "id", "action",
"node"}` requests one of `ACTIONS` on a tree node. If `steps` is true, `{"kind": "step", "id",
"action"}` requests one of `STEPS` of the run. If `edits` is true, `{"kind": "edit", "id", ...}`
with the fields of `EditRequest` requests an edit. `{"kind": "compare", "id", "run"}` requests the
comparison with one of the trait `reruns`. The answer is `{"answer": id, "text", "failed"}`; a
comparison has a buffer with the lines of both runs. If `batch` is true, `{"kind": "batch", "id",
"action"}` requests one of `BATCH`; the answer to "csv" has the file as a buffer. The trait `hint`
is a sentence below the views until `{"kind": "dismiss"}`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ...errors import SgnbError
from .feed import Feed
from .views import (
    ACTIONS,
    BATCH,
    STEPS,
    VIEWS,
    Act,
    Compare,
    Edit,
    EditRequest,
    RunRows,
    Steer,
)

PAGE = Path(__file__).parents[1] / "page"
FILES = (
    "dom", "branch", "models", "orders", "media", "copied_blocks", "loads", "approximations",
    "run_fleet", "time_parts", "stops", "lanes", "state", "residency", "copy_reasons",
    "tree_records", "run_records", "reduce", "store", "draw", "miss", "items", "edits", "text",
    "layout", "minimap", "tree_marks", "tree", "axis", "lane_search", "lane_drawing", "pair",
    "branches", "workers", "rerun", "compare", "time", "automaton_walk", "automaton_layout",
    "automaton", "grammar", "source", "rows", "inspect", "summary", "stepper", "view_cost",
    "dashboard", "widget",
)  # fmt: skip
"""Files of the page's module, concatenated in order; a file uses only earlier files."""
FIRST_RECORDS = 0.1
HEARTBEAT = 2.0


@cache
def module() -> str:
    return "\n".join((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in FILES)


@cache
def style() -> str:
    return (PAGE / "style.css").read_text(encoding="utf-8")


def standalone(lines: list[str], run: str) -> str:
    """Return a standalone HTML page with these records, without network access.

    Args:
        lines: Records as JSON.
        run: Id of the run, or "" for all runs.
    """
    text = json.dumps("\n".join(lines)).replace("<", "\\u003c")
    options = json.dumps({"run": run, "views": VIEWS}).replace("<", "\\u003c")
    call = f"show(document.getElementById('view'), {text}, {options});"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>sgnb recording</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>:root{{color-scheme:light dark}}{style()}</style>"
        f'<main id="view"></main><script type="module">{module()}\n{call}</script></html>\n'
    )


class Dashboard(anywidget.AnyWidget):
    """Widget for run `run`, or for all runs of an engine with "". `uid` is the id of the display.
    The page hides the static picture with the same `uid` while live."""

    _esm, _css = module(), style()
    uid = traitlets.Unicode().tag(sync=True)
    run = traitlets.Unicode().tag(sync=True)
    views = traitlets.List(traitlets.Unicode()).tag(sync=True)
    controls = traitlets.Bool().tag(sync=True)
    steps = traitlets.Bool().tag(sync=True)
    edits = traitlets.Bool().tag(sync=True)
    batch = traitlets.Bool().tag(sync=True)
    hint = traitlets.Unicode().tag(sync=True)
    reruns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    records = traitlets.Dict().tag(sync=True, to_json=lambda _, widget: widget.build())

    def __init__(
        self,
        feed: Feed,
        lock: threading.RLock,
        run: str,
        uid: str,
        views: list[str],
        live: bool = True,
        act: Act | None = None,
        steer: Steer | None = None,
        edit: Edit | None = None,
        compare: Compare | None = None,
        run_rows: RunRows | None = None,
        measure: Callable[[], dict[str, float]] | None = None,
    ) -> None:
        """Create a widget.

        Args:
            feed: Records to show.
            lock: Lock held during pushes to the feed.
            run: Id of the run, or "" for all runs.
            uid: Id of the display.
            views: Names of views.
            live: False for a finished recording.
            act: Executes node actions; None for a view without buttons.
            steer: Executes steps of the run; None without buttons.
            edit: Executes edits; None without edits.
            compare: Compares with an earlier run; used for runs in the trait `reruns`.
            run_rows: Reruns and exports a batch; used if the trait `batch` is true.
            measure: Returns `now`, the time of the log, and `share`, the processor time of the
                views over that of the process.
        """
        self._cell = copy_context()
        self._steer, self._edit = steer, edit
        self._compare, self._run_rows, self._measure = compare, run_rows, measure
        self._feed, self._lock = feed, lock
        self._live, self._sent, self._act, self._reported = live, 0, act, False
        self._beat = self._due = time.monotonic()
        self._gap = FIRST_RECORDS
        super().__init__(
            uid=uid,
            run=run,
            views=views,
            controls=act is not None,
            steps=steer is not None,
            edits=edit is not None,
        )
        self.on_msg(self._receive)
        feed.on_push = self._send_new

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run={self.run!r})"

    # In ipykernel 7.4, a page's message goes to the subshell whose request is the parent of the
    # widget's last message. On other threads the parent is the kernel's last request, and its
    # subshell ends with the page. The cell of the view runs in the main shell, which stays.
    def send(self, content: Any, buffers: Any = None) -> None:
        self._cell.copy().run(super().send, content, buffers)

    def send_state(self, key: Any = None) -> None:
        self._cell.copy().run(super().send_state, key)

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return display data and metadata, without the widget's text: a saved notebook would show
        the text next to the static picture."""
        data, metadata = self._repr_mimebundle_() or ({}, {})
        return {kind: value for kind, value in data.items() if kind != "text/plain"}, metadata

    def build(self) -> dict[str, Any]:
        with self._lock:
            feed = self._feed
            return {
                "from": feed.dropped,
                "lines": "\n".join(feed.lines),
                "live": self._live,
                "reported": self._reported,
            }

    def _send_new(self) -> None:
        feed, now = self._feed, time.monotonic()
        lines = feed.lines[self._sent - feed.dropped :]
        if lines or now - self._beat > HEARTBEAT:
            cost = {} if self._measure is None else self._measure()
            self.send({"from": self._sent, **cost}, ["\n".join(lines).encode()])
            self._sent, self._beat = self._sent + len(lines), now
        if lines and now >= self._due:
            self._due, self._gap = now + self._gap, 2 * self._gap
            self.send_state("records")

    def begin(self) -> None:
        """Send records again after `end`. Call before attaching the feed."""
        self._live = True
        self.send_state("records")

    def end(self, reported: bool = False) -> None:
        """Send the end of the records. Call after detaching.

        Args:
            reported: The cell shows the error of the run.
        """
        self._live, self._reported = False, reported
        self.send_state("records")

    def begin_rerun(self, run: str) -> None:
        """Show a further run. Call after `begin`."""
        self.batch, self.reruns, self.run = False, [], run

    def _receive(self, _: Any, content: dict[str, Any], __: Any) -> None:
        kind, action = content.get("kind"), content.get("action", "")
        node: Any = content.get("node")
        if kind == "resync":
            self.send_state("records")
        elif kind == "dismiss":
            self.hint = ""
        elif kind == "act" and self._act is not None:
            known = action in ACTIONS and type(node) is int
            self._answer(content, partial(self._act, action, node) if known else None)
        elif kind == "step" and self._steer is not None:
            self._answer(content, partial(self._steer, action) if action in STEPS else None)
        elif kind == "edit" and self._edit is not None:
            request = _read_edit(content)
            self._answer(content, None if request is None else partial(self._edit, request))
        elif kind == "batch" and self._run_rows is not None and self.batch:
            self._answer(content, partial(self._run_rows, action) if action in BATCH else None)
        elif kind == "compare" and self._compare is not None:
            run = content.get("run", "")
            self._answer(content, partial(self._compare, run) if run in self.reruns else None)

    def _answer(
        self, content: dict[str, Any], execute: Callable[[], str | bytes | None] | None
    ) -> None:
        """Execute an action of a button and send the message or the data. execute: None for an
        unknown action."""
        name = content.get("action", content.get("run"))
        text, failed = f"{name!r} is not an action of a view", True
        data: bytes | None = None
        if execute is not None:
            try:
                result, failed = execute() or "", False
                text, data = ("", result) if isinstance(result, bytes) else (result, None)
            except SgnbError as error:
                text = str(error)
        answer = {"answer": content.get("id"), "text": text, "failed": failed}
        self.send(answer, None if data is None else [data])


def _read_edit(content: dict[str, Any]) -> EditRequest | None:
    """Return the edit of a message; None for a message with other fields."""
    values = [content.get(name) for name in EditRequest._fields]
    types: list[Any] = [str, str, int, str | None, int | None]
    fits = all(isinstance(value, kind) for value, kind in zip(values, types, strict=True))
    return EditRequest(*values) if fits and True not in values else None  # type: ignore[arg-type]
