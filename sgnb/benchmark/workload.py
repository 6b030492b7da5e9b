"""What is measured: a program over rows, and what it is to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from ..errors import OptionError
from .work import Same

ONE_ROW = ((),)
"""Of a program without arguments."""

NO_DEFAULTS = ("backend", "save", "as_frame", "generator_style")
"""Options of `run_batch` with which a run is no longer all rows on what is measured."""


@dataclass(frozen=True)
class Workload:
    """A program over rows of arguments, as `run_batch` takes them; one run of it is all rows.

    claims: what is said of it, by the variant that it is compared with, as in
    {"nocache": "few-shot prompts share their examples"}. A claim is that the variant takes longer;
    the report says of each whether that was seen.
    """

    name: str
    program: Any  # has `run_batch(rows, backend=...)`
    rows: Any = ONE_ROW  # an iterator is read here: every run needs them
    claims: Mapping[str, str] = field(default_factory=dict)
    against: Sequence[Any] = ()  # variants and peers besides those of `claims`; see `bench`
    # For an engine of the workload's own, as to `sgnb.load`: a small cache, few requests at once.
    engine: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # sampling, as to `run_batch`
    # "tokens": as many tokens are enough, of whatever text, as with random weights.
    same: Same = "text"

    def __post_init__(self) -> None:
        if self.same not in get_args(Same):
            raise OptionError(f"same={self.same!r} is not allowed", "give text or tokens")
        if wrong := [name for name in NO_DEFAULTS if name in self.defaults]:
            hint = "defaults are for sampling: temperature, seed, max_new_tokens"
            raise OptionError(f"{wrong[0]}= has no place in a benchmark", hint)
        if isinstance(self.rows, Iterator):
            object.__setattr__(self, "rows", list(self.rows))

    @property
    def opponents(self) -> list[Any]:
        """All that it is compared with, once each."""
        return list(dict.fromkeys([*self.claims, *self.against]))
