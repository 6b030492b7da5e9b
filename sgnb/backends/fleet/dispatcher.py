"""The thread of a fleet: routes calls, sends calls to workers and receives their ends."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...engine.cache.radix import Ints
from ...errors import Aborted, EngineError
from ...events import CallRetried, CallRouted, EventLog, WorkerJoined, WorkerLost
from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from ..local import LocalExecutor
from ..mail import logged
from .block_index import BlockIndex
from .fleet_call import CallGroup, FleetCall, grouped, nothing
from .prefill_pool import PrefillPool
from .router import RoutedCalls, Router
from .tree_feed import prompt_keys
from .worker import FleetWorker
from .worker_source import Scaling
from .worker_supply import SCALING_SECONDS, WorkerSupply

POLL_SECONDS = 0.02
"""Interval of reading the workers' events while calls wait for a worker."""

WATCH_SECONDS = 5.0
"""Interval of looking for ended workers while the fleet has no calls."""

MAX_LOSSES = 5
"""Lost workers of a call before the call fails: the call may be the reason."""

FIRST_RATE = 5000.0
"""First estimate of a worker's prefill rate, in tokens per second."""

STEP_TOKENS = 8192

COMPARED = 8
"""Maximum number of workers in the reason of a decision."""

_log = logging.getLogger(__name__)

Commands = queue.SimpleQueue[FleetCall | Callable[[], None] | None]


def serve(commands: Commands, dispatcher: Dispatcher) -> None:
    """Run commands, and route calls that arrive together, until None."""
    while True:
        calls: list[FleetCall] = []
        try:
            command = commands.get(timeout=dispatcher.timeout)
            while True:
                if command is None:
                    dispatcher.close(calls)
                    return
                if isinstance(command, FleetCall):
                    calls.append(command)
                else:
                    logged(command)
                if commands.empty():
                    break
                command = commands.get()
        except queue.Empty:
            pass
        logged(partial(dispatcher.route, calls))
        del calls


