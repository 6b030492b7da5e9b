"""Intermediate representation: immutable expressions that a program appends to a state.

Expressions can be concatenated, stored and reused. They hold no state and no executor of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable, signature
from typing import Any

from ..errors import MediaError, OptionError, ProgramError, nearest, shown
from ..media import MediaItem, MediaKind, read_audio, read_image, read_video, with_article
from ..sampling import SamplingParams
from ..segment import Kind, Segment
from .chat import ROLES, ChatTemplate
from .chat.reasoning import Reasoning
from .chat.tools import Tool, ToolCall, ToolUse
from .executor import ChoiceScore, Executor
from .location import Location, caller

ChoicesMethod = Callable[[Sequence[ChoiceScore]], list[float]]
"""Scoring function of a select. A `ChoicesSamplingMethod` is accepted, too; see `choices`."""


REGEX_INT = r"[-+]?[0-9]+[ \n]*"
REGEX_FLOAT = r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
REGEX_BOOL = "(True|False)"
REGEX_STR = r'"[\w\d\s]*"'
"""Regular expressions of the texts for a `dtype`."""


class ExpressionError(ProgramError, ValueError):
    """A value that is neither a string nor an expression was used as an expression."""


class Expr:
    """Base class of text, primitives and concatenations. `a + b` appends b after a; one operand may
    be a str."""

    __slots__ = ()

    def __add__(self, other: Any) -> Concat:
        return Concat((*parts(self), *parts(other)))

    def __radd__(self, other: Any) -> Concat:
        return Concat((*parts(other), *parts(self)))

    def __format__(self, spec: str) -> str:
        return str(self)

    def __str__(self) -> str:
        """Raise ExpressionError: an f-string would insert the representation into the prompt. Use
        `repr` to see the expression."""
        hint = 'append it next to the text: s += "Name: " + gen("name")'
        message = f"{caller()}: a text cannot hold {noun_of(self)}"
        raise ExpressionError(message, hint)


@dataclass(frozen=True, slots=True)
class Text(Expr):
    """Literal text."""

    text: str
    kind: Kind | None = None  # None: decided by taint and role, see `core.text_kinds`


class _MediaBase(Expr):
    """Image, video or audio in a prompt."""

    kind: MediaKind

    __slots__ = ()

    def __str__(self) -> str:
        """Raise ExpressionError, as `Expr.__str__` does."""
        hint = f'append it next to the text: user("What is this? " + {self.kind}(x))'
        raise ExpressionError(f"{caller()}: a text cannot hold {with_article(self.kind)}", hint)


@dataclass(frozen=True, slots=True)
class MediaExpr(_MediaBase):
    """Image, video or audio, with the arguments of the reader."""

    item: MediaItem
    source: Any = field(default=None, compare=False, repr=False)
    options: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.item, MediaItem):
            raise ValueError(f"{shown(self.item)} is not an image, video or audio")

    @property
    def kind(self) -> MediaKind:  # type: ignore[override]
        return self.item.kind


@dataclass(frozen=True, slots=True)
class UnreadMedia(_MediaBase):
    """Image, video or audio of a trace that a graph reads in each run.

    `source` and `options` contain texts of arguments.
    """

    kind: MediaKind
    source: Any
    options: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        parameters = signature(_READERS[self.kind]).parameters
        for name, _ in self.options:
            if name not in parameters:
                raise ValueError(f"{self.kind} has no argument {shown(name)}")


Part = Text | MediaExpr | UnreadMedia
"""An expression of a part."""


@dataclass(frozen=True, slots=True)
class Gen(Expr):
    """Generation."""

    name: str | None
    options: tuple[tuple[str, Any], ...]  # arguments set by the caller, with `SamplingParams` names
    location: Location = field(compare=False)
    backend: Executor | None = None  # backend of this call; None: the run's
    reasoning: Reasoning | None = None  # store the leading reasoning in a separate variable
    tools: ToolUse | None = None  # tools that the model may or must call
    timeout: float | None = None  # seconds from the first call to the end of the generation


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """Selection of a choice: the best score by `method`, or a sample by score if `temperature` is
    above 0."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod
    temperature: float
    seed: int | None
    location: Location = field(compare=False)
    kind: Kind | None = None  # kind of the choices' text, as in `Text`
    backend: Executor | None = None  # as in `Gen`
    timeout: float | None = None  # as in `Gen`

    def __post_init__(self) -> None:
        """Raise OptionError for a choice that is empty, not a string, or repeated."""
        for choice in self.choices:
            if not isinstance(choice, str) or not choice:
                hint = "choices are non-empty strings"
                raise OptionError(f"choice {choice!r} cannot be scored", hint)
            if self.choices.count(choice) > 1:
                raise OptionError(f"choice {choice!r} is repeated", "list each choice once")


