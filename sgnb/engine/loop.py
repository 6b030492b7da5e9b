"""The engine's one thread: commands in, steps, events and results out. It alone touches the model."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from ..errors import Aborted, EngineError, SgnbError
from ..events import (
    EngineStopped,
    EventLog,
    Extended,
    GrammarReady,
    RequestFinished,
    RequestQueued,
    StepRan,
    TokensNamed,
)
from .choosing import Choices, choose
from .live import Ending, Live
from .request import Chunk
from .runner import ModelRunner
from .scheduler import Scheduler
from .text import Tokenizer


class EngineLoop:
    """Runs until `close`, or until an error that leaves its state unknown; then every request ends with that error."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        tokenizer: Tokenizer | None,
        log: EventLog,
        jump_forward: bool = True,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._tokenizer = tokenizer
        self._log = log
        self._jump_forward = jump_forward
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._live: dict[int, Live] = {}
        self._named: set[int] = set()
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
        self._thread = threading.Thread(target=self._run, name="sgnb-engine", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def submit(self, lives: list[Live]) -> None:
        def accept() -> None:
            for live in lives:
                self._accept(live)

        self._send(accept)

    def abort(self, ids: Iterable[int]) -> None:
        """End these requests at the next step; unknown or finished ones are ignored."""
        wanted = list(ids)

        def end() -> None:
            for i in wanted:
                if i in self._live:
                    self._end(self._live[i], Ending("abort", error=_aborted()))

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
            if self._thread.is_alive():
                self._commands.put(self._stop)
        if threading.current_thread() is not self._thread:
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

    @torch.inference_mode()
    def _run(self) -> None:
        reason = "closed"
        try:
            while not self._closing:
                self._obey()
                if self._scheduler.has_work and not self._closing:
                    self._step()
        except BaseException as error:
            self.failure, reason = error, f"{type(error).__name__}: {error}"
        with self._guard:
            self._closing = True
        self._end_everything()
        self._runner.release()
        del self._runner
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        self._log.emit(EngineStopped(reason))

    def _obey(self) -> None:
        """Carry out the commands that are there; with nothing else to do, wait for one."""
        block = not self._scheduler.has_work
        while True:
            try:
                command = self._commands.get(block=block)
            except queue.Empty:
                return
            command()
            del command  # it may hold the engine, whose finalizer ends this thread
            block = False

    def _step(self) -> None:
        began = time.perf_counter()
        chunks = self._scheduler.schedule()
        try:
            logits = self._runner.forward(chunks)
            choices = choose(chunks, logits, self._live)
        except Exception as error:
            self._fail(chunks, error)
            return
        self._scheduler.complete(chunks)
        seconds = time.perf_counter() - began
        self._record(chunks, choices, seconds)
        for number, token, _ in choices.sampled:
            live = self._live[number]
            self._go_on(live, partial(live.advance, token))
        for live, failure in choices.failed:
            self._end(live, Ending("error", error=failure))
        for chunk in chunks:
            request = chunk.request
            if chunk.end == request.size and not chunk.samples and request.id in self._live:
                live = self._live[request.id]
                self._end(live, live.ending or Ending("length"))

    def _go_on(self, live: Live, move: Callable[[], Ending | None]) -> None:
        """Let the request move on, log what it wrote by itself, and end it if that was all. Its error ends it alone."""
        before = live.request.output_length
        try:
            ending = move()
        except SgnbError as error:
            ending = Ending("error", error=error)
        except Exception as error:
            failure = EngineError(f"the request failed: {type(error).__name__}: {error}", _cure(error))
            failure.__cause__ = error
            ending = Ending("error", error=failure)
        for jump in live.take_jumps():
            self._name(jump.tokens)
            self._log.emit(jump)
            self.counts["jumps"] += 1
            self.counts["jumped_tokens"] += len(jump.tokens) - jump.dropped
        self.counts["output_tokens"] += live.request.output_length - before
        self._scheduler.settle(live.request)
        if ending is not None:
            self._end(live, ending)

    def _accept(self, live: Live) -> None:
        request = live.request
        self._live[request.id] = live
        self._name(request.tokens.tolist())
        prompt = tuple(request.tokens.tolist())
        self._log.emit(RequestQueued(request.id, live.run, live.branch, live.name, live.purpose, prompt))
        self.counts["requests"] += 1
        if live.grammar is None:
            self._scheduler.add(request)
        else:
            live.grammar.add_done_callback(lambda _: self._send_quietly(lambda: self._begin(live)))

    def _begin(self, live: Live) -> None:
        """The request's grammar is compiled, or failed: the request may start."""
        request, grammar = live.request, live.grammar
        if request.id not in self._live or grammar is None:
            return
        if grammar.exception() is None:
            compiled = grammar.result().compiled
            states = len(compiled.automaton.table) if compiled.automaton is not None else 0
            seconds = round(compiled.seconds, 6)
            self._log.emit(GrammarReady(request.id, compiled.spec.kind, states, seconds, compiled.from_cache))
        self._go_on(live, partial(live.begin, self._jump_forward))
        if request.id in self._live:
            self._scheduler.add(request)

    def _end(self, live: Live, ending: Ending) -> None:
        """Take the request out of the engine, tell the log, and hand its output over."""
        request = live.request
        self._scheduler.finish(request)
        cached, output = request.cached_tokens or 0, request.output_length
        self.counts["finished"] += 1
        self.counts["prompt_tokens"] += request.prompt_length
        self.counts["cached_tokens"] += cached
        message = str(ending.error or "")
        self._log.emit(RequestFinished(request.id, ending.reason or "", request.prompt_length, cached, output, message))
        live.finish(ending)
        del self._live[request.id]

    def _fail(self, chunks: list[Chunk], error: Exception) -> None:
        """A forward pass failed: its requests end with the error, the others and the cache live on."""
        # The frames hold the step's tensors, and whoever keeps the error would keep those too.
        traceback.clear_frames(error.__traceback__)
        for chunk in chunks:
            failure = EngineError(f"the forward pass failed: {type(error).__name__}: {error}", _cure(error))
            failure.__cause__ = error
            self._end(self._live[chunk.request.id], Ending("error", error=failure))

    def _record(self, chunks: list[Chunk], choices: Choices, seconds: float) -> None:
        scheduler = self._scheduler
        self.counts["steps"] += 1
        self.counts["computed_tokens"] += sum(c.length for c in chunks)
        self.busy_seconds += seconds
        self._name(s.token for s in choices.sampled)
        extended = tuple(Extended(c.request.id, c.start, c.length) for c in chunks)
        self._log.emit(
            StepRan(
                scheduler.step,
                round(seconds, 6),
                extended,
                tuple(choices.sampled),
                len(scheduler.waiting),
                len(scheduler.running),
                scheduler.pool.free,
                scheduler.tree.size,
                scheduler.in_flight,
                tuple(choices.masked),
            )
        )

    def _name(self, tokens: Iterable[int]) -> None:
        new = sorted(set(tokens) - self._named)
        if new:
            self._named.update(new)
            pieces = (self._tokenizer.piece(t) if self._tokenizer else b"<%d>" % t for t in new)
            self._log.emit(TokensNamed(tuple(new), tuple(p.decode("latin-1") for p in pieces)))

    def _stop(self) -> None:
        self._closing = True

    def _end_everything(self) -> None:
        """The thread ends: whatever still waits for it is told so, and no error of one keeps the others waiting."""
        while not self._commands.empty():
            with suppress(Exception):
                self._commands.get()()
        for live in self._live.values():
            with suppress(Exception):
                live.finish(
                    Ending("error" if self.failure else "abort", error=closed_error(self.failure)),
                    read=not self.failure,
                )
        self._live.clear()


def closed_error(failure: BaseException | None) -> EngineError:
    """Why the engine takes no more requests."""
    if failure is None:
        return EngineError("the engine is closed", "make a new Engine, or `%sglang load` the model again")
    error = EngineError(
        f"the engine ended on {type(failure).__name__}: {failure}",
        "`%sglang load` the model again, or make a new Engine",
    )
    error.__cause__ = failure
    return error


def _aborted() -> Aborted:
    return Aborted("the request was stopped before it finished", "what it had produced is kept, and its cache too")


def _cure(error: Exception) -> str:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return "load the model with a smaller max_step_tokens or max_total_tokens"
    return "the engine goes on; other requests are not affected"