class Dispatcher:
    """State of the fleet's thread.

    Args:
        executors: Executors by worker; the dispatcher adds the executors of started workers.
        log: The fleet's log, which joins the logs of the workers.
        commands: Queue of the thread.
        scaling: See `FleetExecutor`.
        prefill: Executors of the engines that compute prompts for the workers.
    """

    def __init__(
        self,
        executors: dict[int, LocalExecutor],
        log: EventLog,
        commands: Commands,
        scaling: Scaling | None = None,
        prefill: Sequence[LocalExecutor] = (),
    ) -> None:
        self._executors, self._log, self._commands = executors, log, commands
        self._end = ""  # reason of the last end of a worker
        self.prefills = PrefillPool(dict(enumerate(prefill, len(executors))))
        self._supply = scaling and WorkerSupply(
            scaling, log, commands.put, self._add, self.prefills.add
        )
        self.router = self._new_router()
        self.workers: dict[int, FleetWorker] = {}
        self._groups: dict[RoutedCalls, CallGroup] = {}
        self._forks: dict[tuple[str, str], RoutedCalls] = {}  # last calls, by run and parent
        for number, executor in executors.items():
            self._join(number, executor)

    @property
    def timeout(self) -> float | None:
        """Seconds until the next routing without a command; None: no worker starts or ends."""
        if any(not group.routed.sent for group in self._groups.values()):
            return POLL_SECONDS
        if self._supply is None:
            return None
        sizes = len(self.workers), len(self.prefills.numbers)
        scaler = self._supply.scaler
        is_scaling = self._groups or sizes != (scaler.least, scaler.prefill)
        return SCALING_SECONDS if is_scaling else WATCH_SECONDS

    @property
    def tries_again(self) -> bool:
        """True if calls should wait for a worker, although none is present."""
        return self._supply is not None and self._supply.scaler.tries_again

    @property
    def state(self) -> str:
        """See `FleetExecutor.state`. May be called on any thread."""
        count = len(self.workers)
        text = f"{count} worker{'s' if count != 1 else ''}"
        if self._supply is None:
            return text
        scaler, draining = self._supply.scaler, len(self.router.workers.draining)
        if scaler.most > scaler.least:
            text += f" of {scaler.least} to {scaler.most}"
        starting = len(scaler.starting) + len(scaler.starting_prefills)
        text += f", {starting} starting" if starting else ""
        text += f", {draining} ending" if draining else ""
        return text + (f", {len(scaler.given_up)} given up" if scaler.given_up else "")

    def route(self, calls: Sequence[FleetCall] = ()) -> None:
        """Route new calls, and send the calls whose time has come."""
        for worker in list(self.workers.values()):
            if worker.failure:
                self._lose(worker)
        for worker in self.workers.values():
            self._read(worker)

        now = self._log.now()
        for call in calls:
            call.submitted = now
        read = [call for call in calls if not call.is_done and self._read_prompt(call)]
        for group in grouped(read, STEP_TOKENS):
            self._groups[group.routed] = group
            if group.fork is not None:
                group.routed.sibling = self._forks.get(group.fork)
                self._forks[group.fork] = group.routed
            self.router.submit(group.routed, now)
        if not self.workers:
            for number, executor in self.prefills.remove(ended=False).items():
                self._add(number, executor)
        if self._supply is not None:
            for number, executor in self.prefills.remove(ended=True).items():
                self._supply.lost(number, executor, True, now)
            self._supply.scale(self.router, self.workers, self.prefills.numbers, now)
        if not (self.workers or self.tries_again):
            self._fail_all()
            return
        for routed in self.router.route(now):
            group = self._groups[routed]
            engine = self.workers[routed.estimate.worker].executor.engine
            send = partial(self._send, group)
            if not self.prefills.start(group, engine, partial(self._commands.put, send)):
                send()

    def abort(self, call: FleetCall) -> None:
        """Stop a call at the worker, or end a waiting call."""
        call.is_cancelled = True
        call.cancel()
        if call.cancel is nothing and not call.is_done:
            call.fail(Aborted("the call was stopped"))
            if call.group is not None and call.group.routed.sent:
                self._ended(call)

    def close(self, calls: Sequence[FleetCall] = ()) -> None:
        """End all calls, and the new `calls`: nothing repeats calls of ended engines from now on,
        and nothing stops calls of engines that go on."""
        self.prefills.close()
        for group in self._groups.values():
            logged(group.cancel_prefill)
        sent = [call for group in self._groups.values() for call in group.open]
        for call in [*sent, *calls]:
            call.is_cancelled = True
            logged(call.cancel)
            call.fail(EngineError("the fleet is closed", "load it again"))

    def _new_router(self) -> Router:
        return Router(BlockIndex(), step_tokens=STEP_TOKENS, compared=COMPARED)

    def _add(self, number: int, executor: LocalExecutor) -> None:
        """Add a worker to a running fleet. Raises EngineError if its engine has ended."""
        self._join(number, executor)
        self._executors[number] = executor

    def _join(self, number: int, executor: LocalExecutor) -> None:
        """Add a worker. Raises EngineError if its engine has ended."""
        worker = FleetWorker(number, executor, self.router.index, self._log)
        self.workers[number] = worker
        rates = self.router.workers
        active = rates.active
        rate = float(rates.rates[active].mean()) if active else FIRST_RATE
        self.router.join(number, rate, self._log.now())
        self._log.emit(WorkerJoined(number, executor.model_name, worker.engine))

    def _read_prompt(self, call: FleetCall) -> bool:
        """Tokenize the prompt. Returns False after an error, which ends the call."""
        try:
            # An ended worker cannot read images, videos and sounds.
            executor = next(iter(self.workers.values())).executor if self.workers else None
            executor = executor or self._executors[min(self._executors)]
            if isinstance(call.call, ScoreCall):
                call.tokens, continued, _ = executor.encode_choices(call.call)
                call.choice_tokens = sum(map(len, continued)) - len(continued) * len(call.tokens)
            else:
                call.tokens = executor.encode(call.segments)
            tokens: Ints = np.array(call.tokens, np.int32)
            vocab_size = executor.engine.vocab_size
            call.keys = prompt_keys(executor.tokenizer_id, "", tokens, vocab_size)
        except Exception as error:
            call.fail(error)
            return False
        return True

    def _send(self, group: CallGroup) -> None:
        """Send the calls of a group to the chosen worker, unless the calls or the worker ended
        during the prefill."""
        if group.routed not in self._groups:
            return
        group.cancel_prefill = nothing
        route, compared = group.routed.estimate, group.routed.compared
        worker, now = self.workers[route.worker], self._log.now()

        for call in group.calls:
            if call.is_done:
                self._ended(call)
                continue
            self._log.emit(
                CallRouted(
                    *call.place,
                    name=call.call.name,
                    worker=route.worker,
                    engine=worker.engine,
                    tokens=len(call.tokens) + call.choice_tokens,
                    cached=route.cached if call is group.calls[0] else group.routed.tokens,
                    wait=round(route.wait, 6),
                    work=round(route.work, 6),
                    others=round(route.others, 6),
                    elsewhere=round(route.elsewhere, 6),
                    waited=round(now - call.submitted, 6),
                    compared=compared.workers,
                    compared_cached=compared.cached,
                    compared_first=tuple(round(first, 6) for first in compared.first),
                    compared_others=tuple(round(others, 6) for others in compared.others),
                )
            )

            call.attempt += 1
            worker.calls[call.place] = call
            receive = partial(self._receive, call, call.attempt, worker)
            try:
                if isinstance(call.call, Call):
                    call.cancel = worker.executor.generate(call.call, receive)
                else:
                    call.cancel = worker.executor.score(call.call, receive)
            except Exception as error:
                receive(call.error_result(error))

    def _receive(
        self,
        call: FleetCall,
        attempt: int,
        worker: FleetWorker,
        message: Delta | Result | Scores,
    ) -> None:
        """Pass on text and result, on a thread of the worker. The loss of the worker is no
        result."""
        if attempt != call.attempt:
            return
        if isinstance(message, Delta):
            call.stream(message)
            return
        lost = isinstance(message.error, EngineError) and worker.failure
        if not lost or call.is_cancelled:
            call.deliver(message)
        self._commands.put(partial(self._ended, call, attempt))

    def _read(self, worker: FleetWorker) -> None:
        """Follow the events of a worker."""
        for call, time in worker.read():
            self._answered(worker)
            self._first_token(call, time)

    def _answered(self, worker: FleetWorker) -> None:
        """Record that a worker computes."""
        if self._supply is not None and not worker.has_answered:
            self._supply.succeeded(worker.number)
        worker.has_answered = True

    def _first_token(self, call: FleetCall, time: float) -> None:
        group = call.group
        if group is not None:
            group.waiting.discard(call)
            if not group.waiting:
                self.router.prefilled(group.routed, time)

    def _ended(self, call: FleetCall, attempt: int | None = None) -> None:
        """Record the end of a call. `_lose` repeats calls without a result."""
        group = call.group
        if group is None or not call.is_done or attempt not in (None, call.attempt):
            return
        worker = self.workers.get(group.routed.estimate.worker)
        if worker is not None:
            worker.calls.pop(call.place, None)
            self._answered(worker)
            self._read(worker)
        group.open.discard(call)
        self._first_token(call, self._log.now())
        if not group.open and group.routed in self._groups:
            self._remove(group.routed)
            self.router.finished(group.routed, self._log.now())

    def _remove(self, routed: RoutedCalls) -> CallGroup:
        """Remove and return a group. Later branches of the fork do not follow the group."""
        group = self._groups.pop(routed)
        group.cancel_prefill()
        routed.sibling = None
        if group.fork is not None and self._forks.get(group.fork) is routed:
            del self._forks[group.fork]
        return group

    def _lose(self, worker: FleetWorker) -> None:
        """Remove a worker, and repeat the calls of the worker."""
        del self.workers[worker.number]
        self._end = f"worker {worker.number}: {worker.failure}"
        self._log.emit(WorkerLost(worker.number, worker.failure, worker.engine))
        now = self._log.now()
        if self._supply is not None:
            self._supply.lost(worker.number, worker.executor, worker.has_answered, now)
        for routed in self.router.lose(worker.number, now):
            for call in self._remove(routed).open:
                call.attempt += 1  # late results are void
                call.cancel = nothing
                call.losses += 1
                if call.losses == MAX_LOSSES:
                    message = f"{MAX_LOSSES} workers ended during the call; {self._end}"
                    hint = "the call may be the reason: look at the log of the worker"
                    call.fail(EngineError(message, hint))
                if call.is_done:
                    continue
                tokens, call.submitted = call.continued(), now
                name = call.call.name
                self._log.emit(CallRetried(*call.place, name, worker.number, tokens))
                group = CallGroup([call])
                self._groups[group.routed] = group
                self.router.submit(group.routed, now, first=True)

    def _fail_all(self) -> None:
        """End all calls: no worker is left."""
        reason = (self._supply and self._supply.failure) or self._end
        message = f"all workers of the fleet have ended; {reason}"
        error = EngineError(message, "load the fleet again")
        for group in self._groups.values():
            for call in group.open:
                call.fail(error)
        self._groups.clear()
        self._forks.clear()
        self.router = self._new_router()
