"""The line that a load shows: what it does now, drawn over itself, and in the end what was loaded.
Only the main thread displays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..viz.display import in_kernel


class LoadLine:
    """In a notebook one output, in a terminal a line that goes when the load is over; where neither
    can be drawn over, nothing but the end, which `say` says."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._begin = time.perf_counter()
        self._output: Any = None
        self._drawn = 0  # columns

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def stage(self, what: str) -> None:
        """The load begins to do `what`."""
        if threading.current_thread() is not threading.main_thread():
            return
        line = f"loading {self._name}: {what} ({self.seconds:.1f} s)"
        if in_kernel():
            self._display(line)
        elif sys.stderr.isatty():
            self._draw(line)

    def loaded(self, what: str) -> None:
        """The load is over: `what` it gave."""
        line = f"loaded {self._name} in {self.seconds:.1f} s: {what}"
        if self._output is not None:
            self._display(line)
        else:
            self._draw("")
            self._say(line)

    def failed(self) -> None:
        """The load is over, and its error says why."""
        if self._output is not None:
            self._display("")
        self._draw("")

    def _display(self, line: str) -> None:
        bundle = {"text/plain": line}
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


@contextmanager
def load_line(name: str, say: Callable[[str], None]) -> Iterator[LoadLine]:
    """For a load inside, which says its end itself unless it raises."""
    line = LoadLine(name, say)
    try:
        yield line
    except BaseException:
        line.failed()
        raise
