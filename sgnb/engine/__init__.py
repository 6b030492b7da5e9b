"""The engine: runs a decoder in this process with a radix-tree KV cache. Knows no programs, no
notebooks, no views.

`Engine` is looked up when first used: the radix tree and the scheduler need no torch.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_HOME = {"Engine": "engine", "Output": "request.output"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _no_collection():
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage collection takes a quarter of the time in which transformers is imported, and finds
    nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
