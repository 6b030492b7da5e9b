"""What a program holds in its hands: the state `s`, and the group of states that a fork gives.

Appending never waits; reading a value waits for that value and no longer. Everything here only asks
the branch and its program; no state of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import OptionError, ProgramError, nearest
from .branch import Branch
from .ir import Expr, RoleBegin, RoleEnd
from .location import caller
from .ops import Assign, VarScopeBegin, VarScopeEnd
from .primitives import role
from .program import Program
from .streaming import iterate, iterate_async

JOIN_MODES = ("gather_variable", "concate_and_append")


class ProgramState:
    """One branch of a running program. The error that ended it is raised by whatever needs a value
    it never set."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    @property
    def program(self) -> Program:
        return self._branch.program

    @property
    def run_id(self) -> str:
        return self.program.run.id

    @property
    def ret_value(self) -> Any:
        """What the program's function returned. Waits for it, and raises the program's error."""
        program = self.program
        program.wait(lambda: program.finished or not program.may_grow())
        program.root.raise_error()
        return program.value

    def __iadd__(self, expr: Any) -> ProgramState:
        self.program.append(self._branch, expr)
        return self

    def __getitem__(self, name: str) -> Any:
        self._wait_for(name)
        return self._branch.variables[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a variable, in order with what was appended. May overwrite."""
        self.program.add(self._branch, Assign(name, value))

    def __contains__(self, name: str) -> bool:
        """Whether the variable is set, or will be by what was appended so far. Does not wait."""
        return name in self._branch.scope.names

    def get_meta_info(self, name: str) -> Any:
        """What the executor told about a generation (a list for n > 1) or a select; {} for other
        variables. Waits."""
        self._wait_for(name)
        return self._branch.meta.get(name, {})

    def text(self) -> str:
        """All of the branch's text, after what was appended has run. After an error, the text up to
        there."""
        self._wait_idle()
        return self._branch.text + self._branch.partial

    def messages(self) -> list[dict[str, str]]:
        """The roles that were ended, as {"role", "content"}. Waits as `text` does."""
        self._wait_idle()
        return [dict(message) for message in self._branch.messages]

    def sync(self) -> None:
        """Wait until everything appended has run; raise the branch's error."""
        self._wait_idle()
        self.raise_error()

    def error(self) -> BaseException | None:
        """The error that ended the branch, after what was appended has run."""
        self._wait_idle()
        self._branch.seen = True
        return self._branch.error

    def raise_error(self) -> None:
        """Raise the error that ended the branch, if one has."""
        self._branch.raise_error()

    def cancel(self) -> None:
        """Stop this program's calls at the next token, from any thread; what they produced is kept.
        Does not wait."""
        self.program.cancel()

    def text_iter(self, name: str | None = None) -> Iterator[str]:
        """The branch's text, or one variable's, piece by piece as it is made (in a run with
        stream=True)."""
        return iterate(self._branch, name)

    def text_async_iter(
        self, name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """As `text_iter`; `return_meta_data` gives pairs of a piece and the meta information ({}
        till it is there)."""
        return iterate_async(self._branch, name, return_meta_data)

    def system(self, expr: Any = None) -> Any:
        """Append `expr` as the system's words; without it, `with s.system():` does so for what is
        appended inside."""
        return self._role("system", expr)

    def user(self, expr: Any = None) -> Any:
        """As `system`, for the user."""
        return self._role("user", expr)

    def assistant(self, expr: Any = None) -> Any:
        """As `system`, for the assistant."""
        return self._role("assistant", expr)

    @contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        """The text appended inside the block becomes the variable `name`."""
        self._branch.scope.check_new(name)
        self.program.add(self._branch, VarScopeBegin())
        yield
        self.program.add(self._branch, VarScopeEnd(name))

    def fork(self, size: int = 1) -> ForkGroup:
        """`size` branches that go on from here. Does not wait: they begin when this branch has come
        so far."""
        if not isinstance(size, int) or size < 1:
            raise OptionError(
                f"fork({size!r}) is not a number of branches", "give an integer of 1 or more"
            )
        return ForkGroup(self, self.program.fork(self._branch, size))

    @contextmanager
    def copy(self) -> Iterator[ProgramState]:
        """A fork of one branch, joined at the end of the block."""
        group = self.fork(1)
        yield group[0]
        group.join()

    def __repr__(self) -> str:
        branch = self._branch
        status = f"error {branch.error!r}" if branch.error else "idle" if branch.idle else "running"
        return f"<ProgramState {self.run_id} branch {branch.id}, {status}, {branch.text + branch.partial!r}>"

    def _role(self, name: str, expr: Any) -> Any:
        if expr is None:
            return self._role_scope(name)
        self.program.append(self._branch, words := role(name, expr))
        return words

    @contextmanager
    def _role_scope(self, name: str) -> Iterator[None]:
        self.program.append(self._branch, RoleBegin(name))
        yield
        self.program.append(self._branch, RoleEnd(name))

    def _wait_idle(self) -> None:
        branch, program = self._branch, self.program
        program.wait(lambda: branch.error is not None or (branch.idle and not program.may_grow()))

    def _wait_for(self, name: str) -> None:
        """Wait until the last op so far that sets `name` is done; raise what keeps it from being
        set."""
        branch, program = self._branch, self.program
        scope = branch.scope
        if name not in scope.names:
            program.wait(lambda: name in scope.names or not program.may_grow())
        if name not in scope.names:
            raise scope.unknown(name, self._names_in_forks())
        number = scope.names[name]
        program.wait(lambda: branch.done >= number or branch.error is not None)
        if branch.done < number:
            branch.raise_error()

    def _names_in_forks(self) -> set[str]:
        inside = self._branch.id + "."
        return {
            name for b in self.program.branches if b.id.startswith(inside) for name in b.scope.names
        }


class ForkGroup(Sequence[ProgramState]):
    """The branches of a fork. `group += x` appends to each: an expression or string, a list with
    one for each branch, or a function of the branch's index.
    """

    def __init__(self, parent: ProgramState, children: tuple[Branch, ...]) -> None:
        self._parent = parent
        self._children = children
        self._states = tuple(ProgramState(child) for child in children)

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, i: Any) -> Any:
        return self._states[i]

    def __setitem__(self, i: int, state: ProgramState) -> None:
        """Only what `group[i] += expr` needs."""
        if state is not self._states[i]:
            raise ProgramError(
                f"{caller()}: branch {i} of a fork cannot be replaced", f"append: group[{i}] += ..."
            )

    def __iadd__(self, what: Any) -> ForkGroup:
        for state, expr in zip(self._states, self._one_each(what), strict=True):
            state += expr
        return self

    def join(self, mode: str = "gather_variable") -> None:
        """End the branches and bring their work to the parent, in order with what is appended to
        it. Does not wait.

        "gather_variable": each variable that the branches set becomes a list on the parent, in
        their order. "concate_and_append": their text since the fork is appended, one after the
        other. An error in a branch is raised here if it has happened already, and else by whatever
        the parent needs next.
        """
        if mode not in JOIN_MODES:
            raise OptionError(f"join mode {mode!r} is not known", nearest(mode, JOIN_MODES))
        self._parent.program.join(
            self._parent._branch, self._children, append=mode == "concate_and_append"
        )
        self._parent.raise_error()

    def _one_each(self, what: Any) -> list[Any]:
        if isinstance(what, (list, tuple)):
            if len(what) != len(self):
                raise ProgramError(
                    f"{caller()}: {len(what)} expressions for {len(self)} branches",
                    "give one for each",
                )
            return list(what)
        if callable(what) and not isinstance(what, Expr):
            return [what(i) for i in range(len(self))]
        return [what] * len(self)
