"""Progress messages of a load. Knows no display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def announced_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass each `announce` on this thread to `listener` inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(what: str) -> None:
    """Announce a announce of the load; `what` is a phrase like "reading weights"."""
    if listener := _listener.get():
        listener(what)
