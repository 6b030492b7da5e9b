"""Chat roles as text: what stands before and after each role's content.

A template is a table, so that a program can open a role, generate inside it, and close it, piece by
piece. For a model that brings a template of its own, the table is read off what that template
renders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from ...errors import ModelError
from .tool_format import ToolFormat

Role = Literal["system", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)


class TemplateError(ModelError, ValueError):
    """A chat template that cannot be read as a table."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The text around each role's content, and around a conversation."""

    name: str
    roles: dict[str, tuple[str, str]]  # role -> (text before its content, text after)
    begin: str = ""  # opens every conversation
    stop: tuple[str, ...] = ()  # end a generation inside the assistant's role
    stop_token_ids: tuple[int, ...] = ()  # and so do these tokens
    begin_system: str | None = None
    """Opens a conversation that begins with the system role, where that differs from `begin`: many
    templates put a system prompt of their own where the conversation has none."""
    merged_system: bool = False
    """The system prompt stands inside the user's turn that follows, which has no text before."""
    last_answer: str = ""
    """What the template writes before the answer that ends a conversation, and before no other. A
    program that wants it writes it: `assistant(raw(...) + gen(...))`."""
    begin_user: str | None = None
    """Opens a conversation that begins with the user's role, whose own text is in it, where it is
    not `begin` with that: where tools are declared there."""
    tools: ToolFormat = field(default_factory=ToolFormat)

    def __post_init__(self) -> None:
        missing = [role for role in ROLES if role not in self.roles]
        if missing:
            message = f"chat template {self.name!r} has no role {missing[0]!r}"
            raise TemplateError(message, f"it needs {', '.join(ROLES)}")

    def opening(self, role: str, previous: str | None) -> str:
        """The text before the content of `role`. previous: the last turn's role, None at first."""
        before = self.roles[role][0]
        if previous is None:
            if role == "user" and self.begin_user is not None:
                return self.begin_user
            plain = role != "system" or self.begin_system is None
            return (self.begin if plain else self.begin_system or "") + before
        return "" if self.merged_system and (previous, role) == ("system", "user") else before


PLAIN = ChatTemplate(
    "plain",
    {"system": ("SYSTEM: ", "\n"), "user": ("USER: ", "\n"), "assistant": ("ASSISTANT: ", "\n")},
    stop=("\nUSER:",),
)
"""For models without a template of their own."""

Messages = Sequence[dict[str, str]]


def from_render(
    name: str, render: Callable[[Messages], str], stop: tuple[str, ...] = ()
) -> ChatTemplate:
    """Read the table off a function that renders messages (role, content) to text.

    Renders conversations whose contents are marks and takes the text around them. A template that
    refuses the system role, or leaves out its content, gets it under the user's marks. A
    TemplateError when turns do not repeat.
    """
    marks = zip(("user", "assistant") * 2, "\x01\x02\x03\x04", strict=True)
    turns = [{"role": role, "content": mark} for role, mark in marks]
    # Between two marks stand the end of a turn and the start of the next; the second round has no
    # opening text.
    opening, user_to_assistant, assistant_to_user, to_last, after_assistant = _between(
        render(turns), "\x01\x02\x03\x04"
    )
    before_user = assistant_to_user.removeprefix(after_assistant)
    if after_assistant + before_user != assistant_to_user or not opening.endswith(before_user):
        turns_seen = f"{opening!r}, then {assistant_to_user!r}"
        message = f"chat template {name!r} renders later turns unlike the first: {turns_seen}"
        raise TemplateError(message, "give the roles as a ChatTemplate")

    begin = opening.removesuffix(before_user)
    after_user = render(turns[:1]).partition("\x01")[2]
    if not user_to_assistant.startswith(after_user):
        after_user = ""
    user = before_user, after_user
    assistant = user_to_assistant.removeprefix(after_user), after_assistant
    roles = {"system": user, "user": user, "assistant": assistant}
    last = to_last.removeprefix(user_to_assistant) if to_last.startswith(user_to_assistant) else ""
    plain = ChatTemplate(name, roles, begin, stop, last_answer=last)

    found = _system(render)
    if found is None:
        return plain
    before, to_user = found
    merged = not to_user.endswith(before_user)
    begin_system = begin if before.startswith(begin) else ""
    after_system = to_user if merged else to_user.removesuffix(before_user)
    roles["system"] = before.removeprefix(begin_system), after_system
    return replace(plain, begin_system=begin_system, merged_system=merged)


def _system(render: Callable[[Messages], str]) -> tuple[str, str] | None:
    """The text before the system prompt, and from it to the user's; None without that role."""
    try:
        text = render([{"role": "system", "content": "\x01"}, {"role": "user", "content": "\x02"}])
        before, to_user, _ = _between(text, "\x01\x02")
    except Exception:  # a Jinja template may raise anything to refuse a role
        return None
    return before, to_user


def _between(text: str, marks: str) -> list[str]:
    parts = []
    for mark in marks:
        part, found, text = text.partition(mark)
        if not found:
            message = f"the chat template left out or moved the content of a turn: {part!r}"
            raise TemplateError(message, "give the roles as a ChatTemplate")
        parts.append(part)
    return [*parts, text]
