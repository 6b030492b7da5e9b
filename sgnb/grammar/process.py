"""Worker processes that lower grammars, so the GIL stays free for the threads that decode.

The first expensive grammar starts a worker. A worker runs only `serve`: neither the user's
`__main__` nor torch. A worker stays warm, and exits after `IDLE` seconds without work, or with
this interpreter. If no worker can start, grammars are lowered in this process.

Limits of counted work end every compilation, with the same verdict on every machine.
`SECONDS` and `PATIENCE` only end a worker that hangs.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import subprocess
import sys
import time
from contextlib import suppress
from queue import LifoQueue, SimpleQueue
from threading import Thread, Timer
from typing import Any

from ..errors import GrammarError
from .lowering import LoweredGrammar, lower
from .spec import GrammarSpec

SECONDS = 20.0
"""CPU seconds of a grammar after which a worker counts as hanging, 20 times the longest work."""

PATIENCE = 120.0
"""Timeout in seconds for an answer or the start of a worker; reached only on a machine that swaps
or hangs."""

IDLE = 300.0

MOST = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Maximum number of workers; half of the cores stay free for the engine."""

_OVERTIME = 75  # exit status
_LOOK = 0.05  # polling interval of the clock in seconds

_BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from sgnb.grammar.process import serve; serve()"
_FLAGS = ("CREATE_NO_WINDOW", "CREATE_NEW_PROCESS_GROUP")  # Windows only


class DiedError(GrammarError):
    """A worker ended for a reason unrelated to the grammar, such as lack of memory."""


class _Process:
    """Handle of a worker process. Used by a single thread at a time."""

    def __init__(self) -> None:
        """Start the worker and wait until the worker is ready. Raises any exception on failure."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("no interpreter to start")
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            # an interrupt of the notebook's process group must not reach the worker
            start_new_session=True,
            creationflags=sum(getattr(subprocess, name, 0) for name in _FLAGS),
        )

        try:
            self._read()
        except BaseException:
            self.end()
            raise

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def was_idle(self) -> bool:
        """True if the worker exited because of `IDLE` seconds without work."""
        return self._popen.returncode == 0

    def lower(self, spec: GrammarSpec) -> LoweredGrammar:
        """Lower `spec` in the worker. Raises GrammarError beyond `SECONDS` too, DiedError if the
        worker ends early."""
        assert self._popen.stdin is not None
        try:
            pickle.dump(spec, self._popen.stdin)
            self._popen.stdin.flush()
            answer = self._read()
        except Exception:  # a truncated pickle may raise any exception
            self.end()
            raise self._failure(spec) from None
        if isinstance(answer, GrammarError):
            raise answer
        return LoweredGrammar.from_bytes(answer)

    def _read(self) -> Any:
        """Return the next answer. Raises EOFError after `PATIENCE` seconds, because the worker is
        killed."""
        assert self._popen.stdout is not None
        timer = Timer(PATIENCE, self._popen.kill)
        timer.daemon = True
        timer.start()
        try:
            return pickle.load(self._popen.stdout)
        finally:
            timer.cancel()

    def _failure(self, spec: GrammarSpec) -> GrammarError:
        status = self._popen.returncode
        if status == _OVERTIME:
            hint = "simplify: fewer alternatives and optional parts, bounded repeats"
            outcome = f"took more than {SECONDS:g} s of processor time"
            return GrammarError(f"compiling the {spec.kind} {outcome}", hint)
        outcome = f"ended early (status {status})"
        hint = "it may have run out of memory or time: make the grammar smaller, or try again"
        return DiedError(f"the process that compiles the {spec.kind} {outcome}", hint)

    def end(self) -> None:
        """Kill the worker. Repeated calls have no effect."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            with suppress(OSError):  # unflushed data
                pipe.close()

    def forget(self) -> None:
        """Detach from the worker in a forked child: the worker belongs to the parent.

        The pipe must not stay open in the child, and locks of the file object may be held.
        """
        assert self._popen.stdin is not None
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._popen.stdin.fileno())
        os.close(nothing)
        self._popen.returncode = 0


class Processes:
    """Pool of at most `MOST` workers, started on demand. Thread-safe."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        # Started workers come first. None stands for a worker that is not started.
        self._free: LifoQueue[_Process | None] = LifoQueue()
        for _ in range(MOST):
            self._free.put(None)
        self._started: set[_Process] = set()
        self._usable = True

    def lower(self, spec: GrammarSpec) -> LoweredGrammar:
        """Lower `spec` in a free worker and wait for the result. An interrupt ends only the wait.

        Args:
            spec: constraint to lower.

        Raises:
            GrammarError: the spec is invalid, unsupported or too expensive.
            DiedError: the worker ended early.
        """
        answer: SimpleQueue[LoweredGrammar | BaseException] = SimpleQueue()

        def work() -> None:
            try:
                answer.put(self._lower(spec))
            except BaseException as error:
                answer.put(error)

        Thread(target=work, name="sgnb-grammar-process", daemon=True).start()
        result = answer.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _lower(self, spec: GrammarSpec) -> LoweredGrammar:
        process = self._free.get()
        try:
            if process is not None and process.is_alive:
                try:
                    return process.lower(spec)
                except DiedError:
                    if not process.was_idle:
                        raise
            process = self._start()
            if process is not None:
                return process.lower(spec)
        finally:
            self._free.put(process)

        return lower(spec)

    def _start(self) -> _Process | None:
        """Return a new worker, or None if workers cannot start here."""
        if self._usable:
            try:
                process = _Process()
            except Exception:
                self._usable = False
            else:
                self._started = {old for old in self._started if old.is_alive} | {process}
                return process
        return None

    def end(self) -> None:
        """Kill all workers, and start no more."""
        self._usable = False
        for process in self._started:
            process.end()

    def forget(self) -> None:
        """Detach from all workers in a forked child."""
        for process in self._started:
            process.forget()
        self._reset()


processes = Processes()
atexit.register(processes.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=processes.forget)


def serve() -> None:
    """Run a worker: lower specs from stdin and write results to stdout until the pipe closes."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps output printed by libraries out of the pipe
    clock = _Clock()
    Thread(target=clock.watch, daemon=True).start()
    answer: Any = None  # the first answer signals readiness
    gc.disable()  # a tenth of a compilation's time; cycles are collected between compilations
    gc.freeze()

    while True:
        pickle.dump(answer, answers)
        answers.flush()
        del answer
        gc.collect()
        clock.end = None, time.monotonic() + IDLE
        try:
            spec = pickle.load(questions)
        except EOFError:
            return
        clock.end = time.process_time() + SECONDS, None
        answer = _answer(spec)


def _answer(spec: GrammarSpec) -> bytes | GrammarError:
    try:
        return lower(spec).to_bytes()
    except GrammarError as error:
        return error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return GrammarError(f"the {spec.kind} cannot be compiled: {reason}")


class _Clock:
    """Ends the process at a deadline, even if the main thread is busy."""

    def __init__(self) -> None:
        # deadlines in CPU time and monotonic time
        self.end: tuple[float | None, float | None] = None, None

    def watch(self) -> None:
        while True:
            time.sleep(_LOOK)
            computed, waited = self.end
            if computed is not None and time.process_time() > computed:
                os._exit(_OVERTIME)
            if waited is not None and time.monotonic() > waited:
                os._exit(0)
