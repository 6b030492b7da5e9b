"""The engine's one thread: commands in, steps, events and results out. It alone touches the
model."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import Aborted, EngineError, SgnbError
from ..events import (
    Columns,
    EngineStopped,
    EventLog,
    Extended,
    GrammarReady,
    Masked,
    RequestFinished,
    RequestQueued,
    Sampled,
    StepRan,
    Tokens,
    TokensNamed,
)
from .cache.radix import Ints
from .memory import cure, forget_frames, is_device_lost, is_out_of_memory, release_device_memory
from .request.request import Chunk
from .request.request_state import Finish, RequestState
from .request.tokenizer import Tokenizer
from .runner import ModelRunner
from .sampling.step_output import AsyncStepOutput, StepOutput
from .scheduler import Scheduler


class InFlightStep(NamedTuple):
    """A step that the device works on. began: time of `time.perf_counter`, in seconds."""

    step: int
    began: float
    extended: Columns[Extended]
    chosen: AsyncStepOutput


class EngineLoop:
    """Runs until `close`, or until an error that leaves its state unknown; then every request ends
    with that error."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        tokenizer: Tokenizer | None,
        log: EventLog,
        *,
        jump_forward: bool = True,
        overlap: bool = False,
    ) -> None:
        """overlap: launch the next step before the last one is read."""
        self._scheduler = scheduler
        self._runner = runner
        self._tokenizer = tokenizer
        self._log = log
        self._jump_forward = jump_forward
        self._overlap = overlap
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._live: dict[int, RequestState] = {}
        self._in_flight: InFlightStep | None = None
        self._results_at = 0.0
        self._named = np.zeros(0, np.bool_)
        self._closing = False
        self._guard = threading.RLock()  # a finalizer may run, and abort or close, inside `_send`
        self.failure: BaseException | None = None
        self.counts = dict.fromkeys(
            (
                "requests",
                "finished",
                "prompt_tokens",
                "cached_tokens",
                "computed_tokens",
                "output_tokens",
                "jumped_tokens",
                "jumps",
                "steps",
            ),
            0,
        )
        self.busy_seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sgnb-engine", daemon=True)
        try:
            self._thread.start()
        except Exception:
            runner.release()
            raise
        except BaseException:  # an interrupt, which comes when the thread runs already
            self._commands.put(self._stop)
            raise

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def submit(self, lives: list[RequestState]) -> None:
        def accept() -> None:
            if lives:
                self._name(np.concatenate([live.request.tokens for live in lives]))
            for live in lives:
                self._accept(live)

        self._send(accept)

    def abort(self, ids: Iterable[int]) -> None:
        """End these requests at the next step; unknown or finished ones are ignored."""
        wanted = list(ids)

        def end() -> None:
            for i in wanted:
                if i in self._live:
                    self._end(self._live[i], Finish("abort", error=_aborted()))

        self._send_quietly(end)

    def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` on the engine's thread between two steps and return its result."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self._send(work)
        return future.result()

    def close(self) -> None:
        """End every request and the thread. Harmless when repeated."""
        with self._guard:
            running = self._thread.is_alive()
            if running:
                self._commands.put(self._stop)
        if running and threading.current_thread() is not self._thread:
            self._ended.wait()  # not only `join`: interrupted, that takes the thread for dead (Python 3.11)
            self._thread.join()

    def _send(self, command: Callable[[], Any]) -> None:
        with self._guard:
            if not self.alive:
                raise closed_error(self.failure)
            self._commands.put(command)

    def _send_quietly(self, command: Callable[[], Any]) -> None:
        """Unless the engine is closed: it has ended every request already."""
        with suppress(EngineError):
            self._send(command)

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self._ended.set()

    @torch.inference_mode()
    def _serve(self) -> None:
        reason = "closed"
        try:
            with self._runner.stream:
                while not self._closing:
                    self._drain_commands()
                    if not self._closing:
                        self._step()
        except BaseException as error:
            self.failure, reason = error, f"{type(error).__name__}: {error}"
        with self._guard:
            self._closing = True
        self._end_everything()
        self._runner.release()
        del self._runner, self._in_flight
        release_device_memory()
        self._log.emit(EngineStopped(reason))

    def _drain_commands(self) -> None:
        """Carry out the commands that are there; with nothing else to do, wait for one."""
        block = not self._scheduler.has_work and self._in_flight is None
        while True:
            try:
                command = self._commands.get(block=block)
            except queue.Empty:
                return
            command()
            del command  # it may hold the engine, whose finalizer ends this thread
            block = False

    def _step(self) -> None:
        """Launch a step, and read the one before it while the device works."""
        if not (
            self._overlap and all(self._live[r.id].runs_ahead for r in self._scheduler.running)
        ):
            self._process_results()
        launched = self._launch() if self._scheduler.has_work else None
        self._process_results()
        self._in_flight = launched
        if launched is not None:
            self._free_early(launched.chosen)
        if not self._overlap:
            self._process_results()

    def _launch(self) -> InFlightStep | None:
        began = time.perf_counter()
        chunks = self._scheduler.schedule()
        try:
            return self._run_chunks(chunks, began) if chunks else None
        finally:
            # The attention may hold the list until its next plan; the requests must not stay that
            # long.
            chunks.clear()

    def _run_chunks(self, chunks: list[Chunk], began: float) -> InFlightStep | None:
        """Put the step on its way. None, and its requests are dealt with, when it failed."""
        try:
            chosen = self._runner.run(chunks, self._live)
        except Exception as error:
            # The frames hold the step's tensors, and whoever keeps the error would keep those too.
            forget_frames(error)
            if is_device_lost(error):
                raise
            self._process_results()
            if not (is_out_of_memory(error) and self._scheduler.shrink(chunks)):
                self._fail(chunks, error)
            return None
        self._scheduler.complete(chunks)
        requests, starts, lengths = zip(*chunks, strict=True)
        extended: Columns[Extended] = Columns(Extended, [r.id for r in requests], starts, lengths)
        for request, seat in chosen.sampling:
            request.num_tokens_with_placeholders += 1
            request.sample_row = seat
        return InFlightStep(self._scheduler.step, began, extended, chosen)

    def _process_results(self) -> None:
        """Read the launched step, if there is one, and let its requests go on."""
        launched, self._in_flight = self._in_flight, None
        if launched is None:
            return
        choices = launched.chosen.read(self._live)
        now = time.perf_counter()
        seconds, self._results_at = now - max(launched.began, self._results_at), now
        self._record(launched, choices, seconds)
        for live, token in zip(choices.lives, choices.tokens, strict=True):
            self._advance(live, live.advance, token)
        for live, failure in choices.failed:
            self._end(live, Finish("error", error=failure))
        for live in choices.spent:
            self._end(live, live.ending or Finish("length"))

    def _free_early(self, chosen: AsyncStepOutput) -> None:
        """While the device works: take those out of the scheduler that end with this step, whatever
        it samples. Without a node they came to their ends with the token before."""
        for request, _ in chosen.sampling:
            if request.full and request.node is not None and self._live[request.id].ends_when_full:
                self._scheduler.free_early(request)

    def _advance(
        self, live: RequestState, move: Callable[..., Finish | None], *arguments: Any
    ) -> None:
        """Let the request move on, log what it wrote by itself, and end it if that was all. Its
        error ends it alone."""
        request = live.request
        before, epoch = request.num_tokens, request.version
        try:
            ending = move(*arguments)
        except Exception as error:
            ending = _ending(error)
        if request.version != epoch:
            for jump in live.take_jumps():
                self._name(jump.tokens)
                self._log.emit(jump)
                self.counts["jumps"] += 1
                self.counts["jumped_tokens"] += len(jump.tokens) - jump.dropped
            self._scheduler.requeue_rewritten(request)
        self.counts["output_tokens"] += request.num_tokens - before
        if ending is not None:
            self._end(live, ending)

    def _accept(self, live: RequestState) -> None:
        request = live.request
        self._live[request.id] = live
        prompt = Tokens(request.tokens.tobytes())
        self._log.emit(
            RequestQueued(request.id, live.run, live.branch, live.name, live.purpose, prompt)
        )
        self.counts["requests"] += 1
        if live.grammar is None:
            self._scheduler.add(request)
        else:
            number = (
                request.id
            )  # not `live`: the grammar is kept for others, and its callbacks with it
            live.grammar.add_done_callback(
                lambda _: self._send_quietly(lambda: self._begin(number))
            )

    def _begin(self, number: int) -> None:
        """The request's grammar is compiled, or failed: the request may start."""
        live = self._live.get(number)
        if live is None or live.grammar is None:
            return
        request, grammar = live.request, live.grammar
        if grammar.exception() is None:
            compiled = grammar.result().compiled
            states = len(compiled.automaton.table) if compiled.automaton is not None else 0
            seconds = round(compiled.seconds, 6)
            self._log.emit(
                GrammarReady(request.id, compiled.spec.kind, states, seconds, compiled.from_cache)
            )
        self._advance(live, self._prepare, live)
        if request.id in self._live:
            self._scheduler.add(request)

    def _prepare(self, live: RequestState) -> Finish | None:
        ending = live.begin(self._jump_forward)
        if ending is None:
            self._runner.sampler.place(live)
        return ending

    def _end(self, live: RequestState, ending: Finish) -> None:
        """Take the request out of the engine, tell the log, and hand its output over."""
        request = live.request
        self._scheduler.finish(request)
        cached, output = request.cached_tokens or 0, request.num_output_tokens
        self.counts["finished"] += 1
        self.counts["prompt_tokens"] += request.num_prompt_tokens
        self.counts["cached_tokens"] += cached
        message = str(ending.error or "")
        self._log.emit(
            RequestFinished(
                request.id, ending.reason or "", request.num_prompt_tokens, cached, output, message
            )
        )
        live.finish(ending)
        self._runner.sampler.forget(live)
        del self._live[request.id]

    def _fail(self, chunks: list[Chunk], error: Exception) -> None:
        """A forward pass failed: its requests end with the error, the others and the cache live
        on."""
        for chunk in chunks:
            failure = EngineError(
                f"the forward pass failed: {type(error).__name__}: {error}", cure(error)
            )
            failure.__cause__ = error
            if chunk.request.id in self._live:
                self._end(self._live[chunk.request.id], Finish("error", error=failure))

    def _record(self, launched: InFlightStep, choices: StepOutput, seconds: float) -> None:
        scheduler = self._scheduler
        self.counts["steps"] += 1
        self.counts["computed_tokens"] += sum(launched.extended.column("length"))
        self.busy_seconds += seconds
        numbers = [live.request.id for live in choices.lives]
        sampled: Columns[Sampled] = Columns(Sampled, numbers, choices.tokens, choices.logprobs)
        self._name(choices.tokens)
        self._log.emit(
            StepRan(
                launched.step,
                round(seconds, 6),
                launched.extended,
                sampled,
                len(scheduler.waiting),
                len(scheduler.running),
                scheduler.pool.free,
                scheduler.tree.size,
                scheduler.in_flight,
                Columns(Masked, *zip(*choices.masked, strict=True)) if choices.masked else (),
            )
        )

    def _name(self, tokens: Sequence[int] | Ints) -> None:
        """Tell the log the texts of tokens that it has not met before."""
        ids = np.asarray(tokens, np.int64)
        more = ids.max(initial=-1) + 1 - len(self._named)
        if more > 0:
            self._named = np.append(self._named, np.zeros(more, np.bool_))
        named = self._named[ids]
        if not named.all():
            new = np.unique(ids[~named]).tolist()
            self._named[new] = True
            pieces = (self._tokenizer.piece(t) if self._tokenizer else b"<%d>" % t for t in new)
            self._log.emit(TokensNamed(tuple(new), tuple(p.decode("latin-1") for p in pieces)))

    def _stop(self) -> None:
        self._closing = True

    def _end_everything(self) -> None:
        """The thread ends: whatever still waits for it is told so, and no error of one keeps the
        others waiting."""
        while not self._commands.empty():
            with suppress(Exception):
                self._commands.get()()
        for live in self._live.values():
            with suppress(Exception):
                live.finish(
                    Finish("error" if self.failure else "abort", error=closed_error(self.failure)),
                    read=not self.failure,
                )
        self._live.clear()


def closed_error(failure: BaseException | None) -> EngineError:
    """Why the engine takes no more requests."""
    if failure is None:
        return EngineError(
            "the engine is closed", "make a new Engine, or `%sglang load` the model again"
        )
    error = EngineError(
        f"the engine ended on {type(failure).__name__}: {failure}",
        cure(failure)
        if is_device_lost(failure)
        else "`%sglang load` the model again, or make a new Engine",
    )
    error.__cause__ = failure
    return error


def _ending(error: Exception) -> Finish:
    """How a request ends that `error` kept from going on."""
    if isinstance(error, SgnbError):
        return Finish("error", error=error)
    failure = EngineError(f"the request failed: {type(error).__name__}: {error}", cure(error))
    failure.__cause__ = error
    return Finish("error", error=failure)


def _aborted() -> Aborted:
    return Aborted(
        "the request was stopped before it finished",
        "what it had produced is kept, and its cache too",
    )
