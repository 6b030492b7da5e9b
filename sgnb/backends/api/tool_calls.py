"""Tool calls of a service: arguments of a request, calls of an answer, and validation.

An answer is data: names and arguments are checked against the tools' schemas and never evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from ...errors import shown
from ...grammar.schema.strict_json import InvalidAnswer, read_prefix
from ...grammar.schema.validate import validator
from ...lang.chat.tool_format import ToolFormat
from ...lang.chat.tool_turns import call_text
from ...lang.chat.tools import MAX_CALLS, Tool, ToolCall, ToolUse
from ...lang.executor import Call
from ...lang.location import warn_once
from .endpoint import CompletionRequest, Message, RawCall, Sample
from .formats import FormatMismatch
from .transport import Failure

REFUSALS = ("400", "404", "422")
"""Reasons of a `Failure` after which another form of the request may succeed."""

_TOOLS = re.compile(r"\btools?\b|tool_choice|tool-call|function call", re.IGNORECASE)


_CALL_MARKS = re.compile(
    r"<tool_calls?>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<\|tool_call|<｜tool▁call"
)
"""Beginnings of calls in the formats of models, which a parser of the service removes."""


def has_unparsed_call(text: str, tools: Sequence[Tool]) -> bool:
    """Return whether an answer without calls holds a call of a tool as text."""
    if not any(tool.name in text for tool in tools):
        return False
    if _CALL_MARKS.search(text):
        return True

    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False

    calls = content if isinstance(content, list) else [content]
    names = [tool.name for tool in tools]
    return any(
        isinstance(call, dict)
        and call.get("name") in names
        and not call.keys().isdisjoint(("arguments", "parameters"))
        for call in calls
    )


def warn_of_unparsed_call(text: str, call: Call, model: str) -> None:
    """Warn at the line of `call` if the answer `text` without calls holds a tool call."""
    tools = () if call.tool_use is None else call.tool_use.tools
    if call.location is not None and has_unparsed_call(text, tools):
        message = f"the answer of {model!r} holds a tool call as text"
        hint = "start the server with its option --tool-call-parser"
        warn_once(f"{message}: {hint}", call.location)


def refuses_tools(failure: Failure) -> bool:
    """Return whether a service refused the tools of a request, according to the message."""
    return failure.reason in REFUSALS and bool(_TOOLS.search(str(failure.error)))


def choice_of(use: ToolUse) -> str:
    """Return the tool choice of a request: "auto", "required", or the name of the only tool."""
    if use.optional:
        return "auto"
    return use.tools[0].name if len(use.tools) == 1 else "required"


def tool_arguments(request: CompletionRequest) -> dict[str, Any]:
    """Return the arguments `tools`, `tool_choice` and `parallel_tool_calls` in OpenAI's format."""
    if not request.tools:
        return {}
    choice: Any = request.tool_choice
    if choice not in ("auto", "required", "none"):
        choice = {"type": "function", "function": {"name": choice}}
    arguments = {"tools": [tool.schema for tool in request.tools], "tool_choice": choice}
    if not request.parallel_tool_calls and request.tool_choice != "none":
        arguments["parallel_tool_calls"] = False
    return arguments


def instructions(use: ToolUse | None, tools: Sequence[Tool], form: ToolFormat) -> str:
    """Return the description of the tools and of the calls that the next answer may have."""
    text = form.describe(tools)
    if use is None:
        return text
    if not use.optional:
        names = ", ".join(tool.name for tool in use.tools)
        text += f"\nThe next answer must be a call. Allowed: {names}"
    return text if use.parallel else f"{text}\nAn answer has at most one call."


def written_calls(text: str, form: ToolFormat) -> tuple[str, tuple[RawCall, ...]]:
    """Split an answer in the plain format into the text before the calls, and the calls."""
    mark = form.mark(None)
    free, opened, _ = text.partition(mark)
    if not opened:
        return text, ()

    calls: list[RawCall] = []
    separator = _blank_insensitive(form.separator or f"{form.close} {form.open}")
    position: int | None = len(free) + len(mark) - len(mark.partition("{")[2]) - mark.count("{")

    while position is not None:
        call, end = _written_call(text, position, form)
        calls.append(call)
        following = separator.match(text, end)
        position = following.end() if following and len(calls) <= MAX_CALLS else None
    return free, tuple(calls)


