"""Chat roles as text: what stands before and after each role's words.

A template is a table, so that a program can open a role, generate inside it, and close it, piece by piece. For a
model that brings a template of its own, the table is read off what that template renders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """`roles[role]` is the pair (text before, text after). `begin` opens every conversation.

    stop: strings that end a generation inside the assistant's role.
    """

    name: str
    roles: dict[str, tuple[str, str]]
    begin: str = ""
    stop: tuple[str, ...] = ()


PLAIN = ChatTemplate(
    "plain",
    {"system": ("SYSTEM: ", "\n"), "user": ("USER: ", "\n"), "assistant": ("ASSISTANT: ", "\n")},
    stop=("\nUSER:",),
)
"""For models without a template of their own."""

Messages = Sequence[dict[str, str]]


def from_render(name: str, render: Callable[[Messages], str], stop: tuple[str, ...] = ()) -> ChatTemplate:
    """Read the table off a function that renders messages (role, content) to text.

    Renders conversations whose contents are marks and takes the text around them. A template that refuses a role
    (many refuse "system") gets that role's words under the user's marks.
    """
    turns = [{"role": "user", "content": "\x01"}, {"role": "assistant", "content": "\x02"},
             {"role": "user", "content": "\x03"}, {"role": "assistant", "content": "\x04"}]
    text = render(turns)
    parts = _between(text, "\x01\x02\x03\x04")
    # Between two marks stands the end of one turn and the start of the next; the second round has no opening text.
    user_to_assistant, assistant_to_user, tail = parts[1], parts[2], parts[4]
    after_assistant = tail
    before_user = assistant_to_user.removeprefix(after_assistant)
    begin = parts[0].removesuffix(before_user)
    alone = render(turns[:1])
    after_user = alone.partition("\x01")[2]
    if not user_to_assistant.startswith(after_user):
        after_user = ""
    before_assistant = user_to_assistant.removeprefix(after_user)
    roles = {"user": (before_user, after_user), "assistant": (before_assistant, after_assistant)}
    roles["system"] = _system(render, begin, before_user) or roles["user"]
    return ChatTemplate(name, roles, begin, stop)


def _system(render: Callable[[Messages], str], begin: str, before_user: str) -> tuple[str, str] | None:
    try:
        text = render([{"role": "system", "content": "\x01"}, {"role": "user", "content": "\x02"}])
        before, after, _ = _between(text, "\x01\x02")
    except Exception:  # a Jinja template may raise anything to refuse a role
        return None
    return before.removeprefix(begin), after.removesuffix(before_user)


def _between(text: str, marks: str) -> list[str]:
    parts = []
    for mark in marks:
        part, found, text = text.partition(mark)
        if not found:
            raise ValueError(f"the chat template left out or moved the content of a turn: {part!r}")
        parts.append(part)
    return [*parts, text]
