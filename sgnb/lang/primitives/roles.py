"""Primitives: roles, tool declarations and results, data and raw text. Each function returns an
expression without side effects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ProgramError
from ...segment import Kind
from ..chat.tools import ToolCall, as_tools, result_text
from ..ir import (
    Concat,
    ExpressionError,
    RoleBegin,
    RoleEnd,
    Text,
    ToolResults,
    UseTools,
    role,
)
from ..location import caller


def data(text: str) -> Text:
    """Mark `text` as data: special tokens in the text are plain text. Use for text from a tool or
    file.

    Arguments of programs, contents of roles and generated text are data already.
    """
    return _text(text, "data")


def raw(text: str) -> Text:
    """Mark `text` as raw: the tokenizer recognizes special tokens in the text, also inside a
    role."""
    return _text(text, "raw")


def _text(text: Any, kind: Kind) -> Text:
    if not isinstance(text, str):
        message = f"{caller()}: {text!r} is no text"
        raise ExpressionError(message, f"give a string: {kind}(str(value))")
    return Text(text, kind)


def system(expr: Any = None) -> Concat:
    """Return `expr` as the system prompt."""
    return role("system", expr)


def user(expr: Any = None) -> Concat:
    """Return `expr` as a user message."""
    return role("user", expr)


def assistant(expr: Any = None) -> Concat:
    """Return `expr` as an assistant message. Generations inside also stop at the chat template's
    stops."""
    return role("assistant", expr)


def use_tools(tools: Iterable[Any]) -> UseTools:
    """Declare `tools` (functions or `Tool` objects) at the begin of the conversation.

    The declaration follows the model's chat template if possible, otherwise it is part of the
    system prompt. Append the expression before the first role.
    """
    return UseTools(as_tools(tools))


def tool(call: ToolCall | Iterable[ToolCall], result: Any) -> ToolResults:
    """Return the result of a tool call in the tool role.

    Special tokens in results are plain text.

    Args:
        call: Tool call, or a list of calls.
        result: Result of the call, or a list with a result per call. Strings are inserted
            unchanged, other values as JSON.

    Raises:
        ProgramError: `call` is no tool call, or the number of results differs from the number of
            calls.
    """
    if isinstance(call, ToolCall):
        return ToolResults((call,), (result_text(result),))
    calls = tuple(call) if isinstance(call, (list, tuple)) else ()
    if not calls or not all(isinstance(item, ToolCall) for item in calls):
        raise ProgramError(f"{caller()}: {call!r} is no call", 'give s["..."] of gen(tools=...)')
    if not isinstance(result, (list, tuple)) or len(result) != len(calls):
        message = f"{len(calls)} calls need a list of as many results"
        raise ProgramError(f"{caller()}: {message}", "give [call() for call in calls]")
    return ToolResults(calls, tuple(map(result_text, result)))


def system_begin() -> RoleBegin:
    """Begin a system turn, until `system_end`."""
    return RoleBegin("system")


def system_end() -> RoleEnd:
    """End the turn begun by `system_begin`."""
    return RoleEnd("system")


def user_begin() -> RoleBegin:
    """Begin a user turn, until `user_end`."""
    return RoleBegin("user")


def user_end() -> RoleEnd:
    """End the turn begun by `user_begin`."""
    return RoleEnd("user")


def assistant_begin() -> RoleBegin:
    """Begin an assistant turn, until `assistant_end`. Generations inside also stop at the chat
    template's stops."""
    return RoleBegin("assistant")


def assistant_end() -> RoleEnd:
    """End the turn begun by `assistant_begin`."""
    return RoleEnd("assistant")
