"""The state of an `async def` program."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from ..ir import ExpressionError
from ..location import caller
from .state import ProgramState
from .timers import limit_of


class AsyncProgramState(ProgramState):
    """State of an `async def` program. Reads return awaitables, so the event loop continues.

    Example:
        answer = await s["answer"]
    """

    __str__ = ProgramState.__repr__

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Wait as `ProgramState.wait` does; to be awaited."""
        return await self.program.waits.wait_async(self._idle, limit_of(timeout))

    def _read(self, ready: Callable[[], bool], value: Callable[[], Any]) -> Any:
        async def read() -> Any:
            await self.program.waits.wait_async(ready)
            return value()

        return _ReadCoroutine(read())


class _ReadCoroutine(Coroutine[Any, Any, Any]):
    """The coroutine of a read. Formatting the coroutine as text raises an ExpressionError."""

    def __init__(self, read: Coroutine[Any, Any, Any]) -> None:
        self._read = read

    def send(self, value: Any) -> Any:
        return self._read.send(value)

    def throw(self, *error: Any) -> Any:
        return self._read.throw(*error)

    def close(self) -> None:
        self._read.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._read.__await__()

    def __repr__(self) -> str:
        return "<a value that was not awaited>"

    def __format__(self, spec: str) -> str:
        return str(self)

    def __str__(self) -> str:
        self.close()  # no additional warning of Python
        hint = "await it there: f\"{await s['name']}\""
        raise ExpressionError(f"{caller()}: a text cannot hold {self!r}", hint)
