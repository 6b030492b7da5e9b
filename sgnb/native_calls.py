"""Calls of Rust code without the GIL on background threads, and a wait at exit.

Until Python 3.13, a daemon thread that asks for the GIL during the finalization of the interpreter
ends by `pthread_exit`. The unwinding passes Rust's frames, and the process crashes. At exit, no
further call starts, and the interpreter waits for the running calls before the finalization.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import EngineError

EXIT_SECONDS = 5.0
"""Longest wait at exit. A longer call crashes the process only if the call ends during the
finalization, which takes about 0.1 s."""

_LOOK = 0.002  # polling interval of the wait in seconds

_running: set[object] = set()
_is_exiting = False


@contextmanager
def native_call() -> Iterator[None]:
    """Delay the exit of the interpreter until the end of the block, by at most `EXIT_SECONDS`.

    While the interpreter is exiting, a daemon thread stops here.

    Raises:
        EngineError: the interpreter is exiting, on another thread.
    """
    call = object()
    try:
        _running.add(call)
        if _is_exiting:  # checked after the registration, so `_exit` misses no call
            _running.discard(call)
            if threading.current_thread().daemon:
                threading.Event().wait()  # until the process ends: nobody reads an error
            raise EngineError("the interpreter is exiting", "generate before the exit")
        yield
    finally:
        _running.discard(call)


def _exit() -> None:
    global _is_exiting
    _is_exiting = True
    deadline = time.monotonic() + EXIT_SECONDS
    while _running and time.monotonic() < deadline:
        time.sleep(_LOOK)


atexit.register(_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
