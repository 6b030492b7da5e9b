"""Format of tools, tool calls and results in a model's text, derived from the model's chat
template.

Supported are templates that write a call as a JSON object with name and arguments: Qwen and Hermes
`<tool_call>{"name": ..., "arguments": ...}</tool_call>`, Llama `{"name": ..., "parameters": ...}`,
Mistral `[TOOL_CALLS] [{"name": ..., "arguments": ..., "id": ...}]`. Other models use the format of
Qwen, explained in the system prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]]], str]
"""Renders messages (with tool_calls, and with the role "tool") and tools, in the format of
transformers, to text. May raise any exception."""

_NAME, _ARGUMENTS = "zqtool", {"zqargument": "zqvalue"}
_IDS = "zqcall001", "zqcall002"  # Mistral's templates require nine letters or digits
_RESULTS = 'zq"first', 'zq"second'  # the quote shows whether results are written as JSON
_USER, _ANSWER = "\x01", "\x04"
_DUMMY = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "zqtool",
        "parameters": {
            "type": "object",
            "properties": {"zqargument": {"type": "string", "description": "zqargument"}},
            "required": ["zqargument"],
        },
    },
}


class DeclaredTool(Protocol):
    """A tool as a prompt declares it."""

    @property
    def schema(self) -> dict[str, Any]: ...


class WrittenCall(Protocol):
    """A call of a tool as a model wrote it."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Text around tool calls and results."""

    open: str = "<tool_call>\n"  # text before the first call
    close: str = "\n</tool_call>"  # text after the last call
    # between calls; None: a single call per turn
    separator: str | None = "\n</tool_call>\n<tool_call>\n"
    keys: tuple[str, ...] = ("name", "arguments")  # keys of a call, in order
    name_key: str = "name"
    arguments_key: str = "arguments"
    id_key: str = ""  # "" for calls without an id
    constants: tuple[tuple[str, Any], ...] = ()  # keys with a constant value
    whitespace: int | None = None  # whitespace in a call, see `SamplingParams.json_whitespace`
    # Text around results, with a placeholder name and id that are replaced by the call's. None: the
    # text around user turns.
    before_result: str | None = None
    between_results: str | None = None  # None: a turn per result
    after_result: str = ""
    results_as_json: bool = False  # results are written inside a JSON string
    render: Render | None = field(default=None, compare=False, repr=False)

    def members(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the keys of a call with the schemas of keys that do not depend on the tool."""
        same: dict[str, dict[str, Any]] = {k: {"const": value} for k, value in self.constants}
        same[self.id_key] = {"type": "string", "pattern": "^[a-zA-Z0-9]{9}$"}
        return [(key, same.get(key, {})) for key in self.keys]

    def mark(self, special: re.Pattern[str] | None) -> str:
        """Return the text that marks the begin of a call in generated text: a special token if
        `open` contains a match of `special`, otherwise the first line of `open`."""
        if special is not None and (match := special.search(self.open)):
            return match[0]
        return self.open.strip().partition("\n")[0] or f'{{"{self.keys[0]}":'

    def describe(self, tools: Sequence[DeclaredTool]) -> str:
        """Return a description of the tools and of the call format for the prompt."""
        listed = "\n".join(json.dumps(tool.schema["function"]) for tool in tools)
        blank = "" if self.whitespace == 0 else " "
        values = {self.name_key: '"<name>"', self.arguments_key: "{<arguments>}"}
        values |= {self.id_key: '"<id>"'} | {k: json.dumps(value) for k, value in self.constants}
        members = f",{blank}".join(f'"{key}":{blank}{values[key]}' for key in self.keys)
        example = f"{self.open}{{{members}}}{self.close}"
        return f"These tools can be called:\n{listed}\nA call is written like this:\n{example}"

    def results(
        self, user: tuple[str, str], calls: Sequence[WrittenCall], texts: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Return for each result the template's text before and the result, then the text after the
        last result with "".

        Args:
            user: Text before and after the content of a user turn.
            calls: Calls in the order of the results.
            texts: Results.
        """
        before_result, after_result = self.before_result, self.after_result
        between_results = self.between_results
        if before_result is None:
            before_result = f"{user[0]}<tool_response>\n"
            after_result = f"\n</tool_response>{user[1]}"
            between_results = "\n</tool_response>\n<tool_response>\n"

        parts: list[tuple[str, str]] = []
        prefix = _about(before_result, calls[0])
        for i, (call, text) in enumerate(zip(calls, texts, strict=True)):
            content = json.dumps(text, ensure_ascii=False)[1:-1] if self.results_as_json else text
            parts.append((prefix, content))
            if i + 1 == len(calls):
                break
            if between_results is None:
                prefix = _about(after_result, call) + _about(before_result, calls[i + 1])
            else:
                prefix = _about(between_results.replace(_IDS[0], call.id), calls[i + 1])
        return [*parts, (_about(after_result, calls[-1]), "")]


def _about(text: str, call: WrittenCall) -> str:
    return text.replace(_NAME, call.name).replace(_IDS[0], call.id).replace(_IDS[1], call.id)


def read_format(roles: Mapping[str, tuple[str, str]], render: Render) -> ToolFormat | None:
    """Return the format that `render` writes, or None if the format is unreadable.

    Args:
        roles: The text around each role's content.
        render: The model's chat template.
    """
    for as_text in (False, True):  # templates want the arguments as a dict, or as JSON
        try:
            return _read(roles, render, as_text)
        except Exception:  # a Jinja template may raise anything
            continue
    return None


class _Unreadable(Exception):
    pass


def _read(roles: Mapping[str, tuple[str, str]], render: Render, as_text: bool) -> ToolFormat:
    _, marker, answer_text = render(_conversation(1, as_text), [_DUMMY]).partition(_USER)
    declared = render([{"role": "user", "content": _USER}], [_DUMMY])
    if not marker or _NAME not in declared:
        raise _Unreadable

    before_answer, after_answer = roles["assistant"]
    answer_text = answer_text.removeprefix(roles["user"][1]).removeprefix(before_answer)
    start, end, call = _call(answer_text)
    keys = {_key(call, _NAME): "name", _key(call, _ARGUMENTS): "arguments"}
    constants = tuple((k, v) for k, v in call.items() if k not in keys and v != _IDS[0])
    close, turn_end, rest_of_turn = answer_text[end:].partition(after_answer)
    if not turn_end:
        raise _Unreadable

    as_json = json.dumps(_RESULTS[0])[1:-1] in rest_of_turn
    before_result, answer = _around(rest_of_turn, [_RESULTS[0]], as_json)
    separator, between = _several(render, as_text, as_json)
    layouts = {json.dumps(call): None, json.dumps(call, separators=(",", ":")): 0}
    return ToolFormat(
        open=answer_text[:start],
        close=close,
        separator=separator,
        keys=tuple(call),
        name_key=_key(call, _NAME),
        arguments_key=_key(call, _ARGUMENTS),
        id_key=next((key for key, value in call.items() if value == _IDS[0]), ""),
        constants=constants,
        whitespace=layouts.get(answer_text[start:end], 1),
        before_result=before_result,
        between_results=between,
        after_result=_before_answer(answer, before_answer),
        results_as_json=as_json,
        render=render,
    )


def _conversation(calls: int, as_text: bool) -> list[dict[str, Any]]:
    """Return messages with a question, calls of the dummy tool, results and an answer."""
    arguments = json.dumps(_ARGUMENTS) if as_text else _ARGUMENTS
    function = {"name": _NAME, "arguments": arguments}
    tool_calls = [{"id": _IDS[i], "type": "function", "function": function} for i in range(calls)]
    results = [
        {"role": "tool", "name": _NAME, "tool_call_id": _IDS[i], "content": _RESULTS[i]}
        for i in range(calls)
    ]
    question = {"role": "user", "content": _USER}
    return [
        question,
        {"role": "assistant", "content": "", "tool_calls": tool_calls},
        *results,
        {"role": "assistant", "content": _ANSWER},
    ]


def _call(text: str, after: int = 0) -> tuple[int, int, dict[str, Any]]:
    """Return begin, end and value of the first JSON object after `after` with the dummy's name and
    arguments."""
    decoder = json.JSONDecoder()
    for opening in re.compile(r"\{").finditer(text, after):
        try:
            value, end = decoder.raw_decode(text, opening.start())
        except ValueError:
            continue
        if _NAME in value.values() and _ARGUMENTS in value.values():
            return opening.start(), end, value
    raise _Unreadable


def _key(call: dict[str, Any], value: Any) -> str:
    return next(key for key, item in call.items() if item == value)


def _around(text: str, results: Sequence[str], as_json: bool) -> list[str]:
    """Return the parts of `text` between the results."""
    parts = []
    for result in results:
        part, separator, text = text.partition(json.dumps(result)[1:-1] if as_json else result)
        if not separator:
            raise _Unreadable
        parts.append(part)
    return [*parts, text]


def _before_answer(text: str, opening: str) -> str:
    """Return the end of a result turn: `text` up to the following assistant turn."""
    text = text.partition(_ANSWER)[0]
    if text.endswith(opening):
        return text.removesuffix(opening)
    return text.partition(opening)[0] if opening.strip() else text


def _several(render: Render, as_text: bool, as_json: bool) -> tuple[str | None, str | None]:
    """Return the text between two calls and the text between two results; None for a template that
    rejects several calls."""
    try:
        text = render(_conversation(2, as_text), [_DUMMY]).partition(_USER)[2]
        _, end, _ = _call(text)
        start, _, _ = _call(text, end)
        return text[end:start], _around(text, _RESULTS, as_json)[1]
    except Exception:  # a Jinja template may raise anything
        return None, None


@lru_cache(maxsize=64)
def openings(render: Render, tools: tuple[DeclaredTool, ...]) -> tuple[str, tuple[str, str]] | None:
    """Return the text before the first user turn, and the texts before and after a leading system
    prompt. None if the template rejects these tools."""
    schemas = [tool.schema for tool in tools]
    question = {"role": "user", "content": _ANSWER}
    try:
        begin_user, separator, _ = render([question], schemas).partition(_ANSWER)
        if not separator:
            return None
    except Exception:  # a Jinja template may raise anything
        return None

    try:
        both = render([{"role": "system", "content": _USER}, question], schemas)
        before_system, separator, after_system = both.partition(_USER)
        to_user, found_user, _ = after_system.partition(_ANSWER)
        if separator and found_user:
            return begin_user, (before_system, to_user)
    except Exception:  # without a system role, the system prompt is part of the first user turn
        pass
    return begin_user, (begin_user, "\n\n")
