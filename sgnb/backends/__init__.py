"""Who executes programs. Knows the engine and the language; neither knows the other."""

from .dry import DryExecutor
from .local import LocalExecutor, executor_of

__all__ = ["DryExecutor", "LocalExecutor", "executor_of"]
