"""Executors of programs. Knows the engine and the language; neither knows the other package.
Imports are lazy: a model behind an API needs no torch."""

from importlib import import_module
from typing import Any

from ..lang.executor import Executor, register_engine_adapter

_HOME = {"Engine": "..engine", "LocalExecutor": ".local", "executor_of": ".local"}

__all__ = ["Engine", "LocalExecutor", "executor_of"]


def _adapt(engine: Any) -> Executor:
    executor: Executor = import_module(".local", __name__).executor_of(engine)
    return executor


register_engine_adapter(_adapt)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value
