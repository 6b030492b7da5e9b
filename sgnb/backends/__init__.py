"""Executors of programs. Knows the engine and the language; neither knows the other package.
Imports are lazy: a model behind an API needs no torch."""

from importlib import import_module
from typing import Any

_HOME = {"LocalExecutor": "local", "executor_of": "local"}

__all__ = ["LocalExecutor", "executor_of"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value
