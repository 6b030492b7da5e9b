"""What a program holds in its hands: the state `s`, and the group of states that a fork gives.

Appending never waits; reading a value waits for that value and no longer. Everything here only asks
the branch and its program; no state of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

from ..errors import OptionError, ProgramError, nearest
from ..sampling import scalar
from .branch import Branch
from .ir import Expr, RoleBegin, RoleEnd
from .location import caller
from .ops import Assign, VarScopeBegin, VarScopeEnd
from .primitives import role
from .program import Program
from .streaming import iterate, iterate_async

JoinMode = Literal["gather_variable", "concate_and_append"]
JOIN_MODES = get_args(JoinMode)


class ProgramState:
    """One branch of a running program. Reading a value that it never set raises the error that
    ended it."""

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
        """Meta information of a generation (a list for n > 1) or a select, else {}. Waits."""
        self._wait_for(name)
        return self._branch.meta.get(name, {})

    def text(self) -> str:
        """All of the branch's text, after what was appended has run, or up to an error."""
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
        """Stop this program's calls at the next token; what they produced is kept. Any thread may
        call this; it does not wait."""
        self.program.cancel()

    def text_iter(self, name: str | None = None) -> Iterator[str]:
        """The branch's text, or one variable's, as it is made (in a run with stream=True)."""
        return iterate(self._branch, name)

    def text_async_iter(
        self, name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """As `text_iter`; `return_meta_data` gives pairs (piece, meta information or {})."""
        return iterate_async(self._branch, name, return_meta_data)

    def system(self, expr: Any = None) -> Any:
        """Append `expr` as the system prompt; `with s.system():` takes what is appended inside."""
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
        """`size` branches that go on from here, once this branch has come here. Does not wait."""
        size = scalar(size)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            message = f"fork({size!r}) is not a number of branches"
            raise OptionError(message, "give an integer of 1 or more")
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
        text = branch.text + branch.partial
        return f"<ProgramState {self.run_id} branch {branch.id}, {status}, {text!r}>"

    def _role(self, name: str, expr: Any) -> Any:
        if expr is None:
            return self._role_scope(name)
        self.program.append(self._branch, message := role(name, expr))
        return message

    @contextmanager
    def _role_scope(self, name: str) -> Iterator[None]:
        self.program.append(self._branch, RoleBegin(name))
        yield
        self.program.append(self._branch, RoleEnd(name))

    def _wait_idle(self) -> None:
        branch, program = self._branch, self.program
        program.wait(lambda: branch.error is not None or (branch.idle and not program.may_grow()))

    def _wait_for(self, name: str) -> None:
        """Wait for the last op so far that sets `name`; raise what keeps it from being set."""
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
        forks = [b.scope for b in self.program.branches if b.id.startswith(inside)]
        return {name for scope in forks for name in scope.names}


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
            what = f"branch {i} of a fork cannot be replaced"
            raise ProgramError(f"{caller()}: {what}", f"append: group[{i}] += ...")

    def __iadd__(self, what: Any) -> ForkGroup:
        for state, expr in zip(self._states, self._one_each(what), strict=True):
            state += expr
        return self

    def join(self, mode: JoinMode = "gather_variable") -> None:
        """End the branches and bring their work to the parent, in order with what is appended to
        it. Does not wait. An error in a branch is raised here or by what the parent needs next.

        "gather_variable": each variable that the branches set becomes a list on the parent.
        "concate_and_append": their text since the fork is appended, one after the other.
        """
        if mode not in JOIN_MODES:
            raise OptionError(f"join mode {mode!r} is not known", nearest(mode, JOIN_MODES))
        append = mode == "concate_and_append"
        self._parent.program.join(self._parent._branch, self._children, append)
        self._parent.raise_error()

    def _one_each(self, what: Any) -> list[Any]:
        if isinstance(what, (list, tuple)):
            if len(what) != len(self):
                message = f"{caller()}: {len(what)} expressions for {len(self)} branches"
                raise ProgramError(message, "give one for each")
            return list(what)
        if callable(what) and not isinstance(what, Expr):
            return [what(i) for i in range(len(self))]
        return [what] * len(self)
