"""Limits of what a service may answer by HTTP, for the clients of all packages.

litellm makes and caches clients itself, without a seam for their options. `install` therefore
wraps `httpx.AsyncClient.send`; outside of `guarded` the wrapper changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any
from urllib.parse import urljoin, urlsplit

from ...grammar.schema.strict_json import MAX_COMMAS, MAX_CONTAINERS

MAX_DOCUMENT = 8 * 2**20
"""Bytes of one JSON document: a whole answer, or an event of a stream."""

MAX_STREAM = 64 * 2**20
MAX_ERROR = 2**16

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_guarded: ContextVar[bool] = ContextVar("sgnb_guarded", default=False)


class Refusal(Exception):
    """A refused answer. reason: two words for the usage table."""

    def __init__(self, reason: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.reason, self.message, self.hint = reason, message, hint


@contextmanager
def guarded() -> Iterator[None]:
    """Guard the requests of the current task: no redirect, no compression, bounded answers."""
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


@cache
def install() -> None:
    """Wrap `httpx.AsyncClient.send`, once."""
    import httpx

    original = httpx.AsyncClient.send

    @wraps(original)
    async def send(
        self: httpx.AsyncClient, request: httpx.Request, *, stream: bool = False, **options: Any
    ) -> httpx.Response:
        if not _guarded.get():
            return await original(self, request, stream=stream, **options)
        request.headers["Accept-Encoding"] = "identity"
        options["follow_redirects"] = False
        response = await original(self, request, stream=True, **options)
        try:
            check_head(str(request.url), response.status_code, response.headers)
            response.stream = _bounded_stream(response)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response

    httpx.AsyncClient.send = send  # type: ignore[method-assign]


def _bounded_stream(response: Any) -> Any:
    import httpx

    class Stream(httpx.AsyncByteStream):
        def __init__(self) -> None:
            self._inner, self._body = response.stream, Body(response.status_code, response.headers)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._inner:
                self._body.add(chunk)
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Stream()


def check_head(url: str, status: int, headers: Any) -> None:
    """Raise Refusal for a redirect and for a compressed answer."""
    if 300 <= status < 400 and "location" in headers:
        host, other = host_of(url), host_of(urljoin(url, headers["location"]))
        message = f"{host} redirects the request to {other}, and redirects are not followed"
        hint = f"if you trust {other}, give its address instead"
        raise Refusal("redirect", message, hint)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        message = f"{host_of(url)} compressed its answer ({encoding:.20}), and was asked not to"
        raise Refusal("compression", message, "turn the compression of the server off")


def host_of(url: str) -> str:
    """Return the host and the port of an address, for messages."""
    try:
        return (urlsplit(url).netloc.rpartition("@")[2] or "no host")[:100]
    except ValueError:
        return "an invalid address"


class Body:
    """The bytes of an answer so far. `add` raises Refusal beyond the limits."""

    def __init__(self, status: int, headers: Any) -> None:
        self._streams = "text/event-stream" in headers.get("content-type", "")
        self._most = MAX_ERROR if status >= 400 else MAX_STREAM if self._streams else MAX_DOCUMENT
        self._total = self._document = self._containers = self._commas = 0
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        joined = self._tail + chunk  # chunks may split the end of an event
        self._tail = joined[-3:]
        if self._streams and (end := max(map(joined.rfind, _ENDS))) >= 0:
            self._document = self._containers = self._commas = 0  # chunks are some 100 KB at most
            chunk = joined[end:]
        self._document += len(chunk)
        self._containers += chunk.count(b"[") + chunk.count(b"{")
        self._commas += chunk.count(b",")
        if self._total > self._most or self._document > MAX_DOCUMENT:
            most = min(self._most, MAX_DOCUMENT if self._total <= self._most else self._most)
            self._refuse(f"{most:,} bytes")
        if self._containers > MAX_CONTAINERS or self._commas > MAX_COMMAS:
            self._refuse(f"{MAX_CONTAINERS:,} arrays and objects, or {MAX_COMMAS:,} commas")

    def _refuse(self, most: str) -> None:
        hint = "ask for fewer tokens, samples or log-probabilities, or use stream=True"
        raise Refusal("too large", f"its answer has more than {most}", hint)
