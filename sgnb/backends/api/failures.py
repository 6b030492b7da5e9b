"""Translation of client errors to failures. Messages never contain API keys."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from ...errors import OptionError, ServiceError, SgnbError
from .endpoint import Failure
from .guard import Refusal, guarded
from .secrets import Secrets

LONGEST_QUOTE = 300
"""Maximum number of quoted characters of a service's message."""

LONGEST_READ = 2**20
"""Maximum number of characters of a service's message searched for secrets."""


class HalfAnswer(Exception):
    """A stream ended without a finish reason."""


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
        failure = failure_of(error, service, secrets)
    else:
        return
    raise failure


def failure_of(error: Exception, service: str, secrets: Secrets) -> Failure:
    """Return the failure for an error of openai, litellm or their HTTP libraries."""
    if refusal := _refusal_in(error):
        message = secrets.hide(f"the answer of {service} is refused: {refusal.message}")
        return Failure(
            refusal.reason, ServiceError(message, secrets.hide(refusal.hint)), again=False
        )
    status = getattr(error, "status_code", None)
    said = _said(error, secrets)
    if "Timeout" in type(error).__name__:
        return _passing("timeout", f"{service} did not answer in time")
    if "Connection" in type(error).__name__:
        cause = secrets.hide(str(error.__cause__ or error)[:LONGEST_READ])[:LONGEST_QUOTE]
        hint = "is the server up, and is this its address?"
        return _passing("connection", f"{service} cannot be reached: {cause}", hint)
    if isinstance(status, int) and status >= 400:
        return _refused(error, status, service, said)
    if isinstance(error, HalfAnswer):
        return _passing("half answer", f"{service} broke off in the middle of its answer")
    if hasattr(error, "body"):  # error inside a stream
        return _passing("error", f"{service} broke off: {said}")
    if type(error).__module__.startswith(("http", "aiohttp", "ssl", "anyio")):
        return _passing("connection", f"the connection to {service} broke off: {said}")
    return _passing("bad answer", f"{service} answered with what is none: {said}")


def _passing(reason: str, message: str, hint: str = "", wait: float | None = None) -> Failure:
    return Failure(reason, ServiceError(message, hint), again=True, wait=wait)


def _refused(error: Exception, status: int, service: str, said: str) -> Failure:
    spent = getattr(error, "code", None) == "insufficient_quota"
    if status == 429 and not spent:
        hint = "requests_per_minute=, tokens_per_minute= and max_parallel= ask more slowly"
        return _passing("429", f"{service} wants fewer requests (429): {said}", hint, _wait(error))
    if status in (408, 409) or status >= 500:
        return _passing(str(status), f"{service} failed ({status}): {said}", wait=_wait(error))
    hint = "see what it says"
    if status == 401:
        said, hint = "the key is missing or wrong", "give api_key=, or set it in the environment"
    elif status == 403:
        hint = "may this key use this model, from here?"
    elif status == 404:
        hint = "is the model's name right, and the address?"
    elif spent:
        hint = "the account has no money left"
    message = f"{service} refused the request ({status}): {said}"
    return Failure(str(status), ServiceError(message, hint), again=False)


def _wait(error: Exception) -> float | None:
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


def _said(error: Exception, secrets: Secrets) -> str:
    body: Any = getattr(error, "body", None)
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else body
    return secrets.hide(str(text or error)[:LONGEST_READ])[:LONGEST_QUOTE]


def _refusal_in(error: BaseException) -> Refusal | None:
    """Return the guard's refusal among the causes of a client's error."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, Refusal):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def missing(package: str, error: ImportError) -> NoReturn:
    """Raise OptionError for a missing package."""
    hint = 'pip install "sgnb[api]"'
    raise OptionError(f"this backend needs the package {package}: {error}", hint) from None
