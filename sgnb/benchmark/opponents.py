"""What a workload is compared with, by name: techniques to do without, libraries, addresses, other
programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import OptionError, nearest, shown
from ..viz import AS_IS
from .endpoint import Endpoint, is_url, shown_url
from .peers import LIBRARIES, PeerSide, Weights
from .runner import Clock, Measured, Ours, Side, Tell, measure
from .variants import ABLATIONS
from .workload import Workload

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

ITSELF = "itself"
OPPONENTS = (*ABLATIONS, ITSELF, *LIBRARIES)
"""Names that `against` may hold, beside addresses and programs."""


def check_opponent(opponent: Any, clock: Clock) -> None:
    """OptionError for what nothing can be compared with."""
    if isinstance(opponent, str) and is_url(opponent) and clock == "cpu":
        message = f"{shown_url(opponent)} works in another process, whose time is not known here"
        raise OptionError(message, "leave out clock='cpu'")
    if not isinstance(opponent, str):
        if not hasattr(opponent, "run_batch"):
            hint = f"give a program, an address, or one of {', '.join(OPPONENTS)}"
            raise OptionError(f"against {shown(opponent)}: that is no program", hint)
    elif opponent not in OPPONENTS and not is_url(opponent):
        hint = f"{nearest(opponent, OPPONENTS)} An address begins with http://"
        raise OptionError(f"against {opponent!r}: there is no such variant", hint)


def bench(
    executor: LocalExecutor,
    workload: Workload,
    against: Sequence[Any],
    rounds: int,
    measured: Measured,
    tell: Tell = lambda line: None,
) -> None:
    """Measure the workload on the engine, as it is and against each of `against`, into
    `measured`."""
    with ExitStack() as stack:
        sides: dict[str, Side] = {AS_IS: Ours(executor, workload, measured.clock)}
        weights = Weights(executor)
        for opponent in against:
            name, side = _side(executor, workload, opponent, weights, measured.clock)
            stack.callback(side.close)
            sides[name] = side
        measure(workload, sides, rounds, measured, tell)


def _side(
    executor: LocalExecutor, workload: Workload, opponent: Any, weights: Weights, clock: Clock
) -> tuple[str, Side]:
    if not isinstance(opponent, str):
        name = getattr(opponent, "__name__", "program")
        other = replace(workload, program=opponent)
        return name, Ours(executor, other, clock, f"as the program {name}")
    if opponent in ABLATIONS:
        what = f"without {ABLATIONS[opponent].technique}"
        return opponent, Ours(executor, workload, clock, what, opponent)
    if opponent == ITSELF:
        return opponent, Ours(executor, workload, clock, "with nothing changed")
    if opponent in LIBRARIES:
        return opponent, PeerSide(LIBRARIES[opponent](executor, weights), workload, clock)
    return shown_url(opponent), PeerSide(Endpoint(executor, opponent), workload, clock)
