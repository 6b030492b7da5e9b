"""What is known of a branch before anything has run: its names, its role, how many ops it was
given.

The program writes here, at its own speed; so a name that can never be set and a role inside a role
are errors at the line that says them. Knows no values, no text and no execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ProgramError, nearest
from ..sampling import SamplingParams
from .chat import ROLES
from .ir import Expr, Gen, RoleBegin, RoleEnd, Select, Text
from .location import caller
from .ops import Assign, Choose, Generate, Op, VarScopeEnd

ParamsOf = Callable[[tuple[tuple[str, Any], ...], bool], SamplingParams]


class Scope:
    """`names[name]` is the number of the op that sets the name last; ops count from 1, and 0 is
    inherited.

    own: names that this branch set itself, and which a join must not overwrite.
    gathered: names that a join set, and which the next join may set again.
    unnamed: names made up for generations without one; a join leaves them alone.
    joined: the branch takes no more ops. children: how many branches were forked from it.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.own: set[str] = set()
        self.gathered: set[str] = set()
        self.unnamed: set[str] = set()
        self.role: str | None = None
        self.num_ops = 0
        self.joined = False
        self.children = 0

    def child(self) -> Scope:
        """The scope that a fork at this point begins with."""
        child = Scope()
        child.names = dict.fromkeys(self.names, 0)
        child.unnamed = set(self.unnamed)
        child.role = self.role
        return child

    def lower(self, node: Expr, params_of: ParamsOf) -> Op:
        """The op for `node`, recorded as the branch's next. A ProgramError or OptionError records
        nothing."""
        match node:
            case Text():
                op: Op = node
            case Gen():
                params = params_of(node.options, self.role == "assistant")
                op = Generate(self._claim(node.name), params, node.location)
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
        """Count `op`; an op that sets a name now answers for it."""
        self.num_ops += 1
        if isinstance(op, (Generate, Choose, Assign, VarScopeEnd)):
            self.names[op.name] = self.num_ops
            self.own.add(op.name)
            self.gathered.discard(op.name)

    def gather(self, names: Iterable[str]) -> None:
        """The latest op sets all of `names`."""
        self.names.update(dict.fromkeys(names, self.num_ops))
        self.gathered.update(names)

    def new_names(self) -> list[str]:
        """The names set since the fork, in their order; those without a name of their own are left
        out."""
        new = (self.own | self.gathered) - self.unnamed
        return [name for name in self.names if name in new]

    def check_new(self, name: str) -> None:
        """Refuse a name that this branch has set already."""
        if name in self.own:
            raise ProgramError(
                f"{caller()}: the name {name!r} is used twice in one branch, which would lose the first value",
                f'in a loop give each turn its own name, such as f"{name}_{{i}}"; s[{name!r}] = ... may overwrite',
            )

    def unknown(self, name: str, in_forks: Iterable[str] = ()) -> ProgramError:
        """The error for a name that no op sets. `in_forks`: names that forks of the branch
        know."""
        if name in in_forks:
            hint = (
                "a fork sets it: call join() on the fork first, or read it from the fork's branch"
            )
        elif self.names:
            hint = nearest(name, self.names)
        else:
            hint = f"the program has no names yet; append gen({name!r}) first"
        return ProgramError(f"{caller()}: nothing sets the variable {name!r}", hint)

    def _claim(self, name: str | None) -> str:
        if name is not None:
            self.check_new(name)
            return name
        number = len(self.unnamed)
        while (made_up := f"gen_{number}") in self.names:
            number += 1
        self.unnamed.add(made_up)
        return made_up

    def _begin(self, node: RoleBegin) -> RoleBegin:
        if node.role not in ROLES:
            raise ProgramError(
                f"{caller()}: there is no role {node.role!r}", nearest(node.role, ROLES)
            )
        if self.role is not None:
            raise ProgramError(
                f"{caller()}: the role {node.role!r} begins inside the role {self.role!r}",
                f"end the role {self.role!r} first; roles do not nest",
            )
        self.role = node.role
        return node

    def _end(self, node: RoleEnd) -> RoleEnd:
        if self.role != node.role:
            inside = f"inside the role {self.role!r}" if self.role else "outside any role"
            raise ProgramError(
                f"{caller()}: the role {node.role!r} ends {inside}",
                f"begin it: {node.role}_begin()",
            )
        self.role = None
        return node
