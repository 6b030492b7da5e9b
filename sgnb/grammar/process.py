"""Processes that lower grammars, so that Python's lock stays free for the threads that decode.

The first grammar that is not small starts one. It runs only this file's `serve`: nothing of the
user's `__main__`, no torch. It is kept warm, ends itself after `SECONDS` of computing for one
grammar or `IDLE` seconds without any, and ends with this interpreter. Where none can be started,
grammars are lowered here.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread, Timer
from typing import Any

from ..errors import GrammarError
from .lowering import Lowered, lower
from .spec import GrammarSpec

SECONDS = 1.0
"""Of processor time for one grammar: a busy machine refuses nothing that a quiet one makes."""

PATIENCE = 30.0
"""Seconds until an answer must have come, or the process begun; only a machine that swaps or
stands still needs so long."""

IDLE = 300.0

MOST = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Processes at a time; half the cores stay with the engine."""

_OVERTIME = 75  # exit status
_LOOK = 0.05  # seconds between looks at the clock

_BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from sgnb.grammar.process import serve; serve()"
_FLAGS = ("CREATE_NO_WINDOW", "CREATE_NEW_PROCESS_GROUP")  # of Windows


class DiedError(GrammarError):
    """The process ended for a reason that is not the grammar's."""


class _Process:
    """One process. For one thread at a time."""

    def __init__(self) -> None:
        """Raises an error of any kind where it cannot be."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("no interpreter to start")
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # an interrupt of the notebook's group is not for it
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
        """Whether it ended itself for want of work."""
        return self._popen.returncode == 0

    def lower(self, spec: GrammarSpec) -> Lowered:
        """As `lowering.lower`. GrammarError too for what takes longer than `SECONDS`, DiedError
        where the process ends before it answers."""
        assert self._popen.stdin is not None
        try:
            pickle.dump(spec, self._popen.stdin)
            self._popen.stdin.flush()
            answer = self._read()
        except Exception:  # half an answer may be read as anything
            self.end()
            raise self._failure(spec) from None
        if isinstance(answer, GrammarError):
            raise answer
        return Lowered.from_bytes(answer)

    def _read(self) -> Any:
        """The next answer; EOFError when it has not come in `PATIENCE` seconds."""
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
            hint = "ask for less: fewer alternatives and optional parts, bounded repeats"
            what = f"is not done after {SECONDS:g} s of computing"
            return GrammarError(f"compiling the {spec.kind} {what}", hint)
        what = f"ended before it was done (status {status})"
        hint = "it may have run out of memory or time: make the grammar smaller, or try again"
        return DiedError(f"the process that compiles the {spec.kind} {what}", hint)

    def end(self) -> None:
        """At once. Harmless when repeated."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not flushed
                pipe.close()

    def forget(self) -> None:
        """In a fork: leave it to the parent. Its pipe must not stay open here, and its locks may be
        taken."""
        assert self._popen.stdin is not None
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._popen.stdin.fileno())
        os.close(nothing)
        self._popen.returncode = 0


class Processes:
    """At most `MOST`, started when needed. For any thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._free: SimpleQueue[_Process | None] = SimpleQueue()  # None: not started
        for _ in range(MOST):
            self._free.put(None)
        self._started: set[_Process] = set()
        self._usable = True

    def lower(self, spec: GrammarSpec) -> Lowered:
        """As `lowering.lower`; waits for a process. An interrupt ends only the wait."""
        answer: SimpleQueue[Lowered | BaseException] = SimpleQueue()

        def work() -> None:
            try:
                answer.put(self._lower(spec))
            except BaseException as error:
                answer.put(error)

        Thread(target=work, name="sgnb-grammar-process", daemon=True).start()
        found = answer.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _lower(self, spec: GrammarSpec) -> Lowered:
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
        """None where it cannot be."""
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
        """End all, and start no more."""
        self._usable = False
        for process in self._started:
            process.end()

    def forget(self) -> None:
        """In a fork."""
        for process in self._started:
            process.forget()
        self._reset()


processes = Processes()
atexit.register(processes.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=processes.forget)


def serve() -> None:
    """In the process: lower what is asked for, until the pipe is closed."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    clock = _Clock()
    Thread(target=clock.watch, daemon=True).start()
    answer: Any = None  # the first says that it has begun
    while True:
        pickle.dump(answer, answers)
        answers.flush()
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
    """Ends the process when a time is reached, whatever its main thread does."""

    def __init__(self) -> None:
        self.end: tuple[float | None, float | None] = None, None  # processor, monotonic

    def watch(self) -> None:
        while True:
            time.sleep(_LOOK)
            computed, waited = self.end
            if computed is not None and time.process_time() > computed:
                os._exit(_OVERTIME)
            if waited is not None and time.monotonic() > waited:
                os._exit(0)
