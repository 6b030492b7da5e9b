"""What Ctrl-C does, while the main thread waits."""

from __future__ import annotations

import signal
import threading


def interrupt_in(seconds: float) -> None:
    """Send the main thread a signal then: a lock that it waits for is left, as by a user's
    interrupt."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT)).start()
