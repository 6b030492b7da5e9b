"""Rate limits, parallelism and retries of requests to a service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ...errors import OptionError, ServiceError, shown
from .transport import Failure

FIRST_WAIT, MAX_WAIT = 0.5, 60.0
"""Seconds before the second try, and the maximum delay before any try."""

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Options of every backend in this package."""

    max_parallel: int = 16  # concurrent requests
    tries: int = 5  # per request, including the first
    timeout: float = 600.0  # seconds per try
    format_tries: int = 3  # requests for a text in a format that the service does not enforce
    requests_per_minute: float | None = None
    # Prompt tokens (4 characters each) plus the maximum number of new tokens.
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_parallel", "tries", "format_tries"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise OptionError(f"{name}={shown(value)} is not allowed", "give 1 or more")
        for name in ("timeout", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise OptionError(f"{name}={shown(value)} is not allowed", "give more than 0")

    @classmethod
    def split(cls, options: dict[str, Any]) -> tuple[Limits, dict[str, Any]]:
        """Split `options` into limits and remaining options."""
        names = {f.name for f in fields(cls)}
        limits = {name: value for name, value in options.items() if name in names}
        return cls(**limits), {name: v for name, v in options.items() if name not in names}


class Pace:
    """Rate limiter: each caller waits for the time share of earlier callers. Allows a burst of a
    tenth of the amount per minute."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = 0.0 if per_minute is None else 60.0 / per_minute  # per unit
        self._free_at = 0.0

    async def wait(self, amount: float) -> None:
        if not self._seconds:
            return
        now = asyncio.get_running_loop().time()
        begin = max(self._free_at, now - 6.0)
        self._free_at = begin + amount * self._seconds
        await asyncio.sleep(max(0.0, begin - now))


class RequestAdmission:
    """Admission of requests to a service according to `Limits`. Bound to one event loop."""

    def __init__(self, limits: Limits, service: str) -> None:
        self.limits, self._service = limits, service
        self._slots = asyncio.Semaphore(limits.max_parallel)
        self._requests = Pace(limits.requests_per_minute)
        self._tokens = Pace(limits.tokens_per_minute)

    async def send(
        self,
        request: Callable[[], Awaitable[T]],
        tokens: float,
        on_failure: Callable[[Failure, bool], None],
    ) -> T:
        """Return the result of `request`, estimated at `tokens` tokens.

        A transient `Failure` leads to a retry with exponential backoff and jitter, or after the
        service's delay. The last failure propagates. `on_failure(failure, retries)` is called for
        each failure.
        """
        for attempt in range(1, self.limits.tries + 1):
            await self._requests.wait(1)
            await self._tokens.wait(tokens)
            try:
                async with self._slots, asyncio.timeout(self.limits.timeout):
                    return await request()
            except TimeoutError:
                failure = _timed_out(self._service, self.limits.timeout)
            except Failure as error:
                failure = error

            retries = failure.is_transient and attempt < self.limits.tries
            on_failure(failure, retries)
            if not retries:
                raise _final(failure, attempt)
            await asyncio.sleep(_pause(attempt, failure.wait))
        raise AssertionError("the last try returns or raises")


def _pause(attempt: int, delay: float | None) -> float:
    """Return the seconds before the next try. `delay`: from the service."""
    if delay is not None:
        return min(delay, MAX_WAIT) * random.uniform(1.0, 1.1)
    return min(MAX_WAIT, FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.5)


def _timed_out(service: str, seconds: float) -> Failure:
    message = f"{service} did not answer within {seconds:g} s"
    return Failure("timeout", ServiceError(message, "use a larger timeout="), is_transient=True)


def _final(failure: Failure, tries: int) -> Exception:
    error = failure.error
    if tries > 1 and isinstance(error, ServiceError):
        return type(error)(f"{error.message} ({tries} tries)", error.hint)
    return error
