"""Stoppable work on a separate thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ...latch import Latch

STOP_SECONDS = 1.0
"""Grace period before stopped work is interrupted, and interval between further interrupts."""


class WorkerThread:
    """Run `work()` on a daemon thread, started immediately."""

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
        """Wait at most `seconds`; return True if the work is done. Interruptible."""
        # Avoid `Thread.join`: an interrupted join marks the thread as dead (Python 3.11).
        return self._done.wait(seconds)

    def result(self) -> Any:
        """Wait for the work; return the result or raise the error."""
        self._done.wait()
        self._thread.join()
        return self._future.result()

    def stop(self) -> None:
        """Wait for the end; on timeout, raise KeyboardInterrupt in the thread. A call outside
        Python cannot be stopped, but an interrupt ends the wait."""
        while not self.wait(STOP_SECONDS):
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
        self._thread.join()
