"""Snapshots: the content of a state, independent of runs and engines, with a JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from ...codec import Range, build, check_version, dumps, parse, reading
from ...errors import OptionError, shown
from ...media import from_plain, to_plain
from ...segment import Kind, Segment
from ..chat import ChatTemplate, Role
from ..chat.tools import ToolCall
from ..ir import RoleBegin, RoleEnd, media_segment, role_text

VERSION = 1
"""Version of the JSON format."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Immutable copy of a state. `program.run(..., continue_from=snapshot)` continues from the
    snapshot."""

    segments: tuple[Segment, ...]  # the text, split by origin
    messages: tuple[dict[str, str], ...] = ()  # finished turns
    variables: dict[str, Any] = field(default_factory=dict)  # values by name
    # earlier values by name, see `ProgramState.history`
    earlier: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # meta information by variable; not part of the JSON
    meta: dict[str, Any] = field(default_factory=dict)
    tokenizer: str = ""  # tokenizer of the token ids

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(segment.text for segment in self.segments)

    @property
    def role(self) -> str | None:
        """The open role, or None."""
        marks = [s.origin[0] for s in self.segments if isinstance(s.origin, tuple)]
        return marks[-1].role if marks and isinstance(marks[-1], RoleBegin) else None

    def read_by(self, tokenizer: str, chat: ChatTemplate) -> list[Segment]:
        """Return the segments for a model with this tokenizer and template. Outputs of another
        tokenizer become text, and roles use the template's text."""
        read = []
        for segment in self.segments:
            if isinstance(segment.origin, tuple):
                segment = role_text(chat, *segment.origin)
            elif segment.kind == "output" and tokenizer != self.tokenizer:
                segment = Segment(segment.text, "data")
            read.append(segment)
        return read

    def to_json(self) -> str:
        """Serialize text and variables, without meta information, for `from_json`.

        Raises:
            OptionError: JSON cannot hold a variable.
        """
        content = {
            "sgnb": VERSION,
            "tokenizer": self.tokenizer,
            "segments": [_plain(segment) for segment in self.segments],
            "messages": self.messages,
            "variables": self.variables,
            "earlier": self.earlier,
        }
        try:
            return dumps(content, ensure_ascii=False, default=_written)
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
            segments = tuple(map(_segment, saved.segments))
        return cls(
            segments=segments,
            messages=tuple(map(asdict, saved.messages)),
            variables=saved.variables,
            earlier=saved.earlier,
            tokenizer=saved.tokenizer,
        )


@dataclass(frozen=True)
class _MarkJson:
    """JSON form of the begin or end of a role."""

    role: Role
    begins: bool
    previous: Role | Literal["tool"] | None


@dataclass(frozen=True)
class _SegmentJson:
    text: str
    kind: Kind = "data"
    tokens: tuple[Annotated[int, Range(0, 2**31 - 1)], ...] = ()
    mark: _MarkJson | None = None
    item: dict[str, Any] | None = None  # for the kind "media"


@dataclass(frozen=True)
class _MessageJson:
    role: str
    content: str


@dataclass(frozen=True)
class _SnapshotJson:
    """JSON form of a snapshot."""

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
    if segment.kind == "media":
        return plain | {"item": to_plain(segment.item)}
    return plain | ({"tokens": segment.tokens} if segment.kind == "output" else {})


def _segment(saved: _SegmentJson) -> Segment:
    if saved.kind == "media":
        return media_segment(from_plain(saved.item))
    if saved.mark is None:
        return Segment(saved.text, saved.kind, saved.tokens)
    op = (RoleBegin if saved.mark.begins else RoleEnd)(saved.mark.role)
    return Segment(saved.text, "raw", (), (op, saved.mark.previous))


def _written(value: Any) -> Any:
    """Return name and arguments of a tool call. The tool itself is a function, which JSON cannot
    hold."""
    if isinstance(value, ToolCall):
        return {"name": value.name, "arguments": value.arguments}
    raise TypeError


def _fits(value: Any) -> bool:
    try:
        dumps(value, default=_written)
    except (TypeError, ValueError):
        return False
    return True
