"""Tool calls and results as segments of a conversation, for executors that generate tool calls.

The text of a segment has the plain format. The segment's `origin` records the call or the result,
so an executor can send the call in the service's own format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ...segment import Segment
from .tool_format import ToolFormat
from .tools import Tool, ToolCall

BEFORE_RESULT, AFTER_RESULT = "<tool_response>\n", "\n</tool_response>"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool call, as text."""

    call: ToolCall
    text: str


def call_text(name: str, arguments: object, form: ToolFormat) -> str:
    """Return the JSON object of a call in the plain format."""
    members = {form.name_key: name, form.arguments_key: arguments}
    return json.dumps(members, ensure_ascii=False)


def call_segments(text: str, calls: Sequence[ToolCall], form: ToolFormat) -> tuple[Segment, ...]:
    """Return the segments of an answer.

    Args:
        text: Free text before the calls.
        calls: Calls of the answer.
        form: Format of a call as text.
    """
    separator = form.close + form.open if form.separator is None else form.separator
    segments = [Segment(text, "data")] if text else []
    for index, call in enumerate(calls):
        opening = separator if index else form.open
        close = form.close if index + 1 == len(calls) else ""
        written = opening + call_text(call.name, call.arguments, form) + close
        segments.append(Segment(written, "data", (), call))
    return tuple(segments)


def result_segments(calls: Sequence[ToolCall], texts: Sequence[str]) -> tuple[Segment, ...]:
    """Return the segments of results, the content of a user turn."""
    segments = []
    for index, (call, text) in enumerate(zip(calls, texts, strict=True)):
        written = BEFORE_RESULT + text + AFTER_RESULT
        written = f"\n{written}" if index else written
        segments.append(Segment(written, "data", (), ToolResult(call, text)))
    return tuple(segments)


def tools_in(segments: Sequence[Segment]) -> tuple[Tool, ...]:
    """Return the tools of the calls in a prompt, each name once."""
    calls = [segment.origin for segment in segments if isinstance(segment.origin, ToolCall)]
    return merged_tools(tuple(call.tool for call in calls))


def merged_tools(*tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools of all lists, each name once; later tools replace earlier tools."""
    return tuple({tool.name: tool for part in tools for tool in part}.values())
