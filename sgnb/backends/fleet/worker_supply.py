"""Start, end and replacement of a fleet's engines, as the `Scaler` decides."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Set
from functools import partial

from ...errors import EngineError, SgnbError
from ...events import EventLog, FleetScaled, WorkerLost
from ..local import LocalExecutor, executor_of
from ..mail import logged
from .router import Router
from .scaling import ENDS_SECONDS, MAX_ENDS
from .worker import FleetWorker, end_reason
from .worker_source import Scaling

SCALING_SECONDS = 0.5
"""Interval of decisions about the number of workers."""

_log = logging.getLogger(__name__)


class WorkerSupply:
    """Engines of the workers. The methods belong to the fleet's thread; engines start and end on
    threads of their own.

    Args:
        scaling: See `FleetExecutor`.
        log: The fleet's log.
        put: Runs a function on the fleet's thread.
        join: Adds a started worker. Raises EngineError if the engine has ended.
        join_prefill: Adds a started prefill engine.

    Attributes:
        failure: Reason of the last failed start or given up worker, since the last success.
    """

    def __init__(
        self,
        scaling: Scaling,
        log: EventLog,
        put: Callable[[Callable[[], None]], None],
        join: Callable[[int, LocalExecutor], None],
        join_prefill: Callable[[int, LocalExecutor], None],
    ) -> None:
        self.scaler, self.source = scaling.scaler, scaling.source
        self.failure = ""
        self._log, self._put = log, put
        self._join, self._join_prefill = join, join_prefill
        self._scaled_at = 0.0

    def scale(
        self, router: Router, workers: dict[int, FleetWorker], prefills: Set[int], now: float
    ) -> None:
        """Start and end engines; see `scaling`. prefills: running prefill engines."""
        if now < self._scaled_at + SCALING_SECONDS and workers:
            return
        self._scaled_at = now
        pinned = {worker.number for worker in workers.values() if worker.pins}
        for change in self.scaler.decide(router, now, pinned, prefills):
            self._log.emit(FleetScaled(change.worker, change.action, change.reason))
            if change.action == "start":
                _on_thread("sgnb-fleet-start", partial(self._start, change.worker, now))
            elif change.action == "stop":
                worker = workers.pop(change.worker)
                self._log.emit(WorkerLost(worker.number, change.reason, worker.engine))
                self._stop(worker.executor)

    def lost(self, number: int, executor: LocalExecutor, has_answered: bool, now: float) -> None:
        """Release an ended engine. The next `scale` replaces the engine.

        Args:
            number: Number of the engine in the fleet.
            executor: Executor of the engine.
            has_answered: False for a worker that ended before the first token.
            now: Time in seconds.
        """
        reason = end_reason(executor)
        self.scaler.lost(number, now)
        if number in self.scaler.given_up:
            times = f"ended {MAX_ENDS} times within {ENDS_SECONDS / 60:g} minutes"
            self._note(number, f"{times} and is given up: {reason}", warns=True)
        elif not has_answered:
            self.failed(number, reason)
        self._stop(executor)

    def succeeded(self, worker: int) -> None:
        """Record the first token of a worker."""
        self.scaler.succeeded(worker)
        self.failure = self.failure if self.scaler.failures else ""

    def failed(self, number: int, reason: str) -> None:
        """Report a failed start, or a worker that ended before its first token. Only the first of
        successive failures is reported."""
        self._note(number, reason, warns=not self.scaler.failures)
        self.scaler.failed(number, self._log.now())

    def _note(self, number: int, reason: str, warns: bool) -> None:
        self.failure = f"worker {number}: {reason}"
        if warns:
            _log.warning("worker %d of the fleet failed: %s", number, reason)
            self._log.emit(FleetScaled(number, "fail", reason))

    def _stop(self, executor: LocalExecutor) -> None:
        """Release the engine of a worker without calls."""
        _on_thread("sgnb-fleet-stop", partial(self.source.stop, executor.engine))

    def _start(self, number: int, began: float) -> None:
        """Start an engine, on a thread."""
        try:
            executor = executor_of(self.source.start(number))
        except Exception as error:  # otherwise calls would wait for the worker forever
            reason = error.message if isinstance(error, SgnbError) else repr(error)
            self._put(partial(self.failed, number, reason))
        else:
            self._put(partial(self._started, number, executor, began))

    def _started(self, number: int, executor: LocalExecutor, began: float) -> None:
        """Let a started engine join."""
        if number in self.scaler.starting_prefills:
            self._join_prefill(number, executor)
            self.scaler.started_prefill(number)
            return
        try:
            self._join(number, executor)
        except EngineError as error:  # the engine has ended already
            self._stop(executor)
            self.failed(number, error.message)
            return
        self.scaler.started(number, self._log.now() - began)


def _on_thread(name: str, work: Callable[[], None]) -> None:
    """Run work that waits."""
    threading.Thread(target=logged, args=(work,), name=name, daemon=True).start()
