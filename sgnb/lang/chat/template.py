"""Chat templates as tables: the text before and after the content of each role.

With a table a program can begin a role, generate inside, and end the role piece by piece. The table
of a model is derived from renderings of the model's own template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from ...errors import ModelError
from .tool_format import DeclaredTool, Render, ToolFormat, openings, read_format

Role = Literal["system", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)


class TemplateError(ModelError, ValueError):
    """A chat template cannot be represented as a table."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Text around the content of each role, and around a conversation."""

    name: str
    roles: dict[str, tuple[str, str]]  # role -> (text before, text after the content)
    begin: str = ""  # Text at the begin of a conversation.
    stop: tuple[str, ...] = ()  # Stop strings of generations in the assistant's role.
    stop_token_ids: tuple[int, ...] = ()  # stop tokens of generations in the assistant's role
    begin_system: str | None = None
    """Begin of a conversation with a system prompt, if different from `begin`. Many templates
    insert a default system prompt into conversations without a system prompt."""
    merged_system: bool = False
    """True if the template writes the system prompt inside the following user turn. That turn has
    no text before the content."""
    last_answer: str = ""
    """Text that the template writes only before the last answer of a conversation. Programs write
    the text themselves if needed: `assistant(raw(...) + gen(...))`."""
    begin_user: str | None = None
    """Begin of a conversation with a user turn, including the text before the user's content, if
    different from `begin` plus this text. Used for templates that declare tools at this
    position."""
    tools: ToolFormat = field(default_factory=ToolFormat)

    def __post_init__(self) -> None:
        missing = [role for role in ROLES if role not in self.roles]
        if missing:
            message = f"chat template {self.name!r} has no role {missing[0]!r}"
            raise TemplateError(message, f"it needs {', '.join(ROLES)}")

    def opening(self, role: str, previous: str | None) -> str:
        """Return the text before the content of `role`. `previous`: role of the last turn; None in
        the first turn."""
        prefix = self.roles[role][0]
        if previous is None:
            if role == "user" and self.begin_user is not None:
                return self.begin_user
            plain = role != "system" or self.begin_system is None
            return (self.begin if plain else self.begin_system or "") + prefix
        return "" if self.merged_system and (previous, role) == ("system", "user") else prefix

    def declare(self, tools: tuple[DeclaredTool, ...]) -> ChatTemplate:
        """Return the template with tools declared at the begin of a conversation: as the model's
        template declares tools, or with `ToolFormat.describe` in the system turn."""
        render = self.tools.render
        if render is not None and (texts := openings(render, tools)) is not None:
            begin_user, system = texts
            roles = {**self.roles, "system": system}
            return replace(
                self, roles=roles, begin_user=begin_user, begin_system="", merged_system=True
            )

        before, after = self.roles["system"]
        text = self.tools.describe(tools)
        begin_user = self.opening("system", None) + text + after + self.opening("user", "system")
        roles = {**self.roles, "system": (before, f"\n\n{text}{after}")}
        return replace(self, roles=roles, begin_user=begin_user)


PLAIN = ChatTemplate(
    "plain",
    {"system": ("SYSTEM: ", "\n"), "user": ("USER: ", "\n"), "assistant": ("ASSISTANT: ", "\n")},
    stop=("\nUSER:",),
)
"""Template for models without a chat template."""

Messages = Sequence[dict[str, str]]


def from_render(
    name: str, render: Callable[[Messages], str], stop: tuple[str, ...] = ()
) -> ChatTemplate:
    """Derive the table from a function that renders messages (role, content) to text.

    Renders conversations with unique markers as contents, and takes the text around the markers. If
    the template rejects the system role or omits the system prompt, the system role uses the user's
    text.

    Args:
        name: Name of the template.
        render: Renders messages; may raise any exception for a rejected role.
        stop: Stop strings of the assistant's role.

    Raises:
        TemplateError: Later turns differ from the first, or a content is missing or moved.
    """
    marks = zip(("user", "assistant") * 2, "\x01\x02\x03\x04", strict=True)
    turns = [{"role": role, "content": mark} for role, mark in marks]
    # Between two markers are the end of a turn and the begin of the next turn. The second round has
    # no begin of a conversation.
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

    system_texts = _system(render)
    if system_texts is None:
        return plain
    before_system, to_user = system_texts
    merged = not to_user.endswith(before_user)
    begin_system = begin if before_system.startswith(begin) else ""
    after_system = to_user if merged else to_user.removesuffix(before_user)
    roles["system"] = before_system.removeprefix(begin_system), after_system
    return replace(plain, begin_system=begin_system, merged_system=merged)


def with_tools(chat: ChatTemplate, render: Render) -> ChatTemplate:
    """Return `chat` with the tool format of `render`; `chat` itself if the format is unreadable."""
    tools = read_format(chat.roles, render)
    return chat if tools is None else replace(chat, tools=tools)


def _system(render: Callable[[Messages], str]) -> tuple[str, str] | None:
    """Return the text before the system prompt, and the text up to the user's content. None if the
    template has no system role."""
    try:
        text = render([{"role": "system", "content": "\x01"}, {"role": "user", "content": "\x02"}])
        before_system, to_user, _ = _between(text, "\x01\x02")
    except Exception:  # a Jinja template may raise anything to refuse a role
        return None
    return before_system, to_user


def _between(text: str, marks: str) -> list[str]:
    parts = []
    for mark in marks:
        part, separator, text = text.partition(mark)
        if not separator:
            message = f"the chat template left out or moved the content of a turn: {part!r}"
            raise TemplateError(message, "give the roles as a ChatTemplate")
        parts.append(part)
    return [*parts, text]
