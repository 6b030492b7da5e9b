"""Thread with a queue of commands, which starts, serves and ends once."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from ...errors import EngineError
from ...home_process import HomeProcess
from .endings import closed_error

T = TypeVar("T")

Command = Callable[[], object]


class CommandThread(ABC):
    """Thread from `start` to `close`, or to a fatal error, the `failure`."""

    def __init__(self, home: HomeProcess, name: str) -> None:
        """home: process of the thread. name: of the thread."""
        self.home = home
        self.failure: BaseException | None = None
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._closing = False
        self._guard = threading.RLock()  # a finalizer may run, and abort or close, inside `_send`
        # Replaces `is_alive` and `join`: after an interrupt both report a live thread as dead
        # (Python 3.11 and 3.12).
        self._ended = False
        self._running = threading.Lock()  # held by the thread that runs the loop
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. After an error, `close` ends a partial start."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        return not (self._closing or self._ended)

    def call(self, function: Callable[[], T], at_once: bool = True) -> T:
        """Run `function` on the engine's thread between two steps and return the result.

        On the engine's thread (e.g. in a finalizer) return None, and run `function` immediately
        with `at_once`, later otherwise.
        """
        if self._on_its_thread() and at_once:
            return function()
        # Avoid a future shared by both threads: see `sgnb/latch.py`.
        results: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()

        def work() -> None:
            future: Future[T] = Future()
            try:
                future.set_result(function())
            except BaseException as error:  # raised by the future for the caller
                future.set_exception(error)
            results.put(future)

        self._send(work)
        if self._on_its_thread():
            return None  # type: ignore[return-value]
        return results.get().result()

    @property
    def end_error(self) -> EngineError | None:
        """The error of calls after the end; None before."""
        return None if self.alive else closed_error(self.failure)

    def check_open(self) -> None:
        """Raise EngineError if the engine is closed."""
        if error := self.end_error:
            raise error

    @property
    def may_wait(self) -> bool:
        """False on the engine's own thread."""
        return not self._on_its_thread()

    def check_may_wait(self) -> None:
        """Raise an EngineError on the engine's thread, and in a forked child without an engine
        thread: both would wait for ever."""
        self.home.check()
        if self._on_its_thread():
            raise EngineError(
                "generate cannot be called on the engine's own thread, for example in a finalizer",
                "call it on another thread",
            )

    def close(self) -> None:
        """End every request and the thread. Idempotent, also before `start`. A forked child closes
        only the child's copy."""
        if self.home.left:
            self._ended = True
            return
        with self._guard:
            if not self._ended:
                self._commands.put(self._begin_closing)
        if not self._on_its_thread():
            self._run()  # waits for the thread, or replaces a thread never started
            with suppress(RuntimeError):  # thread never started
                self._thread.join()

    def _on_its_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _send(self, command: Command) -> None:
        self.home.check()  # before the lock: at the fork a thread may hold the lock
        with self._guard:
            self.check_open()
            self._commands.put(command)

    def _send_quietly(self, command: Command) -> None:
        """`_send`, unless the engine is closed or in another process: no request is left."""
        with suppress(EngineError):
            self._send(command)

    def run_soon(self, command: Command) -> None:
        """Run `command` on the thread with the queued commands, or at once after the end."""
        try:
            self._send(command)
        except EngineError:
            command()

    def fail(self, error: BaseException) -> None:
        """End the thread with an error, between two steps. Call from any thread."""

        def end() -> None:
            raise error

        self._send_quietly(end)

    def _run(self) -> None:
        """Serve until the end, once; later calls wait for the end."""
        with self._running:
            if self._ended:
                return
            try:
                self._serve()
            finally:
                self._ended = True

    @abstractmethod
    def _serve(self) -> None:
        """Run queued commands until `_closing`. Store a fatal error as `failure`."""

    def _begin_closing(self) -> None:
        self._closing = True
