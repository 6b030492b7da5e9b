"""What a program holds in its hands: the state `s`, and the group of states that a fork gives.

Appending never waits; reading a value waits for that value and no longer. A read that cannot be
answered raises the error that ended the program. Everything here only asks the branch and its
program; no state of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, get_args

from ...errors import Aborted, OptionError, ProgramError, nearest, shown
from ...sampling import scalar
from ..ir import Expr, RoleBegin, RoleEnd, role
from ..location import caller
from .branch import Branch
from .ops import Assign, VarScopeBegin, VarScopeEnd
from .program import Program
from .snapshot import Snapshot
from .streaming import iterate, iterate_async
from .timers import checked_timeout

JoinMode = Literal["gather_variable", "concate_and_append"]
JOIN_MODES = get_args(JoinMode)

SHOWN_TEXT = 1000
"""Characters of a state's text in its `repr`, the first and the last of a longer one."""


class ProgramState:
    """One branch of a running program: what a program appends to, and what is read of it."""

    def __init__(self, branch: Branch, inside: bool = False) -> None:
        """inside: the program's own code holds it, on whatever thread or task, and reads what has
        been appended so far. Others wait for what that code may still append."""
        self._branch, self._inside = branch, inside

    @property
    def program(self) -> Program:
        """What runs the branch, for executors."""
        return self._branch.program

    @property
    def run_id(self) -> str:
        """The run's, as `sgnb.runs()` lists it."""
        return self.program.run.id

    @property
    def ret_value(self) -> Any:
        """What the program's function returned. Waits for it, and raises the program's error."""
        program = self.program

        def value() -> Any:
            program.root.raise_error()
            return program.value

        return self._read(lambda: program.finished or not self._may_grow(), value)

    @property
    def tokens(self) -> int:
        """How many tokens the program's generations have made so far, those of forks included.
        Does not wait."""
        return self.program.num_tokens

    @property
    def seconds(self) -> float:
        """From the beginning of the program's code to the end of all that it appended, or so far.
        Does not wait."""
        program = self.program
        if program.begun_at is None:
            return 0.0
        return (program.ended_at or time.monotonic()) - program.begun_at

    def __iadd__(self, expr: Any) -> ProgramState:
        self.program.append(self._branch, expr)
        return self

    def __getitem__(self, name: str) -> Any:
        """Wait for the variable `name`. The value of a stopped generation is its partial text.

        Raises:
            UnknownVariableError: if nothing sets the variable.
        """
        return self._read(*self._reading(name, lambda: self._branch.variables[name]))

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a variable, in order with what was appended, or after the program's end."""
        self.program.add(self._branch, Assign(name, value))

    def __contains__(self, name: str) -> bool:
        """Whether the variable is set, or will be by what was appended so far. Does not wait."""
        return name in self._branch.scope.names

    def get_var(self, name: str) -> Any:
        """`s[name]`."""
        return self[name]

    def set_var(self, name: str, value: Any) -> None:
        """`s[name] = value`."""
        self[name] = value

    def history(self, name: str) -> list[Any]:
        """All values that the variable had, the last one included. Waits as `s[name]` does."""
        branch = self._branch

        def values() -> list[Any]:
            return [*branch.earlier.get(name, ()), branch.variables[name]]

        return self._read(*self._reading(name, values))

    def get_meta_info(self, name: str) -> Any:
        """Meta information of the generation (a list for n > 1) or select `name`, else {}.
        Waits."""
        return self._read(*self._reading(name, lambda: self._branch.meta.get(name, {})))

    def text(self) -> str:
        """All of the branch's text, after what was appended has run, or up to an error."""
        return self._read(self._idle, lambda: self._branch.text + self._branch.partial)

    def token_ids(self) -> list[int]:
        """The tokens of `text`, as the next generation's prompt begins: what the model wrote as the
        tokens that it made, what the program appended as the tokenizer reads it."""
        branch = self._branch
        return self._read(self._idle, lambda: self.program.executor.encode(branch.prompt()[1]))

    def messages(self) -> list[dict[str, str]]:
        """The roles that were ended, as {"role", "content"}. Waits as `text` does."""
        return self._read(self._idle, lambda: [dict(one) for one in self._branch.messages])

    def snapshot(self) -> Snapshot:
        """What the branch holds, apart from its run, after what was appended has run or up to an
        error: `f.run(..., continue_from=...)` goes on from it, on any engine."""
        return self._read(self._idle, self._branch.snapshot)

    def sync(self) -> None:
        """Wait until everything appended has run; raise the branch's error."""
        return self._read(self._idle, self.raise_error)

    @property
    def done(self) -> bool:
        """True if reads do not wait: everything appended has run, or an error ended the branch."""
        with self.program.changed:
            return self._idle()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `sync` does, without raising the branch's error.

        Args:
            timeout: Seconds; None waits without limit, 0 not at all.

        Returns:
            Whether the state is `done`.

        Raises:
            OptionError: if `timeout` is not a number of 0 or more.
        """
        return self.program.wait(self._idle, seconds=limit_of(timeout))

    def error(self) -> BaseException | None:
        """Wait as `text` does, and return the error of the branch, or None. After this the error
        fails neither a later join of the branch nor the run; the same holds for an error caught by
        the program."""
        return self._read(self._idle, self._branch.read_error)

    def raise_error(self) -> None:
        """Raise the error that ended the branch, if one has."""
        self._branch.raise_error()

    def cancel(self) -> None:
        """Stop the calls of the program at the next token, without waiting, from any thread. The
        variable of an unfinished generation has the partial text, with the finish reason "abort".
        Streams end after the partial text, and `error` returns the reason."""
        self.program.cancel()

    def text_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> Iterator[Any]:
        """The branch's text, or that of the variable `var_name`, as it is made (in a run with
        stream=True). Ends where the run was stopped or timed out; other errors are raised after
        the text.

        `return_meta_data` gives pairs of a piece and the meta information so far of the generation
        that it belongs to; {} for text that the program appended. Where log-probabilities were
        asked for, "piece_token_logprobs" has those of the tokens since the last piece.
        """
        return iterate(self._branch, self._may_grow, var_name, return_meta_data)

    def text_async_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """As `text_iter`, on an event loop."""
        return iterate_async(self._branch, self._may_grow, var_name, return_meta_data)

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
        with _ended_by(lambda: self.program.add(self._branch, VarScopeEnd(name))):
            yield

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> ForkGroup:
        """`size` branches that go on from here, once this branch has come here. Does not wait.
        `position_ids_offset` changes nothing, as in SGLang."""
        size = scalar(size)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            message = f"fork({size!r}) is not a number of branches"
            raise OptionError(message, "give an integer of 1 or more")
        return ForkGroup(self, self.program.fork(self._branch, size))

    @contextmanager
    def copy(self, position_ids_offset: Any = None) -> Iterator[ProgramState]:
        """A fork of one branch, joined at the end of the block. `position_ids_offset` changes
        nothing."""
        group = self.fork(1)
        yield group[0]
        group.join()

    def keep(self, fork: ProgramState) -> None:
        """Go on as `fork`, a branch forked from this one or from one of its forks: its text since
        then is appended, as the tokens that it is made of, and its variables are set here. It takes
        nothing more; its siblings are left as they are. Does not wait.
        """
        branch, path = fork._branch, []
        while branch is not self._branch:
            if branch.parent is None:
                message = f"{caller()}: {fork!r} was not forked from {self!r}"
                raise ProgramError(message, "give a branch of s.fork(n)")
            path.append(branch)
            branch = branch.parent
        for child in path:
            assert child.parent is not None
            self.program.join(child.parent, (child,), append=True, keep=True)

    def __reduce__(self) -> Any:
        """For `pickle` and `copy`, which would take the run and its engine along."""
        hint = "state.snapshot() is a copy, and its to_json() a text; s.fork() goes on beside s"
        raise ProgramError("a program's state cannot be pickled or copied", hint)

    def __str__(self) -> str:
        return f"ProgramState({self.text()})"

    def __repr__(self) -> str:
        branch = self._branch
        error = f"error {shown(branch.error)}" if branch.error else ""
        status = error or ("idle" if branch.idle else "running")
        text = branch.text + branch.partial
        begin, end = text[: SHOWN_TEXT // 2], text[-SHOWN_TEXT // 2 :]
        quoted = repr(text) if len(text) <= SHOWN_TEXT else f"{begin!r} … {end!r}"
        return f"<ProgramState {self.run_id} branch {branch.id}, {status}, {quoted}>"

    def _role(self, name: str, expr: Any) -> Any:
        if expr is None:
            return self._role_scope(name)
        self.program.append(self._branch, message := role(name, expr))
        return message

    @contextmanager
    def _role_scope(self, name: str) -> Iterator[None]:
        self.program.append(self._branch, RoleBegin(name))
        with _ended_by(lambda: self.program.append(self._branch, RoleEnd(name))):
            yield

    def _read(self, ready: Callable[[], bool], value: Callable[[], Any]) -> Any:
        """What `value` returns once `ready` says so."""
        self.program.wait(ready)
        return value()

    def _idle(self) -> bool:
        branch = self._branch
        return branch.error is not None or (branch.idle and not self._may_grow())

    def _may_grow(self) -> bool:
        """Whether ops may be added that a read is to wait for."""
        return not (self._inside or self.program.closed)

    def _reading(
        self, name: str, value: Callable[[], Any]
    ) -> tuple[Callable[[], bool], Callable[[], Any]]:
        """`_read`'s arguments for what the last op so far gives that sets `name`."""
        branch, program, names = self._branch, self.program, self._branch.scope.names
        number = names.get(name)

        def ready() -> bool:
            nonlocal number
            number = names.get(name) if number is None else number
            if branch.error is not None or (number is not None and branch.done >= number):
                return True
            if number is None and program.closed:
                return program.finished  # with the error of its code, if it has one
            return number is None and not self._may_grow()

        def found() -> Any:
            if number is None or branch.done < number:
                self.raise_error()
                raise branch.scope.unknown(name, self._names_in_forks())
            return value()

        return ready, found

    def _names_in_forks(self) -> set[str]:
        inside = self._branch.id + "."
        forks = [b.scope for b in self.program.branches if b.id.startswith(inside)]
        return {name for scope in forks for name in scope.names}


@contextmanager
def _ended_by(end: Callable[[], None]) -> Iterator[None]:
    """`end` after the block; after an error in it too, which the program may catch and go on."""
    try:
        yield
    except Exception:
        with suppress(ProgramError, Aborted):  # the block has ended it, or the run was stopped
            end()
        raise
    end()


def limit_of(timeout: Any) -> float:
    """Return the seconds of `wait`'s argument, infinity for None."""
    seconds = checked_timeout(timeout, least=0.0)
    return math.inf if seconds is None else seconds


class ForkGroup(Sequence[ProgramState]):
    """The branches of a fork. `group += x` appends to each: an expression or string, a list with
    one for each branch, or a function of the branch's index.
    """

    def __init__(self, parent: ProgramState, children: tuple[Branch, ...]) -> None:
        self._parent = parent
        self._children = children
        self._states = tuple(type(parent)(child, parent._inside) for child in children)

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, i: Any) -> Any:
        """Branch `i`."""
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

        mode: "gather_variable": each variable that the branches set becomes a list on the parent;
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
