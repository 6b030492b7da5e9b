"""Groups of states from forks: append to all branches, and join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...errors import OptionError, ProgramError, nearest
from ..ir import Expr
from ..location import caller
from .branch import Branch

if TYPE_CHECKING:
    from .state import ProgramState

JoinMode = Literal["gather_variable", "concate_and_append"]
JOIN_MODES = get_args(JoinMode)


class ForkGroup(Sequence["ProgramState"]):
    """Branches of a fork.

    `group += x` appends to each branch: an expression or string, a list with an expression per
    branch, or a function of the branch's index. `group[i]` is the state of a branch.
    """

    def __init__(self, parent: ProgramState, children: tuple[Branch, ...]) -> None:
        self._parent = parent
        self._children = children
        self._states = tuple(type(parent)(child, parent._inside) for child in children)

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, i: Any) -> Any:
        """Return the state of branch `i`."""
        return self._states[i]

    def __setitem__(self, i: int, state: ProgramState) -> None:
        """Support `group[i] += expr`; other assignments raise ProgramError."""
        if state is not self._states[i]:
            reason = f"branch {i} of a fork cannot be replaced"
            raise ProgramError(f"{caller()}: {reason}", f"append: group[{i}] += ...")

    def __iadd__(self, step: Any) -> ForkGroup:
        for state, expr in zip(self._states, self._one_each(step), strict=True):
            state += expr
        return self

    def join(self, mode: JoinMode = "gather_variable") -> None:
        """End the branches and return the results to the parent, in order with appended
        expressions. Does not wait.

        An error of a branch is raised here or by the next read of the parent.

        Args:
            mode: "gather_variable": each variable set by the branches becomes a list in the parent.
                "concate_and_append": the text of each branch since the fork is appended to the
                parent.

        Raises:
            OptionError: `mode` is unknown.
            ProgramError: With "concate_and_append", a branch ends a role of the parent or leaves a
                role open.
        """
        if mode not in JOIN_MODES:
            raise OptionError(f"join mode {mode!r} is not known", nearest(mode, JOIN_MODES))
        append = mode == "concate_and_append"
        self._parent.program.join(self._parent._branch, self._children, append)
        self._parent.raise_error()

    def _one_each(self, step: Any) -> list[Any]:
        if isinstance(step, (list, tuple)):
            if len(step) != len(self):
                message = f"{caller()}: {len(step)} expressions for {len(self)} branches"
                raise ProgramError(message, "give one for each")
            return list(step)
        if callable(step) and not isinstance(step, Expr):
            return [step(i) for i in range(len(self))]
        return [step] * len(self)