def _written_call(text: str, position: int, form: ToolFormat) -> tuple[RawCall, int]:
    """Return the call at `position` and the end of the call. A broken call has no name."""
    begin = text.find("{", position)
    try:
        if begin < 0 or text[position:begin].strip():
            raise InvalidAnswer("a call")
        _, length = read_prefix(text[begin:])
        content = json.loads(text[begin : begin + length])
    except (InvalidAnswer, ValueError, RecursionError):
        return RawCall("", "", text[position:]), len(text)

    name, arguments = content.get(form.name_key), content.get(form.arguments_key, {})
    call_id = content.get(form.id_key, "") if form.id_key else ""
    if not isinstance(name, str) or not isinstance(call_id, str):
        return RawCall("", "", text[begin : begin + length]), begin + length
    return RawCall(call_id, name, json.dumps(arguments, ensure_ascii=False)), begin + length


@lru_cache(maxsize=16)
def _blank_insensitive(text: str) -> re.Pattern[str]:
    return re.compile(r"\s*" + r"\s*".join(map(re.escape, text.split())))


def checked_calls(
    sample: Sample, use: ToolUse, form: ToolFormat, used_ids: Iterable[str] = ()
) -> tuple[ToolCall, ...]:
    """Return the calls of an answer, validated. Slow: checks JSON schemas.

    Args:
        sample: Answer of the service.
        use: Tools and number of calls that are allowed.
        form: Format of a call in the text of the program.
        used_ids: Ids of earlier calls in the conversation.

    Raises:
        FormatMismatch: A call is invalid, or the number of calls is not allowed.
    """
    if not sample.calls:
        if use.optional:
            return ()
        raise FormatMismatch(sample, f"a call of {_names(use.tools)}")
    if len(sample.calls) > (limit := MAX_CALLS if use.parallel else 1):
        quoted = Sample(", ".join(call.name for call in sample.calls), sample.finish)
        expected = "a single call" if limit == 1 else f"at most {limit} calls"
        raise FormatMismatch(quoted, f"{expected}: the answer has {len(sample.calls)} calls")

    taken, calls = set(used_ids), list[ToolCall]()
    for raw in sample.calls:
        tool, arguments = _checked_call(raw, sample, use)
        call_id = raw.id if raw.id and raw.id not in taken else _new_id(taken)
        taken.add(call_id)
        preceding = "" if calls else sample.text
        text = preceding + form.open + call_text(tool.name, arguments, form)
        calls.append(ToolCall(tool.name, arguments, tool, call_id, text))
    return tuple(calls)


def _checked_call(raw: RawCall, sample: Sample, use: ToolUse) -> tuple[Tool, dict[str, Any]]:
    """Return tool and arguments of a call. Raises FormatMismatch."""
    tool = next((tool for tool in use.tools if tool.name == raw.name), None)
    if tool is None:
        quoted = Sample(f"{raw.name}({raw.arguments})", sample.finish)
        raise FormatMismatch(quoted, f"a call of {_names(use.tools)}")

    text = raw.arguments if raw.arguments.strip() else "{}"  # some services omit empty arguments
    try:
        validator(_schema(tool)).check(text)
        arguments: dict[str, Any] = json.loads(text)
    except InvalidAnswer as error:
        quoted = Sample(raw.arguments, sample.finish)
        raise FormatMismatch(quoted, f"{error}, as arguments of {tool.name!r}") from None
    return tool, arguments


def _names(tools: Sequence[Tool]) -> str:
    return shown(", ".join(tool.name for tool in tools))


def _new_id(taken: set[str]) -> str:
    number = len(taken) + 1
    while (call_id := f"call_{number}") in taken:
        number += 1
    return call_id


def ids_in(turns: Sequence[Message]) -> list[str]:
    """Return the ids of the tool calls in a conversation."""
    return [call["id"] for turn in turns for call in turn.get("tool_calls", ())]


@lru_cache(maxsize=256)
def _schema(tool: Tool) -> str:
    return json.dumps(tool.parameters(), ensure_ascii=False)
