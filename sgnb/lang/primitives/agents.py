"""The loop of an agent: generate, run the tools that the model calls, append what they return,
until it answers in text."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Literal, get_args

from ...errors import OptionError, ProgramError, nearest, shown
from ...sampling import scalar
from ..chat.tools import ON_ERROR, OnError, ToolCall, as_tools
from ..core.async_state import AsyncProgramState
from ..core.state import ProgramState
from ..location import Location, caller
from .expressions import assistant, gen, raw, tool, user

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
    """Let the model call `tools` until it answers; its answer, which also becomes the variable
    `name`. In an `async def` program it is awaited, and tools may be `async def` too.

    The conversation so far ends with the user's turn. `use_tools(tools)` before its first turn
    tells the model of them as its own template does; without it a turn of the user's does.

    max_turns: turns of the model's at most; the variables f"{name}_0", f"{name}_1" ... are what it
    wrote in each. on_limit: when none of them is an answer, that is a ProgramError ("error"); or
    the last turn may not call, and so is one ("answer").
    on_error: what a tool raises is its result, as text for the model ("model"), or is raised here
    ("user").
    options: those of `gen`, for every turn; `tool_choice` not for one that may not call.
    """
    known = as_tools(tools)
    for key, value, allowed in (("on_error", on_error, ON_ERROR), ("on_limit", on_limit, ON_LIMIT)):
        if value not in allowed:
            raise OptionError(f"{key}={value!r} is not known", nearest(str(value), allowed))
    if not isinstance(name, str) or not name:
        message = f"{caller()}: name={shown(name)} is not a name"
        raise OptionError(message, "give a string that is not empty: the turns are named after it")
    max_turns = scalar(max_turns)
    if not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1:
        raise OptionError(f"max_turns={max_turns!r} is not allowed", "give an integer of 1 or more")
    is_async, location = isinstance(s, AsyncProgramState), caller()
    if not is_async and (waits := next((one.name for one in known if one.is_async), None)):
        message = f"{location}: the tool {waits!r} is an async def, and the program is not"
        raise ProgramError(message, "make the program an async def, and await agent(...)")

    def turns() -> Generator[Callable[[], Any], Any, str]:
        """The conversation; yields what may have to be awaited."""
        nonlocal s
        if not s._branch.scope.tools_declared:
            s._branch.scope.tools_declared = True
            s += user(raw(s.program.executor.chat.tools.describe(known)))
        numbers = (i for i in itertools.count() if f"{name}_{i}" not in s)
        for turn in range(max_turns):
            key = f"{name}_{next(numbers)}"
            if turn + 1 == max_turns and on_limit == "answer":
                s += assistant(gen(key, **{**options, "tool_choice": "auto"}))
            else:
                several = parallel_tool_calls
                s += assistant(gen(key, tools=known, parallel_tool_calls=several, **options))
            said = yield partial(s.__getitem__, key)
            if isinstance(said, str):
                s[name] = said
                return said
            calls = [said] if isinstance(said, ToolCall) else said
            results = yield partial(_run, calls, on_error, is_async, location)
            s += tool(calls, results)
        what = f"{max_turns} turns of the model were calls, and none an answer"
        hint = 'raise max_turns, or give on_limit="answer": the last turn may then not call'
        raise ProgramError(f"{location}: {what}", hint)

    return _drive_async(turns()) if is_async else _drive(turns())


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
    """The results of the calls, in their order. In an async program they run side by side, tools
    that are no `async def` on threads: the event loop waits for none."""
    if not is_async:
        return [call.run(on_error, location) for call in calls]
    return _side_by_side([_result(call, on_error, location) for call in calls])


async def _side_by_side(running: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Their results, in order. After the first error none goes on."""
    tasks = [asyncio.ensure_future(one) for one in running]
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
