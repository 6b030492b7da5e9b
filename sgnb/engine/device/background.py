"""Work on a thread of its own that whoever waits for it can stop, whatever Python code it runs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ...latch import Latch

STOP_SECONDS = 1.0
"""How long work that was told to stop may take to end by itself, and between later tries."""


class Background:
    """`work()` on a daemon thread, from now on."""

    def __init__(self, work: Callable[[], Any], name: str) -> None:
        self._future: Future[Any] = Future()
        self._done = Latch()
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as error:
            self._future.set_exception(error)
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Whether the work is done after at most `seconds`; an interrupt reaches who waits here."""
        # Not `Thread.join`: interrupted, that takes the thread for dead (Python 3.11).
        return self._done.wait(seconds)

    def result(self) -> Any:
        """What the work gave or raised. Waits for it."""
        self._done.wait()
        self._thread.join()
        return self._future.result()

    def stop(self) -> None:
        """Wait for the end, and raise KeyboardInterrupt in the thread when it does not come. A call
        that does not return to Python cannot be ended, but an interrupt ends this wait."""
        while not self.wait(STOP_SECONDS):
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
        self._thread.join()
