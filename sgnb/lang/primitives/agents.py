"""Agent loop: generate, run tool calls, append the results, until the model answers in text."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Literal, get_args

from ...errors import OptionError, ProgramError, nearest, shown
from ...sampling import integer, read_option
from ..chat.tools import ON_ERROR, OnError, ToolCall, as_tools
from ..core.async_state import AsyncProgramState
from ..core.state import ProgramState
from ..executor import declares_tools
from ..location import Location, caller
from .expressions import gen
from .roles import assistant, raw, tool, user

OnLimit = Literal["error", "answer"]
ON_LIMIT = get_args(OnLimit)


def agent(
    s: ProgramState,
    tools: Iterable[Any],
    max_turns: int = 8,
    *,
    name: str = "answer",
    on_error: OnError = "model",
    on_limit: OnLimit = "error",
    parallel_tool_calls: bool = True,
    **options: Any,
) -> Any:
    """Run an agent loop: the model calls `tools` until the model answers in text.

    The conversation must end with a user turn. Append `use_tools(tools)` before the first turn to
    declare the tools with the model's own chat template; otherwise `agent` declares the tools in a
    user turn. A chat service receives the tools as an argument of each request.

    Args:
        s: State of the program.
        tools: Functions or `Tool` objects. An `async def` program may use `async def` tools.
        max_turns: Maximum number of model turns, 1 or more. The texts of the turns are the
            variables f"{name}_0", f"{name}_1", and so on.
        name: Variable that receives the answer.
        on_error: "model" appends the error of a tool as the result, for the model to read; "user"
            raises the error.
        on_limit: Behavior after `max_turns` turns without an answer: "error" raises ProgramError;
            "answer" allows no calls in the last turn, which becomes the answer.
        parallel_tool_calls: Allow several calls in a turn.
        **options: Arguments of `gen` for every turn. `tool_choice` does not apply to a turn without
            calls.

    Returns:
        The answer. In an `async def` program a coroutine that returns the answer.

    Raises:
        OptionError: An argument is invalid.
        ProgramError: There was no answer after `max_turns` turns, or a program that is not `async
            def` has an `async def` tool.

    Example:
        s += sgl.use_tools([search]) + sgl.user("Who wrote The Trial?")
        sgl.agent(s, [search], max_turns=4, max_tokens=200)
    """
    available = as_tools(tools)
    max_turns = _checked_turns(name, max_turns, on_error, on_limit)
    is_async, location = isinstance(s, AsyncProgramState), caller()
    async_names = [candidate.name for candidate in available if candidate.is_async]
    if async_names and not is_async:
        message = f"{location}: the tool {async_names[0]!r} is an async def, and the program is not"
        raise ProgramError(message, "make the program an async def, and await agent(...)")

    def turns() -> Generator[Callable[[], Any], Any, str]:
        """Run the turns. Yields functions whose results may have to be awaited."""
        nonlocal s
        if not s._branch.scope.tools_declared:
            s._branch.scope.tools_declared = True
            executor = s.program.executor
            if not declares_tools(executor):
                s += user(raw(executor.chat.tools.describe(available)))

        numbers = (i for i in itertools.count() if f"{name}_{i}" not in s)
        for turn in range(max_turns):
            key = f"{name}_{next(numbers)}"
            if turn + 1 == max_turns and on_limit == "answer":
                s += assistant(gen(key, **{**options, "tool_choice": "auto"}))
            else:
                several = parallel_tool_calls
                s += assistant(gen(key, tools=available, parallel_tool_calls=several, **options))
            value = yield partial(s.__getitem__, key)
            if isinstance(value, str):
                s[name] = value
                return value
            calls = [value] if isinstance(value, ToolCall) else value
            results = yield partial(_run, calls, on_error, is_async, location)
            s += tool(calls, results)
        reason = f"{max_turns} turns of the model were calls, and none an answer"
        hint = 'raise max_turns, or give on_limit="answer": the last turn may then not call'
        raise ProgramError(f"{location}: {reason}", hint)

    return _drive_async(turns()) if is_async else _drive(turns())


def _checked_turns(name: Any, max_turns: Any, on_error: Any, on_limit: Any) -> int:
    """Check arguments of `agent` and return `max_turns` as an int."""
    for key, value, allowed in (("on_error", on_error, ON_ERROR), ("on_limit", on_limit, ON_LIMIT)):
        if value not in allowed:
            raise OptionError(f"{key}={value!r} is not known", nearest(str(value), allowed))
    if not isinstance(name, str) or not name:
        message = f"{caller()}: name={shown(name)} is not a name"
        raise OptionError(message, "give a string that is not empty: the turns are named after it")
    return read_option("max_turns", max_turns, "an integer of 1 or more", integer(1))


def _drive(steps: Generator[Callable[[], Any], Any, str]) -> str:
    value = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as end:
            return str(end.value)
        value = step()


async def _drive_async(steps: Generator[Callable[[], Any], Any, str]) -> str:
    value = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as end:
            return str(end.value)
        value = await step()


def _run(
    calls: list[ToolCall], on_error: OnError, is_async: bool, location: Location
) -> list[Any] | Awaitable[list[Any]]:
    """Run the calls and return the results in order. An async program runs the calls concurrently,
    and tools that are not `async def` on threads."""
    if not is_async:
        return [call.run(on_error, location) for call in calls]
    return _side_by_side([_result(call, on_error, location) for call in calls])


async def _side_by_side(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Return the results in order. The first error cancels the other calls."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _result(call: ToolCall, on_error: OnError, location: Location) -> Any:
    if call.tool.is_async:
        return await call.run(on_error, location)
    result = await asyncio.to_thread(call.run, on_error, location)
    return await result if inspect.isawaitable(result) else result
