"""Connection of a client to an engine host: calls with replies, and received steps."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any

from ...errors import EngineError, SgnbError
from .event_wire import WireEvent
from .output_wire import WireOutput
from .step_wire import FromHost, WireStep
from .wire import Ask, Connection, Reply, WireError, converted, decoder, error_of

LOST_HINT = "a %%sglang cell loads the model again; in Python, call sgnb.load or sgnb.attach again"

OnReply = Callable[[Any, SgnbError | None], None]
"""Receives the value, or the error, of a call."""


class HostClient:
    """Calls to a host, and the thread that receives.

    Args:
        connection: Connection after the greeting.
        on_step: Receives the lost records, the events and the outputs of each step, on the
            receiving thread. An error ends the connection.
        on_end: Called on the receiving thread after the connection is lost, with the error.
        end_reason: Returns the reason of a lost connection, or "" if unknown.
    """

    def __init__(
        self,
        connection: Connection,
        on_step: Callable[[int, list[WireEvent], list[WireOutput]], None],
        on_end: Callable[[EngineError], None],
        end_reason: Callable[[], str] = str,
    ) -> None:
        self.name = connection.name
        self.failure: EngineError | None = None
        self._connection, self._on_step, self._on_end = connection, on_step, on_end
        self._end_reason = end_reason
        self._serials = itertools.count(1)
        self._waiting: dict[int, OnReply] = {}
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="sgnb-remote", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._connection.start()
        self._thread.start()

    @property
    def on_its_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, method: str, *arguments: Any, kind: Any = Any) -> Any:
        """Call a method of the host and return the result.

        On the receiving thread, for example in a finalizer, return None without waiting.

        Args:
            method: Name of the method.
            arguments: Plain data.
            kind: Type of the result.

        Raises:
            SgnbError: The host's error, or the loss of the connection.
        """
        if self.on_its_thread:
            self.tell(method, *arguments)
            return None
        replies: queue.SimpleQueue[tuple[Any, SgnbError | None]] = queue.SimpleQueue()
        self.ask(lambda *reply: replies.put(reply), method, *arguments)
        value, error = replies.get()
        if error is not None:
            raise error
        return converted(value, kind, self.name)

    def ask(self, then: OnReply, method: str, *arguments: Any) -> None:
        """Call a method of the host without waiting. `then` receives the reply on the receiving
        thread, or the loss of the connection."""
        serial = next(self._serials)
        with self._guard:
            failure = self.failure
            if failure is None:
                self._waiting[serial] = then
        if failure is not None:
            return then(None, copied(failure))
        self._connection.send(Ask(serial, method, list(arguments)))

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method of the host without a reply."""
        self._connection.send(Ask(0, method, list(arguments)))

    def close(self, error: EngineError) -> None:
        """End the connection. error: reason for later calls."""
        with self._guard:
            self.failure = self.failure or error
        self._connection.close()
        if not self.on_its_thread and self._thread.is_alive():
            self._thread.join(5.0)

    def _read(self) -> None:
        decode = decoder(FromHost, self.name)
        try:
            while True:
                self._handle(decode(self._connection.receive()))
        except (EOFError, OSError) as error:
            reason = self._end_reason() if self.failure is None else ""
            message = f"the connection to {self.name} was lost: {reason or error}"
            failure = EngineError(message, LOST_HINT)
        except EngineError as error:
            failure = error
        except Exception as error:
            failure = EngineError(f"the connection to {self.name} failed: {error!r}")
            failure.__cause__ = error

        with self._guard:
            self.failure = self.failure or failure
            waiting, self._waiting = self._waiting, {}
        self._connection.close()
        for then in waiting.values():
            then(None, copied(self.failure))
        self._on_end(self.failure)

    def _handle(self, message: Reply | WireStep) -> None:
        if isinstance(message, WireStep):
            return self._on_step(message.lost, message.events, message.outputs)
        if not message.serial:
            raise error_of(message.failure) if message.failure else WireError("an empty reply")
        with self._guard:
            then = self._waiting.pop(message.serial, None)
        if then is not None:
            error = None if message.failure is None else error_of(message.failure)
            then(message.value, error)


def copied(error: EngineError) -> EngineError:
    """Return an equal error: each caller raises an error with a traceback of its own."""
    other = type(error)(error.message, error.hint)
    other.__cause__ = error.__cause__
    return other


def host_clock_offset(clock: float, asked: float, answered: float) -> float:
    """Return the seconds to add to times of the host.

    Processes of one machine share the clock, so the offset is 0. For another machine the host's
    reading lies in the middle between `asked` and `answered` on average.
    """
    return 0.0 if asked <= clock <= answered else (asked + answered) / 2 - clock
