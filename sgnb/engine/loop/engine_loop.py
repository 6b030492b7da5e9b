"""Engine thread: commands in, steps, events and results out. Only this thread runs the model."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch

from ...errors import EngineError
from ...events import EngineStopped, EventLog, WaitingRequest, WeightsChanged
from ..cache.tiers.tiers import CacheTiers
from ..device.faults import forget_frames, is_device_lost, is_out_of_memory
from ..device.memory import release_device_memory
from ..items import EncoderQueue
from ..model.weight_monitor import WeightMonitor
from ..request.batch import Batch
from ..request.request import Request, RequestFault
from ..request.request_state import Finish, RequestState
from ..request.tokenizer import Tokenizer
from ..runner import ModelRunner
from ..scheduler import Scheduler
from .command_thread import Command, CommandThread
from .endings import aborted, closed_error, failed
from .grammar_work import WATCH, GrammarWork
from .item_work import ItemWork
from .journal import Journal
from .splice_work import SpliceWork
from .statistics import read_statistics, read_waiting
from .step_output import NO_NUMBERS, AsyncStepOutput, InFlightStep, StepOutput
from .tier_work import TierWork
from .token_gate import TokenGate

_log = logging.getLogger(__name__)


class EngineLoop(CommandThread):
    """Loop from `start` to `close`, or to a fatal error that ends every request."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        tokenizer: Tokenizer | None,
        log: EventLog,
        encoder: EncoderQueue | None = None,
        tiers: CacheTiers | None = None,
        *,
        jump_forward: bool = True,
        overlap: bool = False,
        grammar_budget: float = 30.0,
    ) -> None:
        """overlap: launch the next step before the last step is read. grammar_budget: maximum
        processor seconds of a request's grammar next to the steps."""
        super().__init__(log.home, "sgnb-engine")
        self._scheduler = scheduler
        self._runner = runner
        self._jump_forward = jump_forward
        self.overlap = overlap
        self._states: dict[int, RequestState] = {}
        self._stop_tokens: set[int] = set()  # of all requests so far
        self._in_flight: InFlightStep | None = None
        self._found_nothing = False  # the last schedule had work for no request
        self._grammar_work = GrammarWork(
            grammar_budget, lambda id: self._send_quietly(partial(self._resume, id))
        )
        self._results_at = 0.0
        self.journal = Journal(log, tokenizer, None if encoder is None else encoder.table)
        self._items = ItemWork(encoder, self.journal)
        splices = SpliceWork(scheduler, runner, self.submit, self.abort, log.emit)
        self.tiers = TierWork(tiers, scheduler, self._send_quietly, splices)
        self.token_gate = TokenGate(self._states, scheduler, log.emit, self._process_results)

    def statistics(self) -> dict[str, Any]:
        """See `Engine.stats`. Call on the engine's thread."""
        counts: dict[str, Any] = self.journal.counts.copy()
        counts["output_tokens"] += sum(s.request.num_output_tokens for s in self._states.values())
        counts["busy_seconds"] = self.journal.busy_seconds
        details = self._items.statistics() | self.tiers.statistics()
        return read_statistics(counts, self._scheduler) | details

    def flush(self, namespace: str | None) -> int:
        """See `Engine.flush_cache`. Call on the engine's thread."""
        if namespace is None:
            self._items.flush()
            self.tiers.flush()
        return self._scheduler.cache.flush(namespace)

    def submit(self, states: list[RequestState]) -> None:
        def accept() -> None:
            if states:
                self.journal.name(np.concatenate([state.request.tokens for state in states]))
            for state in states:
                self._guarded(partial(self._accept, state), state.request)

        self._send(accept)

    def abort(self, ids: Iterable[int]) -> None:
        """End these requests at the next step. Ids of unknown and finished requests are ignored."""
        wanted = list(ids)

        def end() -> None:
            for i in wanted:
                if i in self._states:
                    self._end(self._states[i], Finish("abort", error=aborted()))

        self._send_quietly(end)

    def why_waiting(self, run: str, branch: str) -> list[WaitingRequest]:
        """See `Engine.why_waiting`. Call on the engine's thread."""
        return read_waiting(self._states.values(), self._scheduler, self.token_gate, run, branch)

    def adopt_weights(self, weight: str) -> WeightsChanged:
        """Use changed weights and drop all keys and values computed by the old weights. Call
        this method on the engine's thread. weight: name of the first changed weight."""
        self._runner.adopt_weights()
        self.tiers.adopt_weights()  # first: loads lock nodes
        event = WeightsChanged(weight, *self._scheduler.drop_cache())
        self._items.drop()
        self.journal.log.emit(event)
        return event

    @property
    def weights(self) -> WeightMonitor | None:
        """Monitor of weights that the user can change. None for a model from a folder."""
        return self._runner.weights

    @torch.inference_mode()
    def _serve(self) -> None:
        reason = "closed"
        try:
            with self._runner.stream:
                while not self._closing:
                    self._drain_commands()
                    if not self._closing:
                        self._step()
        except BaseException as fault:
            self.failure = error = self._runner.failure(fault)
            reason = f"{type(error).__name__}: {error}"

        with self._guard:
            self._closing = True
        self._end_everything()
        self._grammar_work.close()
        self.tiers.close()
        self._runner.release()
        del self._runner, self._in_flight
        release_device_memory()
        self.journal.log.emit(EngineStopped(reason))

    def _drain_commands(self) -> None:
        """Run queued commands; wait for a command if idle, and for the masks of the next step."""
        while self._is_idle:
            self._end_over_budget()
            self.tiers.idle()
            patience = WATCH if self._grammar_work else self.tiers.patience
            try:
                command = self._commands.get(True, patience)
            except queue.Empty:
                continue
            command()
            del command  # may hold the engine, and the engine's finalizer ends this thread
            if self._closing:
                return
            self._found_nothing = False
        self._grammar_work.run_commands(self._commands, self._scheduler.running)
        if self._grammar_work:
            self._end_over_budget()

    @property
    def _is_idle(self) -> bool:
        """True if only a command can bring work: nothing runs, or all requests are held."""
        if self._in_flight is not None:
            return False
        works = bool(self._grammar_work or self.tiers)
        waits = self._found_nothing and works and not self._items
        return waits or not self._scheduler.has_work

    def _end_over_budget(self) -> None:
        """End the requests with a grammar over the budget; the work goes on unused."""
        for state, error in self._grammar_work.over_budget():
            self._end(state, Finish("error", error=error))

    def _guarded(self, work: Command, request: Request | None = None) -> None:
        """Run `work`. An error ends the request that the error belongs to, by default `request`;
        without a request the error is logged."""
        try:
            work()
        except RequestFault as fault:
            self._end_faulty(fault.request, fault.error)
        except Exception as error:
            if is_device_lost(error):
                raise
            if request is None:
                _log.exception("a command to the engine failed")
            else:
                self._end_faulty(request, error)

    def _end_faulty(self, request: Request, error: Exception) -> None:
        """End the request with the error, unless the step in flight ends the request."""
        forget_frames(error)
        self._process_results()
        if request.id in self._states:
            self._end(self._states[request.id], failed(error))

    def _step(self) -> None:
        """Launch a step and process the previous results while the device works."""
        if not (self.overlap and self._scheduler.runs_ahead):
            self._process_results()
        for state, finish in self._items.run(self._states.values()):
            self._end(state, finish)
        launched = self._launch() if self._scheduler.has_work else None
        self._process_results()
        self._in_flight = launched
        if launched is not None:
            self._grammar_work.stepped()
            self._scheduler.free_early(launched.last)
        if not self.overlap:
            self._process_results()

    def _launch(self) -> InFlightStep | None:
        """Launch the next step. None without work, or after a handled failure."""
        began = time.perf_counter()
        try:
            self.tiers.splices.copy()
            batch = self._scheduler.schedule()
        except RequestFault as fault:
            self._end_faulty(fault.request, fault.error)
            return None
        self._found_nothing = not batch.requests
        return self._launch_batch(batch, began) if batch.requests else None

    def _launch_batch(self, batch: Batch, began: float) -> InFlightStep | None:
        """Launch this batch; see `_launch`."""
        try:
            output = AsyncStepOutput(batch, self._runner.run(batch))
        except Exception as error:
            # The error's frames hold the step's tensors.
            forget_frames(error)
            if is_device_lost(error):
                raise
            self._recover(batch, error)
            batch.clear()
            return None
        last = self._scheduler.complete(batch)
        return InFlightStep(self._scheduler.step, began, batch, output, last)

    def _recover(self, batch: Batch, error: Exception) -> None:
        """Handle a failed batch; nothing counts as computed, the cache stays. Out of memory shrinks
        later steps. Otherwise each request runs alone once and ends on a second failure."""
        versions = [request.version for request in batch.requests]
        self._process_results()
        if is_out_of_memory(error) and self._scheduler.shrink(batch):
            return
        for i, (request, version) in enumerate(zip(batch.requests, versions, strict=True)):
            if request.version != version:  # ended or rewritten by the results
                continue
            if len(batch) == 1:
                self._end(request.state, failed(error, "the forward pass failed"))
            else:
                self._in_flight = self._launch_batch(batch.part(i, i + 1), time.perf_counter())
                self._process_results()

    def _process_results(self) -> None:
        """Wait for the step in flight, if any, and advance the requests."""
        step, self._in_flight = self._in_flight, None
        if step is None:
            return
        self._found_nothing = False
        output = step.output.get()
        now = time.perf_counter()
        seconds, self._results_at = now - max(step.began, self._results_at), now
        for request in output.verified:
            self._take_jumps(request.state)
        self.journal.ran(step.step, step.batch, output, seconds, self._scheduler)
        self.tiers.stepped(step.batch, seconds)
        if step.append_plain(output, self._stop_tokens):
            for request in step.last:
                self._end(request.state, Finish("length"))
        else:
            self._advance_each(output)

        for request, failure in output.failed:
            self._end(request.state, failed(failure))
        for request in output.non_finite:
            if not request.isolated:
                self._scheduler.isolate(request)
                continue
            finish = Finish("error", error=EngineError(*NO_NUMBERS))
            self._end(request.state, finish, non_finite=True)
        for request in output.exhausted:
            self._end(request.state, request.state.ending or Finish("length"))
        step.batch.clear()

    def _advance_each(self, output: StepOutput) -> None:
        rows = zip(output.requests, output.tokens, output.logprobs, strict=True)
        for request, token, logprob in rows:
            version = request.version
            try:
                finish = request.state.advance(token)
            except BaseException as error:  # ends only this request
                finish = failed(error)
            if request.version != version:
                self._take_jumps(request.state)
            if finish is not None:
                self._end(request.state, finish)
                continue
            if request.state.grammar_work is not None:
                self._scheduler.hold(request)
                self._grammar_work.start(request.state)
            self.token_gate.took(request.state, logprob)

    def _take_jumps(self, state: RequestState) -> None:
        """Log the tokens rewritten by the request's grammar, and schedule the computation."""
        for jump in state.take_jumps():
            self.journal.jumped(jump)
        # The tree may have drafted tokens before they are verified.
        self.journal.name(state.request.tokens[state.request.num_prompt_tokens :])
        self._scheduler.requeue_rewritten(state.request)

    def _accept(self, state: RequestState) -> None:
        request = state.request
        self._states[request.id] = state
        self._stop_tokens |= state.stop_tokens
        self.journal.queued(request, state.origin)
        self.token_gate.admit(state)
        if state.grammar is None:
            self._go_on(state, state.begin(self._jump_forward), request.version)
        else:
            if not state.grammar.done():
                self.journal.compiling(request)
            id = request.id  # avoid `state`: the shared grammar keeps the callbacks
            state.grammar.add_done_callback(lambda _: self._send_quietly(lambda: self._begin(id)))

    def _begin(self, id: int) -> None:
        """Start the request after the end of grammar compilation."""
        state = self._states.get(id)
        if state is None or state.grammar is None:
            return
        request, grammar = state.request, state.grammar
        if grammar.exception() is None:
            self.journal.compiled(request, grammar.result().compiled)
        version = request.version
        try:
            finish = state.begin(self._jump_forward)
            if finish is None and (automaton := state.automaton) is not None:
                offset = self._runner.sampler.acquire(automaton, state.stop_tokens)
                state.put_grammar_on_device(offset)
        except BaseException as error:
            finish = failed(error)
        if finish is None and state.grammar_work is not None:
            self._grammar_work.start(state)
        else:
            self._go_on(state, finish, version)

    def _resume(self, id: int) -> None:
        """Let a request run again after the work of the grammar."""
        work = self._grammar_work.end(id)
        if work is None:
            return
        state, job = work
        version = state.request.version
        try:
            if job.error is not None:
                raise job.error
            finish = state.resume()
        except BaseException as error:
            finish = failed(error)
        self._go_on(state, finish, version)

    def _go_on(self, state: RequestState, finish: Finish | None, version: int) -> None:
        """Schedule or end a request after work of the grammar. version: before the work."""
        request = state.request
        if request.version != version:
            self._take_jumps(state)
        if finish is None:
            self._guarded(partial(self.token_gate.go_on, request), request)
        else:
            self._end(state, finish)

    def _end(self, state: RequestState, finish: Finish, non_finite: bool = False) -> None:
        """Free the slots, log the end, deliver the output and forget the request. non_finite: see
        `Scheduler.finish`."""
        request = state.request
        self._grammar_work.end(request.id)
        self.token_gate.end(request.id)
        try:
            state.read_rest(finish)
        except BaseException as error:
            finish = failed(error)

        self._scheduler.finish(request, non_finite)
        self.journal.finished(request, finish)
        try:
            state.finish(finish)
        except BaseException:
            _log.exception("a listener of a request failed at the end of the request")
        if state.table_offset is not None:
            self._runner.sampler.release(state.table_offset)
        del self._states[request.id]  # last: `_end_everything` reports earlier errors

    def _end_everything(self) -> None:
        """End all waiting requests at the end of the thread, each independent of other errors."""
        while not self._commands.empty():
            with suppress(BaseException):
                self._commands.get()()
        finish = Finish("error" if self.failure else "abort", error=closed_error(self.failure))
        for state in self._states.values():
            with suppress(BaseException):
                if not self.failure:
                    state.read_rest(finish)
            with suppress(BaseException):
                state.finish(finish)
        self._states.clear()
