"""HTTP transport of all services: clients, their failures, and removal of keys."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from ...errors import OptionError, ServiceError, SgnbError
from .client_guard import Refusal, guard_class, guard_libraries, guarded

MAX_QUOTE = 300
"""Maximum number of quoted characters of a service's message."""

MAX_MESSAGE = 2**20
"""Maximum number of characters of a service's message searched for secrets."""

HIDDEN = "…"

MIN_KEY = 16
"""Characters of a key to hide in responses. Shorter keys may be words, for example "EMPTY"."""

MAX_DEPTH = 12
"""Levels of a cleaned value; deeper parts are left out."""


class Failure(Exception):
    """A failed request. `reason` is the two-word label in the usage table."""

    def __init__(
        self, reason: str, error: SgnbError, is_transient: bool, wait: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.error = reason, error
        self.is_transient = is_transient  # a retry may succeed
        self.wait = wait  # retry delay in seconds, if specified by the service


class IncompleteResponse(Exception):
    """A stream without a finish reason."""


class Secrets:
    """Texts to remove from messages. Texts with the form of a key are removed from responses too,
    because a service may quote the key of a request."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted({text for text in texts if text}, key=len, reverse=True)
        self._keys = [text for text in self._texts if _is_key(text)]
        self._pattern = re.compile("|".join(map(re.escape, self._texts)), re.IGNORECASE)

    def hide(self, text: str) -> str:
        """Return a short text, such as a message, without secrets."""
        return self._pattern.sub(HIDDEN, text) if self._texts else text

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Return a response without keys: text, JSON values, tuples and dataclasses of them."""
        if isinstance(value, str):
            for key in self._keys:
                value = value.replace(key, HIDDEN)
            return value
        if value is None or isinstance(value, int | float):
            return value
        if depth == MAX_DEPTH:
            return HIDDEN

        if isinstance(value, dict):
            cleaned = ((self.clean(k), self.clean(v, depth + 1)) for k, v in value.items())
            return dict(cleaned)
        if isinstance(value, list | tuple):
            return type(value)(self.clean(item, depth + 1) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: self.clean(getattr(value, f.name), depth + 1) for f in fields(value)}
            return replace(value, **parts)
        return value

    def safe_length(self, text: str) -> int:
        """Return the length of `text` up to a possible beginning of a key."""
        partial = (n for key in self._keys for n in range(1, len(key)) if text.endswith(key[:n]))
        return len(text) - max(partial, default=0)

    def __repr__(self) -> str:
        return f"<{len(self._texts)} secrets>"


def _is_key(text: str) -> bool:
    has_digit, has_letter = any(map(str.isdigit, text)), any(map(str.isalpha, text))
    return len(text) >= MIN_KEY and has_digit and has_letter and " " not in text


def openai_package() -> Any:
    """Import the package openai. Raises OptionError if the package is missing."""
    try:
        import openai
    except ImportError as error:
        _refuse_missing("openai", error)
    return openai


def guarded_http_client(**options: Any) -> Any:
    """Return openai's HTTP client without redirects, whatever library openai uses."""
    client = openai_package().DefaultAsyncHttpxClient(follow_redirects=False, **options)
    guard_class(type(client))
    return client


def litellm_package() -> Any:
    """Import the package litellm without its download of a price table. Raises OptionError if the
    package is missing."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        _refuse_missing("litellm", error)
    litellm.suppress_debug_info = True
    guard_libraries()
    guard_class(openai_package().DefaultAsyncHttpxClient)
    guard_class(openai_package().DefaultHttpxClient)
    return litellm


def _refuse_missing(package: str, error: ImportError) -> NoReturn:
    hint = 'pip install "sgnb[api]"'
    raise OptionError(f"this backend needs the package {package}: {error}", hint) from None


@contextmanager
def translated(service: str, secrets: Secrets) -> Iterator[None]:
    """Convert client errors to `Failure`, without chaining: the client's error holds the request
    and headers."""
    try:
        with guarded():
            yield
    except (Failure, SgnbError):
        raise
    except Exception as error:
        failure = _failure_of(error, service, secrets)
    else:
        return
    raise failure


def _failure_of(error: Exception, service: str, secrets: Secrets) -> Failure:
    """Return the failure for an error of openai, litellm or their HTTP libraries."""
    if refusal := _refusal_in(error):
        message = secrets.hide(f"the answer of {service} is refused: {refusal.message}")
        service_error = ServiceError(message, secrets.hide(refusal.hint))
        return Failure(refusal.reason, service_error, is_transient=False)

    status = getattr(error, "status_code", None)
    message = _message_of(error, secrets)
    if "Timeout" in type(error).__name__:
        return _transient("timeout", f"{service} did not answer in time")
    if "Connection" in type(error).__name__:
        cause = secrets.hide(str(error.__cause__ or error)[:MAX_MESSAGE])[:MAX_QUOTE]
        hint = "check that the server runs at this address"
        return _transient("connection", f"{service} cannot be reached: {cause}", hint)
    if isinstance(status, int) and status >= 400:
        return _failure_of_status(error, status, service, message)
    if isinstance(error, IncompleteResponse):
        return _transient("half answer", f"{service} broke off in the middle of its answer")
    if hasattr(error, "body"):  # error inside a stream
        return _transient("error", f"{service} broke off: {message}")
    if type(error).__module__.startswith(("http", "aiohttp", "ssl", "anyio")):
        return _transient("connection", f"the connection to {service} broke off: {message}")
    return _transient("bad answer", f"{service} sent an invalid answer: {message}")


def _transient(reason: str, message: str, hint: str = "", wait: float | None = None) -> Failure:
    return Failure(reason, ServiceError(message, hint), is_transient=True, wait=wait)


def _failure_of_status(error: Exception, status: int, service: str, message: str) -> Failure:
    out_of_quota = getattr(error, "code", None) == "insufficient_quota"
    if status == 429 and not out_of_quota:
        text = f"{service} wants fewer requests (429): {message}"
        hint = "use requests_per_minute=, tokens_per_minute= or max_parallel="
        return _transient("429", text, hint, _retry_delay(error))
    if status in (408, 409) or status >= 500:
        text = f"{service} failed ({status}): {message}"
        return _transient(str(status), text, wait=_retry_delay(error))

    hint = "see the message of the service"
    if status == 401:
        message = "the key is missing or wrong"
        hint = "use api_key=, or set the key in the environment"
    elif status == 403:
        hint = "check the permissions of the key for this model"
    elif status == 404:
        hint = "check the name of the model and the address"
    elif out_of_quota:
        hint = "the account has no credit left"
    text = f"{service} refused the request ({status}): {message}"
    return Failure(str(status), ServiceError(text, hint), is_transient=False)


def _retry_delay(error: Exception) -> float | None:
    """Return the service's retry delay in seconds."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = max(0.0, float(headers[name]) * scale)
            return seconds if math.isfinite(seconds) else None
        except (KeyError, ValueError):
            pass
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _message_of(error: Exception, secrets: Secrets) -> str:
    """Return the service's message in an error, without keys."""
    body: Any = getattr(error, "body", None)
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else body
    return secrets.hide(str(text or error)[:MAX_MESSAGE])[:MAX_QUOTE]


def _refusal_in(error: BaseException) -> Refusal | None:
    """Return the refusal among the causes of a client's error."""
    visited: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in visited:
        if isinstance(cause, Refusal):
            return cause
        visited.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None
