"""Who executes programs. Knows the engine and the language; neither knows the other."""

from .local import LocalExecutor

__all__ = ["LocalExecutor"]
