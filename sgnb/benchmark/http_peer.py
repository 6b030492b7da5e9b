"""Peers behind a URL: SGLang's `/generate`, or an OpenAI-compatible `/v1/completions`.

Plain HTTP with the standard library, without an API key, one thread per call. Knows no local model.
"""

from __future__ import annotations

import functools
import json
import operator
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..backends.api.client_guard import Refusal, ResponseSize, check_head
from ..backends.api.responses import count_of
from ..errors import EngineError, OptionError, shown
from ..lang.executor import Call, Delta, Result
from .peers import JSON, LENGTH, SAMPLED, STOPS, Peer

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

MAX_THREADS = 64
SECONDS = 600.0
"""Timeout of an answer in seconds."""
_SENT = ("stop", "ignore_eos", "stop_token_ids", "top_p", "top_k", "seed")


class HttpPeer(Peer):
    """Model server as a peer. One request detects the protocol of the server.

    Args:
        executor: Executor of the local engine.
        url: Address of the server, with or without a path.
    """

    package = "the endpoint"

    def __init__(self, executor: LocalExecutor, url: str) -> None:
        super().__init__(executor)
        self.url = url.rstrip("/")
        self._pool = ThreadPoolExecutor(MAX_THREADS)

    @property
    def title(self) -> str:
        is_connected = "model" in vars(self)
        return f"the endpoint with {shown(self.model)}" if is_connected else self.package

    def missing(self) -> str:
        try:
            return "" if self.model else "without a model name"
        except EngineError as error:
            return error.message

    @cached_property
    def _is_sglang(self) -> bool:
        try:
            return "model_path" in self._ask("/get_model_info", None)
        except EngineError:
            return False

    @property
    def can(self) -> frozenset[str]:  # type: ignore[override]
        parameters = LENGTH | SAMPLED | STOPS
        return parameters | JSON | {"regex", "ebnf"} if self._is_sglang else parameters - {"top_k"}

    @cached_property
    def model(self) -> str:
        """Return the name of the served model.

        Raises:
            EngineError: The server does not answer.
        """
        if self._is_sglang:
            return str(self._part(self._ask("/get_model_info", None), "model_path"))
        return str(self._part(self._ask("/v1/models", None), "data", 0, "id"))

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        """Send the call immediately, because the server does the batching.

        Args:
            call: Prompt and sampling parameters.
            sink: Receives the result.

        Returns:
            A function to cancel the call.
        """
        cancelled = threading.Event()
        self._pool.submit(self._serve_group, [(call, sink, cancelled)])
        return cancelled.set

    def answer(self, calls: Sequence[Call]) -> list[tuple[str, int]]:
        return [self._complete(call) for call in calls]

    def _complete(self, call: Call) -> tuple[str, int]:
        params = call.params
        payload = {name: v for name in _SENT if (v := getattr(params, name)) not in (None, (), -1)}
        if self._is_sglang:
            payload |= {"max_new_tokens": params.max_new_tokens, "temperature": params.temperature}
            if params.grammar is not None:
                payload[params.grammar.kind] = params.grammar.text
            payload.pop("seed", None)
            answer = self._ask("/generate", {"text": call.prompt, "sampling_params": payload})
            keys: tuple[Any, ...] = ("text",), ("meta_info", "completion_tokens")
        else:
            payload |= {"max_tokens": params.max_new_tokens, "temperature": params.temperature}
            body = {"model": self.model, "prompt": call.prompt, **payload}
            answer = self._ask("/v1/completions", body)
            keys = ("choices", 0, "text"), ("usage", "completion_tokens")

        text, count = (self._part(answer, *path) for path in keys)
        if not isinstance(text, str):
            raise EngineError(f"{self.url} answered with the text {shown(text)}")
        return text, count_of(count)

    def _part(self, answer: Any, *path: str | int) -> Any:
        """Return a part of an answer. Raises EngineError if the part is missing."""
        try:
            return functools.reduce(operator.getitem, path, answer)
        except (LookupError, TypeError):
            place = ".".join(map(str, path))
            message = f"{self.url} supports neither SGLang's protocol nor OpenAI's: no {place}"
            raise EngineError(message, "check the address") from None

    def _ask(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = self.url.removesuffix("/v1") + path
        try:
            request = urllib.request.Request(url, data, headers)
            with _OPENER.open(request, timeout=SECONDS) as answer:
                return json.loads(_body(url, answer))
        except urllib.error.HTTPError as error:
            try:
                check_head(url, error.code, error.headers)
            except Refusal as refusal:
                raise EngineError(refusal.message, refusal.hint) from None
            message = error.read(300).decode(errors="replace")
            raise EngineError(f"{url} answered {error.code}: {message}") from None
        except Refusal as refusal:
            raise EngineError(f"{url}: {refusal.message}", refusal.hint) from None
        except (OSError, ValueError, HTTPException, RecursionError) as error:
            hint = "check that the server runs, and give its address: http://localhost:30000"
            raise EngineError(f"{url} does not answer: {error}", hint) from None

    def close(self) -> None:
        self._pool.shutdown(wait=False)


def _body(url: str, answer: Any) -> bytes:
    """Read an answer within `SECONDS`. Raises Refusal beyond the limits of `guard`."""
    check_head(url, answer.status, answer.headers)
    body, chunks = ResponseSize(answer.status, answer.headers), []
    deadline = time.monotonic() + SECONDS
    while chunk := answer.read1(2**16):
        body.add(chunk)
        chunks.append(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError(f"no complete answer after {SECONDS:g} s")
    return b"".join(chunks)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Leave a redirect as an `HTTPError`."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def check_url(url: str) -> None:
    """Check the address of a server.

    Raises:
        OptionError: `url` has no host, or contains a password, a key or other secrets. Reports must
            not contain secrets.
    """
    try:
        parts = urlsplit(url)
        place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        place = False
    if not place or "@" in url or "?" in url or "#" in url or not url.isprintable() or " " in url:
        hint = "give http://HOST:PORT, without a user, a key or a query"
        raise OptionError("against an address: the address is not valid", hint)
