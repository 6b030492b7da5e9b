"""Sampling parameters of a run that no call uses, because each call sets the parameter itself."""

from __future__ import annotations

from ..lang import Run
from ..lang.code import DEFAULTS
from ..lang.core.ops import Generate
from ..lang.location import warn_once
from ..sampling import SHORT_NAMES, SamplingParams

_SHORT = {long: short for short, long in SHORT_NAMES.items()}


def warn_of_unused_settings(run: Run) -> None:
    """Warn, for a finished run, of each sampling parameter that every generation replaced. Stops
    are excluded: a chat template extends the stops of a call."""
    standard, given = SamplingParams(), run.defaults
    names = [name for name in DEFAULTS if getattr(given, name) != getattr(standard, name)]
    names = [name for name in names if not isinstance(getattr(standard, name), tuple)]
    if not names:
        return

    branches = (branch for state in run.states for branch in state.program.branches)
    ops = [call.op for branch in branches for call in branch.calls]
    generations = [op for op in ops if isinstance(op, Generate)]
    for name in names if generations else ():
        value, first, short = getattr(given, name), generations[0], _SHORT.get(name, name)
        if all(getattr(op.params, name) != value for op in generations):
            others = ", and all other calls set their own" if len(generations) > 1 else ""
            own = f"gen {first.name!r} sets {short}={getattr(first.params, name)!r}"
            warn_once(f"{short}={value!r} has no effect: {own}{others}", first.location)
