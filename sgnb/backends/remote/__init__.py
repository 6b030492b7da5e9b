"""An engine in another process: a host serves an `Engine` over a socket, and `RemoteEngine` takes
the engine's place below `LocalExecutor` in each notebook. Nothing is imported before the first
use."""

from importlib import import_module
from typing import Any

_HOME = {
    "EngineHost": "engine_host",
    "RemoteEngine": "remote_engine",
    "find_hosts": "registry",
    "open_shared": "lifetime",
    "start_child": "lifetime",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
