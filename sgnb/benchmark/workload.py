"""Definition of a benchmark: a program over rows, and claims to verify. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from ..errors import OptionError
from ..lang import ProgramState
from ..lang.executor import Executor
from .work import Same

ONE_ROW = ((),)
"""Rows of a program without arguments."""

NO_DEFAULTS = ("backend", "save", "as_frame", "generator_style")
"""Options of `run_batch` without a meaning in a benchmark."""


@dataclass(frozen=True)
class Workload:
    """Program over rows of arguments, as in `run_batch`. One run covers all rows.

    Attributes:
        claims: Expected effect by opponent, such as {"nocache": "few-shot prompts share their
            examples"}. A claim states that the opponent is slower; the report says if the
            measurement agrees.
    """

    name: str
    program: Any  # object with `run_batch(rows, backend=...)`
    rows: Any = ONE_ROW  # iterators are read once, because every run needs all rows
    claims: Mapping[str, str] = field(default_factory=dict)
    vs: Sequence[Any] = ()  # opponents in addition to `claims`; see `bench`
    # Options of `sgnb.load` for a private engine: a small cache, few concurrent requests.
    engine: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # sampling parameters for `run_batch`
    # "tokens" requires only equal numbers of tokens, for example with random weights.
    same: Same = "text"

    def __post_init__(self) -> None:
        if self.same not in get_args(Same):
            raise OptionError(f"same={self.same!r} is not allowed", "give text or tokens")
        if wrong := [name for name in NO_DEFAULTS if name in self.defaults]:
            hint = "defaults are for sampling: temperature, seed, max_new_tokens"
            raise OptionError(f"{wrong[0]}= is not a sampling option", hint)
        if isinstance(self.rows, Iterator):
            object.__setattr__(self, "rows", list(self.rows))

    def run(self, executor: Executor) -> list[ProgramState]:
        """Run all rows and return the states.

        Args:
            executor: Executor of the run.

        Raises:
            Exception: The first error of a row.
        """
        states = self.program.run_batch(self.rows, backend=executor, **self.defaults)
        for state in states:
            state.raise_error()
        return list(states)

    @property
    def opponents(self) -> list[Any]:
        """Return all opponents without duplicates."""
        return list(dict.fromkeys([*self.claims, *self.vs]))
