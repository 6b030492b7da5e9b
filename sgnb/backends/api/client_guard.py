"""Guards of HTTP clients: no redirect, no compression, and responses within limits.

litellm makes and caches clients itself, without a seam for their options, and openai changed from
httpx to httpx2. The guard therefore wraps the `send` method of client classes instead of relying
on options of clients. Outside of `guarded` the wrappers change nothing.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from ...grammar.schema.strict_json import MAX_COMMAS, MAX_CONTAINERS

MAX_DOCUMENT = 8 * 2**20
"""Bytes of one JSON document: a whole response, or an event of a stream."""

MAX_STREAM = 64 * 2**20
MAX_ERROR = 2**16

_LIBRARIES = ("httpx", "httpx2")
"""Libraries with httpx's interface that openai and litellm use."""

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_IS_GUARD = "_is_sgnb_guard"
_guarded: ContextVar[bool] = ContextVar("sgnb_guarded", default=False)


class Refusal(Exception):
    """A response beyond the limits. `reason` is the two-word label in the usage table."""

    def __init__(self, reason: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.reason, self.message, self.hint = reason, message, hint


@contextmanager
def guarded() -> Iterator[None]:
    """Guard the requests of the current task: no redirect, no compression, bounded responses."""
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


@cache
def guard_libraries() -> None:
    """Guard the clients of every installed HTTP library that litellm may choose."""
    for name in _LIBRARIES:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        guard_class(library.AsyncClient)
        guard_class(library.Client)
    _guard_aiohttp()


def guard_class(client_class: Any) -> None:
    """Guard all clients of a class with httpx's interface, whatever the library.

    Raises:
        TypeError: The class has another interface.
    """
    original = getattr(client_class, "send", None)
    if not callable(original):
        raise TypeError(f"{client_class.__name__} has no method send")
    if not hasattr(original, _IS_GUARD):
        is_async = inspect.iscoroutinefunction(original)
        wrapper = _guarded_async_send(original) if is_async else _guarded_send(original)
        owner = next(base for base in client_class.__mro__ if "send" in vars(base))
        setattr(wrapper, _IS_GUARD, True)
        owner.send = wrapper


def _guarded_async_send(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def send(self: Any, request: Any, *, stream: bool = False, **options: Any) -> Any:
        if not _guarded.get():
            return await original(self, request, stream=stream, **options)
        request.headers["Accept-Encoding"] = "identity"
        options["follow_redirects"] = False

        response = await original(self, request, stream=True, **options)
        try:
            _check_heads(response)
            response.stream = _bounded_stream(response)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response

    return send


def _guarded_send(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def send(self: Any, request: Any, *, stream: bool = False, **options: Any) -> Any:
        if not _guarded.get():
            return original(self, request, stream=stream, **options)
        request.headers["Accept-Encoding"] = "identity"
        options["follow_redirects"] = False

        response = original(self, request, stream=True, **options)
        try:
            _check_heads(response)
            response.stream = _bounded_stream(response)
            if not stream:
                response.read()
        except BaseException:
            response.close()
            raise
        return response

    return send


def _guard_aiohttp() -> None:
    """Guard sessions of aiohttp, which litellm uses for some services without httpx. Bodies are not
    bounded."""
    try:
        from aiohttp import ClientSession
        from multidict import CIMultiDict
    except ImportError:
        return
    session_class: Any = ClientSession
    original = session_class._request

    @wraps(original)
    async def request(self: Any, method: str, url: Any, **options: Any) -> Any:
        if not _guarded.get():
            return await original(self, method, url, **options)
        headers = CIMultiDict(options.get("headers") or ())
        headers["Accept-Encoding"] = "identity"
        options |= {"headers": headers, "allow_redirects": False}

        response = await original(self, method, url, **options)
        try:
            check_head(str(response.url), response.status, response.headers)
        except BaseException:
            response.close()
            raise
        return response

    session_class._request = request


def _check_heads(response: Any) -> None:
    """Check a response and its history: a client may have ignored `follow_redirects`."""
    for past in (*response.history, response):
        check_head(str(past.url), past.status_code, past.headers)


def _bounded_stream(response: Any) -> Any:
    root = type(response).__mro__[-2]  # `Response` of the library
    library: Any = sys.modules[root.__module__.partition(".")[0]]
    inner = response.stream
    size = ResponseSize(response.status_code, response.headers)

    class Stream(library.AsyncByteStream, library.SyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in inner:
                size.add(chunk)
                yield chunk

        def __iter__(self) -> Iterator[bytes]:
            for chunk in inner:
                size.add(chunk)
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

        def close(self) -> None:
            inner.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)  # httpx2 reads `elapsed` here

    return Stream()


def check_head(url: str, status: int, headers: Any) -> None:
    """Raise Refusal for a redirect and for a compressed response."""
    if 300 <= status < 400 and "location" in headers:
        host, other = host_of(url), host_of(urljoin(url, headers["location"]))
        message = f"{host} redirects the request to {other}, and redirects are not followed"
        hint = f"if you trust {other}, use its address"
        raise Refusal("redirect", message, hint)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        message = f"{host_of(url)} sent a compressed answer ({encoding:.20})"
        raise Refusal("compression", message, "turn off the compression of the server")


def host_of(url: str) -> str:
    """Return the host and the port of an address, for messages."""
    try:
        return (urlsplit(url).netloc.rpartition("@")[2] or "no host")[:100]
    except ValueError:
        return "an invalid address"


class ResponseSize:
    """Size of a response so far. `add` raises Refusal beyond the limits."""

    def __init__(self, status: int, headers: Any) -> None:
        self._streams = "text/event-stream" in headers.get("content-type", "")
        self._limit = MAX_ERROR if status >= 400 else MAX_STREAM if self._streams else MAX_DOCUMENT
        self._total = self._document = self._containers = self._commas = 0
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        """Count a chunk of the response."""
        self._total += len(chunk)
        joined = self._tail + chunk  # chunks may split the end of an event
        self._tail = joined[-3:]
        if self._streams and (end := max(map(joined.rfind, _EVENT_ENDS))) >= 0:
            self._document = self._containers = self._commas = 0  # chunks are some 100 KB at most
            chunk = joined[end:]
        self._document += len(chunk)
        self._containers += chunk.count(b"[") + chunk.count(b"{")
        self._commas += chunk.count(b",")

        if self._total > self._limit:
            self._refuse(f"{self._limit:,} bytes")
        if self._document > MAX_DOCUMENT:
            self._refuse(f"{MAX_DOCUMENT:,} bytes")
        if self._containers > MAX_CONTAINERS or self._commas > MAX_COMMAS:
            self._refuse(f"{MAX_CONTAINERS:,} arrays and objects, or {MAX_COMMAS:,} commas")

    def _refuse(self, limit: str) -> NoReturn:
        hint = "ask for fewer tokens, samples or log-probabilities, or use stream=True"
        raise Refusal("too large", f"its answer has more than {limit}", hint)
