"""Conversion of a branch's prompt to the turns of a chat service."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import RequestError, shown
from ...lang.ir import RoleBegin
from ...segment import Segment
from .endpoint import Message


def conversation(
    name: str, prompt: str, segments: Sequence[Segment], continues: bool = False
) -> tuple[Message, ...]:
    """Split a prompt at its role marks into turns. A prompt without roles is a single user turn.

    The last turn is the assistant's if the assistant turn has begun.

    Args:
        name: Name of the generation, for errors.
        prompt: The branch's prompt as text.
        segments: The segments of the prompt.
        continues: The service can continue an assistant turn.

    Raises:
        RequestError: Text stands between turns, or the unfinished turn is not the assistant's.
    """
    turns: list[Message] = []
    role: str | None = None
    text = ""
    for segment in segments or (Segment(prompt),):
        mark = segment.origin[0] if isinstance(segment.origin, tuple) else None
        if mark is None:
            text += segment.text
        elif isinstance(mark, RoleBegin):
            _check_between(name, text)
            role, text = mark.role, ""
        else:
            turns.append({"role": mark.role, "content": text})
            role, text = None, ""
    if not turns and role is None:
        return ({"role": "user", "content": text},)
    if role != "assistant":
        _check_between(name, text if role is None else "")
        where = "outside of the roles" if role is None else f"in the role {role!r}"
        raise RequestError(
            f"gen {name!r} stands {where}, and a chat model writes whole turns of the assistant's",
            f'write s += assistant(gen("{name}"))',
        )
    if not text:
        return tuple(turns)
    if not continues:
        raise RequestError(
            f"gen {name!r} goes on with an assistant's turn that begins with {shown(text)}, and"
            " this service writes whole turns only",
            "put that text into the user's turn, or give @function(num_api_spec_tokens=...)",
        )
    return (*turns, {"role": "assistant", "content": text})


def _check_between(name: str, text: str) -> None:
    if text.strip():
        raise RequestError(
            f"gen {name!r} follows text outside of the roles, {shown(text)}, which a chat model"
            " cannot be sent",
            "write it into a role: s += user(...)",
        )
