"""Prefixes as descriptions: a client moves a cached prefix from one host to another without the
keys and values on a socket."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from ...engine import Engine
from ...engine.cache.handover import CachedPrefix, check_transport
from ...engine.cache.radix import Ints
from ...engine.model.fingerprint import sum_chunks
from ...errors import EngineError, RequestError
from .prefix_transport import SEND_AGAIN, CudaMemory, PrefixTransport, SharedMemory
from .wire import SAME_VERSION, WireError

MAX_PREFIXES = 16
"""Maximum number of unreleased prefixes of a client."""


class SentPrefix(msgspec.Struct, frozen=True, array_like=True):
    """Description of a prefix that another process can receive."""

    transport: str
    handle: bytes  # b"" for an empty prefix
    tokens: bytes  # int32
    unit_bytes: int
    layout: tuple[str, ...]
    checksum: bytes


PREFIX_METHODS: dict[str, Any] = {
    "export_prefix": tuple[list[int], str, str],
    "adopt_prefix": tuple[SentPrefix, str],
    "release_prefix": tuple[bytes],
}
"""Methods of `PrefixExchange` that a client calls, and the types of the arguments."""

Transports = Mapping[str, PrefixTransport]


def transports_by_name(*further: PrefixTransport) -> Transports:
    """Return the transports of sgnb and further transports by name."""
    transports: list[PrefixTransport] = [SharedMemory(), CudaMemory(), *further]
    return {transport.name: transport for transport in transports}


class SentPrefixes:
    """Sent prefixes until their release."""

    def __init__(self, transports: Transports) -> None:
        self._transports = transports
        self._names: dict[bytes, str] = {}  # transport of each handle
        self._sending = 0  # contents without a handle yet
        self._lock = threading.Lock()
        self._closed = False

    def send(self, prefix: CachedPrefix, transport: str) -> SentPrefix:
        """Make a prefix readable for other processes until `release` or `close`.

        Args:
            prefix: The prefix, in host memory or in the memory of a device.
            transport: Name of the transport.
        """
        content = prefix.content
        checksum = checksum_of(content) if len(content) else b""
        return SentPrefix(
            transport=transport,
            handle=self._send(content, transport) if len(content) else b"",
            tokens=prefix.tokens.tobytes(),
            unit_bytes=content.shape[1],
            layout=prefix.layout,
            checksum=checksum,
        )

    def _send(self, content: Tensor, transport: str) -> bytes:
        """Make a content readable, and return the handle."""
        with self._lock:
            if len(self._names) + self._sending >= MAX_PREFIXES:
                message = f"a client has at most {MAX_PREFIXES} exported prefixes"
                raise RequestError(message, "delete prefixes that were adopted")
            self._sending += 1

        try:
            handle = self._transports[transport].send(content)
            with self._lock:
                self._names[handle] = transport
                closed = self._closed
        finally:
            with self._lock:
                self._sending -= 1
        if closed:
            self.release(handle)
        return handle

    def release(self, handle: bytes) -> None:
        """Release a prefix. Ignores unknown handles."""
        with self._lock:
            transport = self._names.pop(handle, None)
        if transport is not None:
            self._transports[transport].release(handle)

    def close(self) -> None:
        """Release all prefixes, including prefixes of a `send` in progress. Idempotent."""
        with self._lock:
            self._closed = True
            handles = list(self._names)
        for handle in handles:
            self.release(handle)


def receive(sent: SentPrefix, transports: Transports, device: torch.device) -> CachedPrefix:
    """Return a prefix of another process, in memory of `device`.

    Raises:
        WireError: The description is not valid, or the content is damaged.
        EngineError: The content is no longer available.
    """
    if len(sent.tokens) % 4 or sent.unit_bytes < 0:
        raise WireError("the description of a prefix is not valid", SAME_VERSION)
    tokens: Ints = np.frombuffer(sent.tokens, np.int32)
    shape = len(tokens), sent.unit_bytes
    if not sent.handle:
        return CachedPrefix(tokens, torch.empty((0, shape[1]), dtype=torch.uint8), sent.layout)
    content = transport_of(sent.transport, transports).receive(sent.handle, shape, device)
    if content.shape != shape or checksum_of(content) != sent.checksum:
        raise WireError("the content of a prefix changed on the way", SEND_AGAIN)
    return CachedPrefix(tokens, content, sent.layout)


def checksum_of(content: Tensor) -> bytes:
    """Return a checksum that is equal on all devices. Reads the content at the speed of the
    device."""
    sums = sum_chunks(content).cpu().numpy().tobytes()
    return hashlib.blake2b(sums, digest_size=16).digest()


def transport_of(name: str, transports: Transports) -> PrefixTransport:
    """Return a transport by name. Raises OptionError for an unknown name."""
    check_transport(name, transports)
    return transports[name]


class PrefixExchange:
    """Handover of prefixes for a client of a host.

    Args:
        engine: The engine.
        transports: Transports of the host by name.
        is_local: The client runs on this machine for this user.
    """

    def __init__(self, engine: Engine, transports: Transports, is_local: bool) -> None:
        self._engine, self._transports, self._is_local = engine, transports, is_local
        self._sent = SentPrefixes(transports)
        self.release_prefix, self.close = self._sent.release, self._sent.close

    def export_prefix(self, tokens: list[int], namespace: str, transport: str) -> SentPrefix:
        """Send the cached prefix of a prompt."""
        self._check(transport)
        on_gpu = transport == "cuda" or torch.device(self._engine.device).type == "cuda"
        prefix = self._engine.export_prefix(tokens, namespace, "cuda" if on_gpu else "memory")
        return self._sent.send(prefix, transport)

    def adopt_prefix(self, sent: SentPrefix, namespace: str) -> int:
        """Receive a prefix into the cache of the engine. Returns the number of new tokens."""
        self._check(sent.transport)
        prefix = receive(sent, self._transports, torch.device(self._engine.device))
        return self._engine.adopt_prefix(prefix, namespace)

    def _check(self, transport: str) -> None:
        if transport_of(transport, self._transports).same_machine and not self._is_local:
            raise EngineError(
                f"transport {transport!r} needs an engine host on a Unix socket of this machine",
                "let the other engine compute the prefix, or give the hosts a transport between "
                "machines",
            )


class RemotePrefix:
    """A cached prefix of an engine in a host, which keeps a copy until the end of this object.

    Args:
        sent: Description of the prefix.
        transports: Transports of this process.
        release: Ends the copy of the host, by handle. Must not wait.
    """

    def __init__(
        self, sent: SentPrefix, transports: Transports, release: Callable[[bytes], None]
    ) -> None:
        self.sent, self._transports = sent, transports
        self.tokens: Ints = np.frombuffer(sent.tokens, np.int32)
        self.layout = sent.layout
        weakref.finalize(self, release, sent.handle).atexit = False

    @property
    def nbytes(self) -> int:
        return len(self.tokens) * self.sent.unit_bytes

    @cached_property
    def content(self) -> Tensor:
        """The content in host memory, received at the first use."""
        return receive(self.sent, self._transports, torch.device("cpu")).content
