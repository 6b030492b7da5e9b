"""Live widgets: a state on the page, kept current by batches of changes. See also `static/`.

Protocol. The trait `snapshot` is `{seq, live, ops}`, built only when it is sent; a custom message
`{seq, t, ops}` takes the page from version seq - 1 to seq. The page drops what it has, and sends
`{"kind": "resync"}` when one is missing. That request waits while a cell runs, so snapshots also go
out by themselves, at times that double, beginning with the first moments, when a page may still be
loading the module and hear no message.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from .emitter import Batch, Emitter, State
from .run import RunState

STATIC = Path(__file__).parent / "static"
FIRST_SNAPSHOT = 0.1


@cache
def _module(name: str) -> str:
    return "".join((STATIC / file).read_text(encoding="utf-8") for file in ("common.js", name))


class StateWidget(anywidget.AnyWidget):
    """Abstract. `uid` names the display, and so the twin that the page hides while this is live."""

    _css = (STATIC / "style.css").read_text(encoding="utf-8")
    uid = traitlets.Unicode().tag(sync=True)
    snapshot = traitlets.Dict().tag(sync=True, to_json=lambda _, widget: widget.build())

    def __init__(self, state: State, emitter: Emitter, uid: str) -> None:
        self.state, self._emitter = state, emitter
        self._frozen: dict[str, Any] | None = None
        self._sent, self._gap, self._due = 0, FIRST_SNAPSHOT, time.monotonic()
        super().__init__(uid=uid)
        self.on_msg(self._asked)

    def __repr__(self) -> str:
        """What is seen instead where a notebook is opened without its widgets."""
        return f"({type(self).__name__}: live while a kernel runs; a picture follows)"

    def build(self) -> dict[str, Any]:
        """The whole state with its version, or what it was when frozen."""
        if self._frozen is not None:
            return self._frozen
        with self._emitter.lock:
            return {"seq": self.state.version, "live": True, "ops": self.state.snapshot()}

    def push(self, batch: Batch) -> None:
        if batch.ops:
            self.send({"seq": batch.seq, "t": batch.t, "ops": batch.ops})
        now = time.monotonic()
        if now >= self._due and batch.seq != self._sent:
            self._sent, self._due, self._gap = batch.seq, now + self._gap, 2 * self._gap
            self.send_state("snapshot")

    def freeze(self) -> None:
        """Keep the present state for any page that asks later. Call it after detaching."""
        self._frozen = {**self.build(), "live": False}
        self.send_state("snapshot")

    def _asked(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("kind") == "resync":
            self.send_state("snapshot")


class TextWidget(StateWidget):
    _esm = _module("text.js")


class TreeWidget(StateWidget):
    _esm = _module("tree.js")


def live_view(state: State, emitter: Emitter, uid: str) -> StateWidget:
    return (TextWidget if isinstance(state, RunState) else TreeWidget)(state, emitter, uid)
