"""Comparison of the weights before requests are queued."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable

from ...errors import EngineError, SgnbWarning, printable
from ...events import WeightsChanged
from ..model.weight_monitor import WeightMonitor
from .engine_loop import EngineLoop

INTERVAL = 0.02
"""Minimum seconds between comparisons of numbers while requests run. A comparison takes 0.2 to
0.6 ms on a CPU and waits for the device on a GPU. Some workloads submit several hundred times per
second."""


class WeightGuard:
    """Comparison of weights on the submitting thread. The engine drops the cache after a change.

    changes: the number of changes so far.
    """

    def __init__(self, name: str, loop: EngineLoop) -> None:
        self.changes = 0
        self._name, self._loop, monitor = name, loop, loop.weights
        # Weak: a closed engine must not keep the weights.
        self._monitor: Callable[[], WeightMonitor | None] = (
            (lambda: None) if monitor is None else weakref.ref(monitor)
        )
        self._lock = threading.Lock()
        self._compared_at = 0.0

    def check(self, changed: bool = False, *, always: bool = False, stacklevel: int) -> int:
        """See `Engine.check_weights`. Do nothing on the engine's thread, to avoid a deadlock.

        Args:
            changed: Take the weights for changed.
            always: Compare numbers also shortly after the last comparison.
            stacklevel: Of the warning, from this function on; 2 is the caller.
        """
        monitor = self._monitor()
        if monitor is None or not self._loop.may_wait:
            return self.changes

        with self._lock:
            weight = monitor.find_change(self._compares(always)) or ("" if changed else None)
            if weight is None:
                return self.changes
            event = self._loop.call(lambda: self._loop.adopt_weights(weight))
            monitor.record()
            self.changes += 1
            message = self._describe(event)

        warnings.warn(message, SgnbWarning, stacklevel=stacklevel)
        return self.changes

    def check_unchanged(self) -> None:
        """Raise an EngineError if the weights differ from the weights of the cache. Call on the
        engine's thread, where `check` does nothing."""
        monitor = self._monitor()
        weight = None if monitor is None else monitor.find_change()
        if weight is not None:
            message = f"the weights of {self._name} changed during the call (first in {weight})"
            raise EngineError(printable(message), "repeat the call without changes of the weights")

    def _compares(self, always: bool) -> bool:
        """Return whether to compare numbers now: always without running requests."""
        now, counts = time.perf_counter(), self._loop.journal.counts
        running = counts["requests"] > counts["finished"]
        if running and not always and now < self._compared_at + INTERVAL:
            return False
        self._compared_at = now
        return True

    def _describe(self, event: WeightsChanged) -> str:
        where = f"first in {event.weight}; " if event.weight else ""
        dropped = [f"{event.tokens:,} cached tokens were dropped"]
        dropped += [f"{event.pins:,} pins undone"] if event.pins else []
        if event.requests:
            dropped.append(f"{event.requests:,} running requests recompute their tokens")
        # Python shows a warning once per text: the number makes each change a text of its own.
        return printable(
            f"the weights of {self._name} changed ({where}change {self.changes} under this "
            f"engine): {', '.join(dropped)}"
        )
