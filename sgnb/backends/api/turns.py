"""Turns of a conversation: a prompt as messages for a chat service, with tool calls and results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import RequestError, shown
from ...lang.chat import ChatTemplate
from ...lang.chat.tool_turns import ToolResult
from ...lang.chat.tools import ToolCall
from ...lang.ir import RoleBegin, RoleEnd
from ...media import MediaItem, with_article
from ...segment import Segment
from .endpoint import Message
from .media_parts import content_parts


@dataclass(slots=True)
class _OpenTurn:
    """Content of a turn so far."""

    role: str | None  # None between turns
    text: str = ""
    media: list[tuple[int, MediaItem]] = field(default_factory=list)  # with positions in `text`
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.media or self.text.strip())

    @property
    def content(self) -> Any:
        """The text, or a list of parts if the turn has media."""
        return content_parts(self.text, self.media) if self.media else self.text

    def messages(self) -> list[Message]:
        """Return the finished turn; a message per tool result."""
        results = [
            {"role": "tool", "tool_call_id": result.call.id, "content": result.text}
            for result in self.results
        ]
        if results and self.is_empty:
            return results

        turn: Message = {"role": self.role, "content": self.content}
        if self.calls:
            turn |= {"content": self.text or None, "tool_calls": list(map(_call, self.calls))}
        return [*results, turn]


def conversation(
    name: str,
    prompt: str,
    segments: Sequence[Segment],
    continues: bool = False,
    native_tools: bool = False,
) -> tuple[Message, ...]:
    """Split a prompt at its role marks into turns. A prompt without roles is a single user turn.

    The last turn is the assistant's if the assistant turn has begun.

    Args:
        name: Name of the generation, for errors.
        prompt: The branch's prompt as text.
        segments: The segments of the prompt.
        continues: The service can continue an assistant turn.
        native_tools: Return tool calls and results in OpenAI's format instead of text.

    Raises:
        RequestError: Text stands between turns, the unfinished turn is not the assistant's, or a
            tool call has no result.
    """
    turns: list[Message] = []
    turn = _OpenTurn(None)
    pending: dict[str, ToolCall] = {}  # calls without a result, by id

    for segment in segments or (Segment(prompt),):
        origin = segment.origin
        if native_tools and isinstance(origin, ToolCall):
            turn.calls.append(origin)
        elif native_tools and isinstance(origin, ToolResult) and origin.call.id in pending:
            del pending[origin.call.id]
            turn.results.append(origin)
        elif segment.kind == "media":
            _check_role(name, turn.role, segment.item)
            turn.media.append((len(turn.text), segment.item))
        elif not isinstance(origin, tuple):
            turn.text += segment.text
        elif isinstance(origin[0], RoleBegin):
            _check_between(name, turn)
            turn = _OpenTurn(origin[0].role)
        else:
            messages = turn.messages()
            if messages[-1]["role"] != "tool":
                _check_results(name, pending)
            pending |= {call.id: call for call in turn.calls}
            turns += messages
            turn = _OpenTurn(None)

    role, text = turn.role, turn.text
    if not turns and role is None:
        return ({"role": "user", "content": turn.content},)
    _check_results(name, pending)
    if role != "assistant":
        if role is None:
            _check_between(name, turn)
        where = "outside of the roles" if role is None else f"in the role {role!r}"
        raise RequestError(
            f"gen {name!r} stands {where}, and a chat model writes whole turns of the assistant's",
            f'write s += assistant(gen("{name}"))',
        )

    if not text and not turn.calls:
        return tuple(turns)
    if not continues or turn.calls:
        begun = text or turn.calls[0].text
        raise RequestError(
            f"gen {name!r} continues an assistant's turn that begins with {shown(begun)}, but"
            " this service writes whole turns only",
            "move the text into the user's turn, or use @function(num_api_spec_tokens=...)",
        )
    return (*turns, {"role": "assistant", "content": text})


def with_system(turns: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return the turns with `text` at the end of the system message."""
    if turns and turns[0]["role"] == "system":
        system, *later = turns
        content = "\n\n".join(filter(None, (system["content"], text)))
        return ({**system, "content": content}, *later)
    return ({"role": "system", "content": text}, *turns)


def text_with_system(
    chat: ChatTemplate, prompt: str, segments: Sequence[Segment], text: str
) -> str:
    """Return a prompt with `text` at the end of the system turn."""
    parts = list(segments or (Segment(prompt),))
    for index, segment in enumerate(parts):
        if isinstance(segment.origin, tuple) and segment.origin[0] == RoleEnd("system"):
            parts.insert(index, Segment(f"\n\n{text}"))
            return "".join(part.text for part in parts)
    system = chat.opening("system", None) + text + chat.roles["system"][1]
    return system + prompt.removeprefix(chat.begin)


def _call(call: ToolCall) -> dict[str, Any]:
    """Return a tool call in OpenAI's format."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _check_results(name: str, pending: dict[str, ToolCall]) -> None:
    if pending:
        names = ", ".join(call.name for call in pending.values())
        message = f"gen {name!r} follows tool calls without results: {names}"
        raise RequestError(message, "append tool(call, call()) after the turn of the call")


def _check_between(name: str, turn: _OpenTurn) -> None:
    if not turn.is_empty:
        what = shown(turn.text) if turn.text.strip() else f"[{turn.media[0][1].label}]"
        raise RequestError(
            f"gen {name!r} follows text outside of the roles, {what}, which a chat model cannot be"
            " sent",
            "put the text into a role: s += user(...)",
        )


def _check_role(name: str, role: str | None, item: MediaItem) -> None:
    if role not in (None, "user"):
        raise RequestError(
            f"gen {name!r} follows {with_article(item.kind)} in the role {role!r}, and chat"
            " services take media from the user only",
            f"put it into the user's turn: user({item.kind}(x))",
        )
