"""What a state holds, apart from its run: goes on in another run or engine, and is written as JSON.
Knows no execution."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from ...codec import Range, build, check_version, dumps, parse, reading
from ...errors import OptionError, shown
from ...segment import Kind, Segment
from ..chat import ChatTemplate, Role
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
            return dumps(held, ensure_ascii=False, default=_written)
        except (TypeError, ValueError):
            values = [*self.variables.items()]
            values += [(name, value) for name, all in self.earlier.items() for value in all]
            name, value = next(pair for pair in values if not _fits([[dict([pair])]]))
            message = f"the variable {name!r} is {shown(value)}, which JSON cannot hold"
            raise OptionError(message, "set it to text, numbers or lists of them first") from None

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Return the snapshot of which `to_json` returned `text`.

        Raises:
            RecordError: `text` is damaged or from another version of the format.
        """
        with reading("the saved state", "Pass the text of state.snapshot().to_json()."):
            document = parse(text)
            check_version(document, "sgnb", VERSION)
            saved = build(_SnapshotJson, document)
        return cls(
            segments=tuple(map(_segment, saved.segments)),
            messages=tuple(map(asdict, saved.messages)),
            variables=saved.variables,
            earlier=saved.earlier,
            tokenizer=saved.tokenizer,
        )


@dataclass(frozen=True)
class _MarkJson:
    """A role's beginning or end."""

    role: Role
    begins: bool
    previous: Role | Literal["tool"] | None


@dataclass(frozen=True)
class _SegmentJson:
    text: str
    kind: Kind = "data"
    tokens: tuple[Annotated[int, Range(0, 2**31 - 1)], ...] = ()
    mark: _MarkJson | None = None


@dataclass(frozen=True)
class _MessageJson:
    role: str
    content: str


@dataclass(frozen=True)
class _SnapshotJson:
    """The JSON of a snapshot."""

    tokenizer: str
    segments: tuple[_SegmentJson, ...]
    messages: tuple[_MessageJson, ...]
    variables: dict[str, Any]
    earlier: dict[str, tuple[Any, ...]]


def _plain(segment: Segment) -> dict[str, Any]:
    if isinstance(segment.origin, tuple):
        op, previous = segment.origin
        mark = {"role": op.role, "begins": isinstance(op, RoleBegin), "previous": previous}
        return {"text": segment.text, "mark": mark}
    plain: dict[str, Any] = {"text": segment.text, "kind": segment.kind}
    return plain | ({"tokens": segment.tokens} if segment.kind == "output" else {})


def _segment(saved: _SegmentJson) -> Segment:
    if saved.mark is None:
        return Segment(saved.text, saved.kind, saved.tokens)
    op = (RoleBegin if saved.mark.begins else RoleEnd)(saved.mark.role)
    return Segment(saved.text, "raw", (), (op, saved.mark.previous))


def _written(value: Any) -> Any:
    """A call is its name and arguments: a tool is a function, which JSON cannot hold."""
    if isinstance(value, ToolCall):
        return {"name": value.name, "arguments": value.arguments}
    raise TypeError


def _fits(value: Any) -> bool:
    try:
        dumps(value, default=_written)
    except (TypeError, ValueError):
        return False
    return True
