"""What a state holds, apart from its run: goes on in another run or engine, and is written as JSON.
Knows no execution."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, get_args

from ...errors import OptionError, shown
from ...segment import Kind, Segment
from ..chat import ROLES, ChatTemplate
from ..chat.tools import ToolCall
from ..ir import RoleBegin, RoleEnd, role_text

VERSION = 1
"""Of the JSON."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state as it was: `f.run(..., continue_from=snapshot)` goes on from it."""

    segments: tuple[Segment, ...]  # the text, by where it came from
    messages: tuple[dict[str, str], ...] = ()  # the roles that were ended
    variables: dict[str, Any] = field(default_factory=dict)  # by name
    earlier: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # see `state.history`
    meta: dict[str, Any] = field(default_factory=dict)  # of the variables; not in the JSON
    tokenizer: str = ""  # whose tokens those of the outputs are

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(segment.text for segment in self.segments)

    @property
    def role(self) -> str | None:
        """The one that is open."""
        marks = [s.origin[0] for s in self.segments if isinstance(s.origin, tuple)]
        return marks[-1].role if marks and isinstance(marks[-1], RoleBegin) else None

    def read_by(self, tokenizer: str, chat: ChatTemplate) -> list[Segment]:
        """The segments for a model with this tokenizer and template: outputs of another tokenizer
        are text, and roles have the template's own marks."""
        read = []
        for segment in self.segments:
            if isinstance(segment.origin, tuple):
                segment = role_text(chat, *segment.origin)
            elif segment.kind == "output" and tokenizer != self.tokenizer:
                segment = Segment(segment.text, "data")
            read.append(segment)
        return read

    def to_json(self) -> str:
        """As JSON, with the variables, without their meta information. OptionError for a variable
        that JSON cannot hold."""
        held = {
            "sgnb": VERSION,
            "tokenizer": self.tokenizer,
            "segments": [_plain(segment) for segment in self.segments],
            "messages": self.messages,
            "variables": self.variables,
            "earlier": self.earlier,
        }
        try:
            return json.dumps(held, ensure_ascii=False, default=_written)
        except (TypeError, ValueError):
            values = [*self.variables.items()]
            values += [(name, value) for name, all in self.earlier.items() for value in all]
            name, value = next(pair for pair in values if not _fits(dict([pair])))
            message = f"the variable {name!r} is {shown(value)}, which JSON cannot hold"
            raise OptionError(message, "set it to text, numbers or lists of them first") from None

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read `text`; OptionError for one that `to_json` has not made."""
        try:
            held = json.loads(text)
            if held["sgnb"] != VERSION:
                raise OptionError(
                    f"this state has version {held['sgnb']!r} of the format", "update sgnb"
                )
            return cls(
                tuple(map(_segment, held["segments"])),
                tuple({"role": m["role"], "content": m["content"]} for m in held["messages"]),
                dict(held["variables"]),
                {name: tuple(values) for name, values in held["earlier"].items()},
                tokenizer=str(held["tokenizer"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{shown(text)} is no saved state: {type(error).__name__}: {error}"
            raise OptionError(message, "give what state.snapshot().to_json() has made") from error


def _plain(segment: Segment) -> dict[str, Any]:
    if isinstance(segment.origin, tuple):
        op, previous = segment.origin
        mark = {"role": op.role, "begins": isinstance(op, RoleBegin), "previous": previous}
        return {"text": segment.text, "mark": mark}
    plain: dict[str, Any] = {"text": segment.text, "kind": segment.kind}
    return plain | ({"tokens": segment.tokens} if segment.kind == "output" else {})


def _segment(plain: dict[str, Any]) -> Segment:
    text, mark = plain["text"], plain.get("mark")
    if not isinstance(text, str):
        raise TypeError(f"{shown(text)} is no text")
    if mark is not None:
        op = (RoleBegin if mark["begins"] else RoleEnd)(_role(mark["role"]))
        previous = mark["previous"]
        known = previous if previous in (None, "tool") else _role(previous)
        return Segment(text, "raw", (), (op, known))
    kind, tokens = plain["kind"], tuple(plain.get("tokens", ()))
    if kind not in get_args(Kind) or not all(type(token) is int for token in tokens):
        raise ValueError(f"{shown(plain)} is no stretch of a prompt")
    return Segment(text, kind, tokens)


def _role(name: Any) -> str:
    if name not in ROLES:
        raise ValueError(f"there is no role {shown(name)}")
    return str(name)


def _written(value: Any) -> Any:
    """A call is its name and arguments: a tool is a function, which JSON cannot hold."""
    if isinstance(value, ToolCall):
        return {"name": value.name, "arguments": value.arguments}
    raise TypeError


def _fits(value: Any) -> bool:
    try:
        json.dumps(value, default=_written)
    except (TypeError, ValueError):
        return False
    return True
