"""The ops in a branch's queue: nodes of the program with their names and sampling settled.
`Text`, `RoleBegin`, `RoleEnd`, `UseTools` and `ToolResults` are ops as they are. Knows no
execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...sampling import SamplingParams
from ..chat.reasoning import Reasoning
from ..chat.tools import ToolUse
from ..executor import Executor
from ..ir import RoleBegin, RoleEnd, Select, Text, ToolResults, UseTools
from ..location import Location

if TYPE_CHECKING:
    from .branch import Branch


@dataclass(frozen=True, slots=True, eq=False)
class Generate:
    name: str
    params: SamplingParams
    location: Location
    backend: Executor | None = None
    reasoning: Reasoning | None = None
    timeout: float | None = None  # seconds


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GenerateCalls(Generate):
    """In steps, see `ToolUse.write`; `params` are those of its free text."""

    use: ToolUse


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
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
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class VarScopeBegin:
    pass


@dataclass(frozen=True, slots=True)
class VarScopeEnd:
    """The text since the scope began becomes the variable `name`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """The children begin with what the branch holds when it comes here."""

    children: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """Wait for the children; then gather `names` as lists, or, with `append`, append their text.
    With `keep` there is one child, and its values of `names` are the branch's own."""

    children: tuple[Branch, ...]
    names: tuple[str, ...]
    append: bool
    keep: bool = False


Op = (
    Text
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
