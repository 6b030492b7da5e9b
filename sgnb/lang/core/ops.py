"""Ops of a branch's queue: expressions with resolved names and sampling parameters. `Text`,
`MediaExpr`, `PartSet`, `RoleBegin`, `RoleEnd`, `UseTools` and `ToolResults` are ops
themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...sampling import SamplingParams
from ..chat.reasoning import Reasoning
from ..chat.tools import ToolUse
from ..executor import Executor
from ..ir import MediaExpr, PartSet, RoleBegin, RoleEnd, Select, Text, ToolResults, UseTools
from ..location import Location

if TYPE_CHECKING:
    from .branch import Branch


@dataclass(frozen=True, slots=True, eq=False)
class Generate:
    """Generate text."""

    name: str
    params: SamplingParams
    location: Location
    backend: Executor | None = None
    reasoning: Reasoning | None = None
    timeout: float | None = None  # seconds


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GenerateCalls(Generate):
    """Generate text or tool calls in steps, see `ToolUse.write`. `params` apply to the free
    text."""

    use: ToolUse


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """Select a choice."""

    name: str
    select: Select

    @property
    def backend(self) -> Executor | None:
        return self.select.backend

    @property
    def timeout(self) -> float | None:
        return self.select.timeout


@dataclass(frozen=True, slots=True)
class Assign:
    """Set a variable."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class VarScopeBegin:
    """Begin a scope whose text becomes a variable."""

    pass


@dataclass(frozen=True, slots=True)
class VarScopeEnd:
    """End a scope: the text since the begin becomes the variable `name`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """Begin the children with the current content of the branch."""

    children: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """Wait for the children, then set `names` to lists of the children's values. With `append`,
    append the children's text instead. With `keep` there is a single child, and `names` get the
    child's values."""

    children: tuple[Branch, ...]
    names: tuple[str, ...]
    append: bool
    keep: bool = False


Op = (
    Text
    | MediaExpr
    | PartSet
    | RoleBegin
    | RoleEnd
    | UseTools
    | ToolResults
    | Generate
    | Choose
    | Assign
    | VarScopeBegin
    | VarScopeEnd
    | Fork
    | Join
)
