"""Host of an engine: accepts clients on a socket and serves each client on two threads."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from threading import Timer

from ...engine import Engine
from ...errors import EngineError
from .client_session import ClientSession
from .prefix_exchange import transports_by_name
from .prefix_transport import PrefixTransport
from .wire import Connection, EngineFacts, Hello, Reply, Welcome, failure_of, greet_client, proof

GREETING_SECONDS = 10.0
"""Time in which a client must prove the token."""

MAX_CLIENTS = 64

MAX_GREETINGS = 64
"""Maximum number of connections that have not proved the token; further connections wait."""

ACCEPT_PAUSE = 1.0
"""Seconds until the next attempt after a failed `accept`, for example without free descriptors."""

_log = logging.getLogger(__name__)


class EngineHost:
    """Serves an engine to clients until `close`. The engine stays open.

    Args:
        engine: The engine.
        listener: Listening socket; `close` closes the socket.
        token: Secret of the clients.
        source: Model for the client's tokenizer: a folder or a hub id.
        transports: Transports of prefixes, besides shared memory and CUDA IPC.
    """

    def __init__(
        self,
        engine: Engine,
        listener: socket.socket,
        token: str,
        source: str,
        transports: Sequence[PrefixTransport] = (),
    ) -> None:
        if not token:
            raise EngineError("an engine host needs a token", "give secrets.token_hex()")
        self.engine = engine
        engine.share_fairly()
        self.token = token
        self._listener, self._source = listener, source
        self._transports = transports_by_name(*transports)
        self._numbers = itertools.count(1)
        self._sessions: set[ClientSession] = set()
        self._guard = threading.Lock()
        self._greetings = threading.BoundedSemaphore(MAX_GREETINGS)
        self._calls = ThreadPoolExecutor(4, "sgnb-host-calls")
        self._closed = False
        self.idle_since: float | None = time.monotonic()
        """Time since which no client is connected; None with a client."""
        threading.Thread(target=self._accept, name="sgnb-host", daemon=True).start()

    @property
    def num_clients(self) -> int:
        return len(self._sessions)

    def close(self) -> None:
        """End all connections. Idempotent."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self._calls.shutdown(wait=False)

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if not self._closed:
                    _log.warning("no client can connect: %s", error)
                    time.sleep(ACCEPT_PAUSE)
                continue
            self._greetings.acquire()
            serve = threading.Thread(
                target=self._serve, args=(sock,), name="sgnb-host-reader", daemon=True
            )
            serve.start()

    def _serve(self, sock: socket.socket) -> None:
        """Greet a client and read its messages until the end of the connection."""
        number = next(self._numbers)
        connection = Connection(sock, f"client {number}")
        session = None
        try:
            hello = self._greet(connection)
            session = self._open(connection, number)
            self._welcome(connection, number, hello)
            session.start()
        except (OSError, EOFError, EngineError) as error:
            _log.warning("client %d was refused: %s", number, error)
            with suppress(OSError):
                connection.send_now(Reply(0, None, failure_of(error)))
            connection.close()
        else:
            session.read()
        finally:
            if session is not None:
                self._end(session)

    def _greet(self, connection: Connection) -> Hello:
        """Check the token, in a limited time: a client that sends single bytes is cut off."""
        end = Timer(GREETING_SECONDS, connection.close)
        end.daemon = True
        end.start()
        try:
            return greet_client(connection, self.token)
        finally:
            end.cancel()
            self._greetings.release()

    def _open(self, connection: Connection, number: int) -> ClientSession:
        with self._guard:
            if self._closed or len(self._sessions) >= MAX_CLIENTS:
                raise EngineError(
                    f"the engine host serves at most {MAX_CLIENTS} clients", "detach another one"
                )
            session = ClientSession(self.engine, connection, number, self._calls, self._transports)
            self._sessions.add(session)
            self.idle_since = None
        return session

    def _welcome(self, connection: Connection, number: int, hello: Hello) -> None:
        facts = engine_facts(self.engine, self._source)
        own_proof = proof(self.token, hello.nonce, "host")
        connection.settimeout(GREETING_SECONDS)
        connection.send_now(Welcome(own_proof, number, time.perf_counter(), facts))
        connection.settimeout(None)

    def _end(self, session: ClientSession) -> None:
        session.close()
        with self._guard:
            self._sessions.discard(session)
            if not self._sessions:
                self.idle_since = time.monotonic()


def engine_facts(engine: Engine, source: str) -> EngineFacts:
    """Return the facts of an engine. source: see `EngineHost`."""
    names = (
        "model_name", "device", "dtype", "vocab_size", "context_length", "shared_prefix",
        "pool_tokens", "token_bytes", "state_bytes", "attention", "eos_token_ids", "modalities",
        "refused_modalities",
    )  # fmt: skip
    return EngineFacts(
        **{name: getattr(engine, name) for name in names},
        source=source,
        options=asdict(engine.options),
        states=engine.stats().get("states", 0),
        has_tokenizer=engine.tokenizer is not None,
    )