@dataclass(frozen=True, slots=True)
class PartSet(Expr):
    """Parts in the order with the longest cached prefix, see `unordered`."""

    parts: tuple[tuple[Part, ...], ...]
    separator: Text
    name: str | None  # variable of the order
    location: Location = field(compare=False)

    def map(self, change: Callable[[Part], Part]) -> PartSet:
        """Return the parts with `change` applied to each text and item, and to the separator."""
        separator = change(self.separator)
        assert isinstance(separator, Text)
        changed = tuple(tuple(map(change, part)) for part in self.parts)
        return replace(self, parts=changed, separator=separator)

    @property
    def media(self) -> frozenset[str]:
        """Kinds of the items in the parts."""
        return frozenset(n.kind for part in self.parts for n in part if not isinstance(n, Text))


@dataclass(frozen=True, slots=True)
class RoleBegin(Expr):
    """Begin of a chat role."""

    role: str


@dataclass(frozen=True, slots=True)
class RoleEnd(Expr):
    """End of a chat role."""

    role: str


@dataclass(frozen=True, slots=True)
class UseTools(Expr):
    """Declaration of `tools` at the begin of the conversation."""

    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True)
class ToolResults(Expr):
    """Results of tool calls, in the tool role."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Concat(Expr):
    """Flat sequence of expressions."""

    nodes: tuple[Expr, ...]


_OF_MEDIA = "__array__", "__array_interface__", "savefig"
"""Attributes of arrays, tensors, Pillow images and figures."""


def parts(value: Any) -> tuple[Expr, ...]:
    """Return the nodes of an expression or string.

    Raises:
        ExpressionError: `value` is neither; the message names the user's line.
    """
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, Concat):
        return value.nodes
    if isinstance(value, Expr):
        return (value,)

    if value is None:
        hint = (
            "a function that returns nothing was used as text; leave out the `+=`, or return an"
            " expression"
        )
    elif isawaitable(value):
        hint = 'await it first: s += await s["name"]'
    elif isinstance(value, MediaItem) or any(hasattr(value, name) for name in _OF_MEDIA):
        hint = "append image(x), video(x) or audio(x)"
    else:
        hint = "append str(value), or an expression such as gen(...)"
    raise ExpressionError(f"{caller()}: {shown(value)} cannot be appended to a program", hint)


class TraceText(str):
    """Text of a trace that stands for a value of any type."""

    __slots__ = ()


_READERS: dict[MediaKind, Callable[..., MediaItem]] = {
    "image": read_image,
    "video": read_video,
    "audio": read_audio,
}


def media(kind: MediaKind, source: Any, options: tuple[tuple[str, Any], ...]) -> Expr:
    """Return the expression of an image, video or audio, or of a trace's value for it.

    Args:
        kind: "image", "video" or "audio".
        source: First argument of the reader, such as `media.read_image`.
        options: Further arguments of the reader.

    Raises:
        MediaError: `source` cannot be read; the message names the user's line.
    """
    if _has_unknown((source, *(value for _, value in options))):
        return UnreadMedia(kind, source, options)
    try:
        return MediaExpr(_READERS[kind](source, **dict(options)), source, options)
    except MediaError as error:
        raise MediaError(f"{caller()}: {error.message}", error.hint) from None


def _has_unknown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_unknown, value))
    return isinstance(value, TraceText)


def noun_of(expr: Expr) -> str:
    """Return the kind of an expression with an article, for errors."""
    match expr:
        case PartSet():
            return "unordered parts"
        case RoleBegin() | RoleEnd():
            return f"the role {expr.role!r}"
        case MediaExpr() | UnreadMedia():
            return with_article(expr.kind)
    return f"a {type(expr).__name__.lower()}"


def role(name: str, expr: Any) -> Concat:
    """Return `expr` between the begin and end of the role `name`; an empty role for None."""
    if name not in ROLES:
        raise ProgramError(f"{caller()}: there is no role {name!r}", nearest(name, ROLES))
    return Concat((RoleBegin(name), *parts("" if expr is None else expr), RoleEnd(name)))


def role_text(template: ChatTemplate, op: RoleBegin | RoleEnd, previous: str | None) -> Segment:
    """Return the template's text for the begin or end of a role.

    `previous` is the role of the last turn. The segment's `origin` records the op, so another
    template can replace the text.
    """
    begins = isinstance(op, RoleBegin)
    text = template.opening(op.role, previous) if begins else template.roles[op.role][1]
    return Segment(text, "raw", (), (op, previous))


def media_segment(item: MediaItem) -> Segment:
    """Return the segment of an item, with its label as text."""
    return Segment(f"[{item.label}]", "media", item=item)


SglImage = SglVideo = MediaExpr
SglExpr, SglExprList, SglConstantText, SglGen, SglSelect = Expr, Concat, Text, Gen, Select
SglRoleBegin, SglRoleEnd, SglSamplingParams = RoleBegin, RoleEnd, SamplingParams
"""SGLang's class names, for annotations and `isinstance`."""

SglFunction: Any
"""SGLang's name of a program. The package sets the value, because the class imports this module."""
