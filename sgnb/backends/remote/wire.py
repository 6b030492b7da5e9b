"""Frames and messages between an engine host and a client: msgpack with typed fields, no pickle.

Both sides treat the other side's bytes as untrusted data: a frame has a maximum size, a message has
a fixed shape, and an invalid frame ends the connection with a `WireError`. Knows no engine.
"""

from __future__ import annotations

import hashlib
import hmac
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ... import errors
from ...errors import EngineError, SgnbError

VERSION = 1
"""Version of the messages. Host and client must have the same version."""

MAX_FRAME = 256 << 20
"""Maximum bytes of a frame: the largest video in memory fits."""

MAX_GREETING = 1 << 16
"""Maximum bytes of a frame before the client has proved the token."""

SAME_VERSION = "use the same version of sgnb on both sides"
"""Hint of errors for invalid data."""

_LENGTH = struct.Struct(">I")


class WireError(EngineError):
    """Invalid data from the other side of a connection, or a wrong token."""


class WireFailure(msgspec.Struct, frozen=True, array_like=True):
    """An exception as data."""

    kind: str  # name of the class
    message: str
    hint: str = ""


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """First message of the host."""

    version: int
    nonce: bytes


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Answer of the client: proof of the token, and a nonce for the host's own proof."""

    version: int
    proof: bytes
    nonce: bytes


class EngineFacts(msgspec.Struct, frozen=True):
    """Facts of an engine that a client needs; see the attributes of `Engine`."""

    model_name: str
    source: str  # model for the client's tokenizer: a folder or a hub id
    device: str
    dtype: str
    vocab_size: int
    context_length: int
    shared_prefix: int
    pool_tokens: int
    token_bytes: int
    state_bytes: int
    attention: str
    states: int
    has_tokenizer: bool
    options: dict[str, Any]
    eos_token_ids: frozenset[int]
    modalities: frozenset[str]
    refused_modalities: dict[str, str]


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """End of the greeting: the host's proof, and the facts of the engine."""

    proof: bytes
    client: int  # number of this client
    clock: float  # `time.perf_counter` of the host
    facts: EngineFacts


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A call of a method of the host. `serial` is 0 for a call without a reply."""

    serial: int
    method: str
    arguments: list[Any]


class Reply(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Result of an `Ask`."""

    serial: int
    value: Any = None
    failure: WireFailure | None = None


_encoder = msgspec.msgpack.Encoder()


def failure_of(error: BaseException) -> WireFailure:
    """Return an exception as data."""
    if isinstance(error, SgnbError):
        return WireFailure(type(error).__name__, error.message, error.hint)
    return WireFailure(type(error).__name__, str(error) or type(error).__name__)


def error_of(failure: WireFailure) -> SgnbError:
    """Return a received failure as an sgnb error. Unknown kinds become an EngineError."""
    kind = WireError if failure.kind == "WireError" else getattr(errors, failure.kind, None)
    if isinstance(kind, type) and issubclass(kind, SgnbError):
        return kind(failure.message, failure.hint)
    hint = failure.hint or "the log of the host has the traceback"
    return EngineError(f"the engine host failed: {failure.kind}: {failure.message}", hint)


