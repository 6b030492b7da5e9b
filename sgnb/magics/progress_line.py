"""Progress lines that overwrite earlier output, and the display of a model load. Only the main
thread displays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..viz.live.display import in_kernel


class ChangingLine:
    """Progress line: one output in a notebook, an overwritten line in a terminal. Without a
    display, and off the main thread, nothing is shown."""

    def __init__(self) -> None:
        self._output: Any = None
        self._drawn = 0  # width in columns

    def show(self, line: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if in_kernel():
            self._display({"text/plain": line})
        elif sys.stderr.isatty():
            self._draw(line)

    def end(self, bundle: dict[str, str] | None = None) -> bool:
        """Clear the line, or replace a notebook's output by `bundle`. Return True if the bundle was
        shown."""
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
        """Overwrite the line."""
        if line or self._drawn:
            sys.stderr.write("\r" + line.ljust(self._drawn) + ("" if line else "\r"))
            sys.stderr.flush()
            self._drawn = len(line)


class LoadLine:
    """Progress of a model load. `say` prints the final line if no notebook output exists."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._begin = time.perf_counter()
        self._line = ChangingLine()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def stage(self, stage: str) -> None:
        """Show the current stage of the load."""
        self._line.show(f"loading {self._name}: {stage} ({self.seconds:.1f} s)")

    def loaded(self, summary: str) -> None:
        """Show the end of the load with `summary`."""
        line = f"loaded {self._name} in {self.seconds:.1f} s: {summary}"
        if not self._line.end({"text/plain": line}):
            self._say(line)

    def failed(self) -> None:
        """Clear the line after a failure; the error has the explanation."""
        self._line.end()


@contextmanager
def load_line(name: str, say: Callable[[str], None]) -> Iterator[LoadLine]:
    """Show the progress of a model load inside a context. The caller reports success; errors clear
    the line.

    Args:
        name: Name of the engine.
        say: Prints a line for the user.
    """
    line = LoadLine(name, say)
    try:
        yield line
    except BaseException:
        line.failed()
        raise
