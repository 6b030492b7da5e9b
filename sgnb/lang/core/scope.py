"""Static scope of a branch: names, open role and number of ops, before any op has run.

Updated when the program appends, so that unknown variables and nested roles are errors at the
user's line. Independent of values, text and execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ...errors import ProgramError, UnknownVariableError, nearest
from ...sampling import SamplingParams
from ..chat import ROLES
from ..chat.reasoning import reasoning_name
from ..executor import Executor
from ..ir import (
    Expr,
    Gen,
    MediaExpr,
    PartSet,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
    ToolResults,
    UnreadMedia,
    UseTools,
)
from ..location import caller, warn_once
from .ops import Assign, Choose, Generate, GenerateCalls, Op, VarScopeEnd

ParamsOf = Callable[[tuple[tuple[str, Any], ...], bool, Executor | None], SamplingParams]


class Scope:
    """Names, role and op count of a branch."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        """Name -> number of the op that sets it last; ops count from 1, and 0 is inherited."""
        self.own: set[str] = set()  # names set by this branch
        # generated names of unnamed generations, excluded from joins
        self.unnamed: set[str] = set()
        self.role: str | None = None  # open role
        self.forked_in: str | None = None  # role that was open at the fork
        self.in_own_turns = False  # a role has begun or ended since the fork
        self.num_ops = 0
        self.in_conversation = False  # a role has begun in the conversation
        self.tools_declared = False
        self.media: frozenset[str] = frozenset()  # kinds of media in the text
        self.joined = False  # accepts no further ops
        self.children = 0  # number of forked branches

    def child(self) -> Scope:
        """Return the scope of a branch forked at this point."""
        child = Scope()
        child.names = dict.fromkeys(self.names, 0)
        child.unnamed = set(self.unnamed)
        child.role = child.forked_in = self.role
        child.in_conversation = self.in_conversation
        child.tools_declared = self.tools_declared
        child.media = self.media
        return child

    def take_over(self, names: Iterable[str], role: str | None) -> None:
        """Initialize the scope from a snapshot."""
        self.names, self.role = dict.fromkeys(names, 0), role

    def lower(self, node: Expr, params_of: ParamsOf) -> Op:
        """Record and return the op for `node` as the branch's next op. Records nothing after an
        error."""
        match node:
            case Text():
                op: Op = node
            case MediaExpr() | UnreadMedia():
                self.media |= {node.kind}
                op = cast(Op, node)  # a traced branch records an `UnreadMedia` and never begins
            case PartSet():
                if node.name is not None:
                    self.check_new(node.name)
                self.media |= node.media
                op = node
            case Gen():
                params = params_of(node.options, self.role == "assistant", node.backend)
                if params.ignored:
                    warn_once(params.ignored, node.location)
                if params.max_new_tokens == 0 and not params.scores_next:
                    message = "max_tokens=0 generates no text: the model only reads the prompt"
                    warn_once(message, node.location)
                name = self._claim(node.name)
                if node.tools is not None:
                    op = GenerateCalls(
                        name, params, node.location, timeout=node.timeout, use=node.tools
                    )
                else:
                    op = Generate(
                        name=name,
                        params=params,
                        location=node.location,
                        backend=node.backend,
                        reasoning=node.reasoning,
                        timeout=node.timeout,
                    )
            case UseTools():
                op = self._use_tools(node)
            case ToolResults():
                op = self._outside_roles(node)
            case Select():
                op = Choose(self._claim(node.name), node)
            case RoleBegin():
                op = self._begin(node)
            case RoleEnd():
                op = self._end(node)
            case _:
                raise TypeError(f"no op for {node!r}")
        self.record(op)
        return op

    def record(self, op: Op) -> None:
        """Count `op` and register the names that the op sets."""
        self.num_ops += 1
        if isinstance(op, (Generate, Choose, Assign, VarScopeEnd)):
            self.gather([op.name])
        if isinstance(op, PartSet) and op.name is not None:
            self.gather([op.name])
        if isinstance(op, Generate) and op.reasoning is not None and op.name not in self.unnamed:
            self.gather([reasoning_name(op.name)])

    def gather(self, names: Iterable[str]) -> None:
        """Register `names` as set by the latest op."""
        self.names.update(dict.fromkeys(names, self.num_ops))
        self.own.update(names)

    def new_names(self) -> list[str]:
        """Return the names set since the fork in order, without generated names."""
        new = self.own - self.unnamed
        return [name for name in self.names if name in new]

    def check_new(self, name: str) -> None:
        """Warn once if this branch has already set `name`."""
        if name in self.own:
            message = f"the name {name!r} is used again: s[{name!r}] is its last value"
            warn_once(f"{message}, s.history({name!r}) has all", caller())

    def check_joins_as_text(self) -> None:
        """Raise ProgramError if the text since the fork ends the role open at the fork, or leaves a
        role open: the parent's scope would not match the text."""
        if not self.in_own_turns:
            return
        if self.forked_in is not None:
            reason = f"a branch ended the role {self.forked_in!r}, which was open at the fork"
            hint = f"end it in the parent, after the join: {self.forked_in}_end()"
        elif self.role is not None:
            reason = f"a branch has left the role {self.role!r} open"
            hint = f"end it before the join: {self.role}_end()"
        else:
            return
        raise ProgramError(f"{caller()}: {reason}: its text cannot be joined", hint)

    def unknown(self, name: str, in_forks: Iterable[str] = ()) -> UnknownVariableError:
        """Return the error for a name that no op sets. `in_forks`: names set by forks of the
        branch."""
        if name in in_forks:
            hint = "a fork sets it: join() the fork first, or read it from the fork's branch"
        elif self.names:
            hint = nearest(str(name), map(str, self.names))
        else:
            hint = f"the program has no names yet; append gen({name!r}) first"
        return UnknownVariableError(f"{caller()}: nothing sets the variable {name!r}", hint)

    def _claim(self, name: str | None) -> str:
        if name is not None:
            self.check_new(name)
            return name
        number = len(self.unnamed)
        while (made_up := f"gen_{number}") in self.names:
            number += 1
        self.unnamed.add(made_up)
        return made_up

    def _use_tools(self, node: UseTools) -> UseTools:
        if self.in_conversation:
            hint = "append it before the first role: the tools stand where the conversation begins"
            raise ProgramError(f"{caller()}: use_tools comes after the conversation began", hint)
        self.tools_declared = True
        return node

    def _outside_roles(self, node: ToolResults) -> ToolResults:
        if self.role is not None:
            reason = f"a tool result is inside the role {self.role!r}"
            hint = "end the role first: tool results have a separate role"
            raise ProgramError(f"{caller()}: {reason}", hint)
        return node

    def _begin(self, node: RoleBegin) -> RoleBegin:
        if node.role not in ROLES:
            reason = f"there is no role {node.role!r}"
            raise ProgramError(f"{caller()}: {reason}", nearest(node.role, ROLES))
        if self.role is not None:
            reason = f"the role {node.role!r} begins inside the role {self.role!r}"
            hint = f"end the role {self.role!r} first; roles do not nest"
            raise ProgramError(f"{caller()}: {reason}", hint)
        self.role, self.in_conversation, self.in_own_turns = node.role, True, True
        return node

    def _end(self, node: RoleEnd) -> RoleEnd:
        if self.role != node.role:
            inside = f"inside the role {self.role!r}" if self.role else "outside any role"
            reason = f"the role {node.role!r} ends {inside}"
            raise ProgramError(f"{caller()}: {reason}", f"begin it: {node.role}_begin()")
        self.role, self.in_own_turns = None, True
        return node
