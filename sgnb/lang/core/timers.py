"""Validation of timeouts, and timers: one shared thread calls functions at a given time. Knows
nothing of programs."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import OptionError, shown
from ...sampling import scalar

LONGEST_WAIT = 3600.0
"""Seconds; longer waits overflow on some platforms."""

_log = logging.getLogger(__name__)

_Timer = tuple[float, int, Callable[[], None]]

_added: queue.SimpleQueue[_Timer] = queue.SimpleQueue()
_numbers = itertools.count()
_starting = threading.RLock()  # a finalizer may add a timer inside
_serving = False


def _forget() -> None:
    """Drop timers and thread of the parent in a forked child."""
    global _added, _starting, _serving
    _added, _starting, _serving = queue.SimpleQueue(), threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def checked_timeout(value: Any, least: float = math.ulp(0.0)) -> float | None:
    """Return the seconds of a `timeout` argument, None for no limit.

    Args:
        value: A number of Python or numpy, or None.
        least: The smallest number allowed.

    Raises:
        OptionError: for any other value.
    """
    seconds = scalar(value)
    if seconds is None:
        return None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and least <= seconds <= threading.TIMEOUT_MAX):
        rule = "0 or more" if least == 0 else "above 0"
        hint = f"give seconds, {rule}, or None for no limit"
        raise OptionError(f"timeout={shown(value)} is not allowed", hint)
    return float(seconds)


def call_later(seconds: float, action: Callable[[], None]) -> None:
    """Call `action` on the shared thread after `seconds`. The action must be quick."""
    global _serving
    with _starting:
        _added.put((time.monotonic() + seconds, next(_numbers), action))
        if not _serving:
            threading.Thread(target=_serve, name="sgnb-timers", daemon=True).start()
            _serving = True


def _serve() -> None:
    """Call actions until no timer is left."""
    global _serving
    timers: list[_Timer] = []
    while True:
        with _starting:
            if not timers and _added.empty():
                _serving = False
                return

        seconds = timers[0][0] - time.monotonic() if timers else 0.0
        with suppress(queue.Empty):
            heapq.heappush(timers, _added.get(timeout=min(max(seconds, 0.0), LONGEST_WAIT)))

        while timers and timers[0][0] <= time.monotonic():
            _, _, action = heapq.heappop(timers)
            try:
                action()
            except Exception:
                _log.exception("a timer's action failed")
            del action  # a program may be referenced


def limit_of(timeout: Any) -> float:
    """Return the seconds of a `timeout` argument of `wait`, infinity for None."""
    seconds = checked_timeout(timeout, least=0.0)
    return math.inf if seconds is None else seconds
