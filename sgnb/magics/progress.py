"""A line that is drawn over itself, and what a load shows by it: what it does now, and in the end
what was loaded. Only the main thread displays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..viz.live.display import in_kernel


class ChangingLine:
    """In a notebook one output, in a terminal a line that is drawn over; where neither can be, and
    off the main thread, nothing."""

    def __init__(self) -> None:
        self._output: Any = None
        self._drawn = 0  # columns

    def show(self, line: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if in_kernel():
            self._display({"text/plain": line})
        elif sys.stderr.isatty():
            self._draw(line)

    def end(self, bundle: dict[str, str] | None = None) -> bool:
        """Clear the line, or leave `bundle` in a notebook's output in its place: whether it
        could."""
        self._draw("")
        if self._output is None:
            return False
        self._display(bundle or {"text/plain": ""})
        return bundle is not None

    def _display(self, bundle: dict[str, str]) -> None:
        if self._output is not None:
            self._output.update(bundle, raw=True)
            return
        from IPython.display import display

        self._output = display(bundle, raw=True, display_id=True)

    def _draw(self, line: str) -> None:
        """Over what was drawn before."""
        if line or self._drawn:
            sys.stderr.write("\r" + line.ljust(self._drawn) + ("" if line else "\r"))
            sys.stderr.flush()
            self._drawn = len(line)


class LoadLine:
    """What a load does, and in the end what was loaded, which `say` says where there is no
    output."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._begin = time.perf_counter()
        self._line = ChangingLine()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def stage(self, what: str) -> None:
        """The load begins to do `what`."""
        self._line.show(f"loading {self._name}: {what} ({self.seconds:.1f} s)")

    def loaded(self, what: str) -> None:
        """The load is over: `what` it gave."""
        line = f"loaded {self._name} in {self.seconds:.1f} s: {what}"
        if not self._line.end({"text/plain": line}):
            self._say(line)

    def failed(self) -> None:
        """The load is over, and its error says why."""
        self._line.end()


@contextmanager
def load_line(name: str, say: Callable[[str], None]) -> Iterator[LoadLine]:
    """For a load inside, which says its end itself unless it raises."""
    line = LoadLine(name, say)
    try:
        yield line
    except BaseException:
        line.failed()
        raise
