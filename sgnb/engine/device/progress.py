"""What a load does now, for whoever shows it. Knows no display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Inside, on this thread, `listener` gets each `stage` as it begins."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def stage(what: str) -> None:
    """From now on the load is `what`, such as "reading weights"."""
    if listener := _listener.get():
        listener(what)