class Connection:
    """A socket with frames. One thread reads; any thread sends.

    A thread of the connection writes: an interrupt in the main thread must not cut a frame.

    Args:
        sock: Connected socket; closed by `close`.
        name: Name of the other side, for errors.
    """

    def __init__(self, sock: socket.socket, name: str) -> None:
        self.name = name
        self._sock = sock
        self._closing = threading.Lock()
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with suppress(OSError):  # not a TCP socket
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def is_local(self) -> bool:
        """True if the other side runs on this machine and could open a Unix socket."""
        return self._sock.family == socket.AF_UNIX

    def start(self) -> None:
        """Start the writing thread. Until then only `send_now` sends."""
        threading.Thread(target=self._write, name="sgnb-wire", daemon=True).start()

    def send(self, message: msgspec.Struct) -> None:
        """Queue a message for the writing thread."""
        self._frames.put(_frame(message))

    def send_now(self, message: msgspec.Struct) -> None:
        """Send a message on this thread. Raises OSError if the connection is lost."""
        self._sock.sendall(_frame(message))

    def receive(self, limit: int = MAX_FRAME) -> bytes:
        """Return the next frame.

        Raises:
            EOFError: The other side closed the connection.
            WireError: The frame is larger than `limit`.
        """
        (length,) = _LENGTH.unpack(self._receive_bytes(_LENGTH.size))
        if length > limit:
            raise WireError(
                f"a frame of {length:,} bytes from {self.name} exceeds {limit:,} bytes",
                "send less data per request, or check that the other side is sgnb",
            )
        return bytes(self._receive_bytes(length))

    def settimeout(self, seconds: float | None) -> None:
        """Limit the waits for the other side; None waits without limit."""
        self._sock.settimeout(seconds)

    def close(self) -> None:
        """Close the socket, which ends both threads. Idempotent."""
        with self._closing:
            self._frames.put(None)
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()

    def _receive_bytes(self, count: int) -> bytearray:
        data = bytearray(count)
        view, filled = memoryview(data), 0
        while filled < count:
            got = self._sock.recv_into(view[filled:])
            if not got:
                raise EOFError(f"{self.name} closed the connection")
            filled += got
        return data

    def _write(self) -> None:
        while (frame := self._frames.get()) is not None:
            try:
                self._sock.sendall(frame)
            except OSError:
                return self.close()  # the reading thread reports the loss


def _frame(message: msgspec.Struct) -> bytes:
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


def decoder(kind: Any, name: str) -> Callable[[bytes], Any]:
    """Return a function that decodes frames from `name` to messages of `kind`. The function raises
    WireError for other data."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def checked(frame: bytes) -> Any:
        try:
            return decode(frame)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            message = f"invalid data from {name}: {error}"
            raise WireError(message, SAME_VERSION) from None

    return checked


def converted(value: Any, kind: Any, name: str) -> Any:
    """Return received plain data as a value of `kind`. Raises WireError for other data.

    Args:
        value: Plain data.
        kind: Type of the result.
        name: Name of the data's origin, for the error.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise WireError(f"invalid data from {name}: {error}", SAME_VERSION) from None


def proof(token: str, nonce: bytes, side: str) -> bytes:
    """Return a keyed hash that proves the token without sending the token.

    Args:
        token: Secret of the host.
        nonce: Random bytes of the other side.
        side: "host" or "client": a proof of one side is no proof of the other side.
    """
    return hmac.digest(token.encode(), nonce + side.encode(), hashlib.sha256)


def greet_client(connection: Connection, token: str) -> Hello:
    """Check the token of a client. Raises WireError for a wrong token or version."""
    nonce = secrets.token_bytes(32)
    connection.send_now(Challenge(VERSION, nonce))
    hello = decoder(Hello, connection.name)(connection.receive(MAX_GREETING))
    _check_version(hello.version, connection.name)
    _check_proof(hello.proof, proof(token, nonce, "client"), connection.name)
    return hello


def greet_host(connection: Connection, token: str) -> Welcome:
    """Prove the token to a host, and check the host's proof."""
    challenge = decoder(Challenge, connection.name)(connection.receive(MAX_GREETING))
    _check_version(challenge.version, connection.name)
    nonce = secrets.token_bytes(32)
    connection.send_now(Hello(VERSION, proof(token, challenge.nonce, "client"), nonce))
    reply = decoder(Welcome | Reply, connection.name)(connection.receive())
    if isinstance(reply, Reply):
        raise error_of(reply.failure or WireFailure("WireError", "the host refused the connection"))
    _check_proof(reply.proof, proof(token, nonce, "host"), connection.name)
    welcome: Welcome = reply
    return welcome


def _check_version(version: int, name: str) -> None:
    if version != VERSION:
        message = f"{name} speaks version {version}, and this process version {VERSION}"
        raise WireError(message, SAME_VERSION)


def _check_proof(received: bytes, expected: bytes, name: str) -> None:
    if not hmac.compare_digest(received, expected):
        raise WireError(f"the token for {name} is wrong", "use the token that the host printed")
