"""Opponents of a workload by name: ablations, libraries, server addresses, other programs. Takes no
measurements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import OptionError, nearest, shown
from ..lang.batches.rows import is_program
from ..viz import AS_IS
from .http_peer import HttpPeer, check_url, is_url
from .measurement import Clock, EngineSide, Measurements, Side, Tell, measure
from .peers import LIBRARIES, PeerSide, Weights
from .variants import ABLATIONS
from .workload import Workload

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

ITSELF = "itself"
OPPONENTS = (*ABLATIONS, ITSELF, *LIBRARIES)
"""Valid names in `vs`, in addition to addresses and programs."""


def check_opponents(opponents: Sequence[Any], clock: Clock) -> None:
    """Check the opponents of a benchmark.

    Args:
        opponents: Names, addresses or programs.
        clock: Clock of the benchmark.

    Raises:
        OptionError: An opponent is unknown, or two opponents have the same name.
    """
    if isinstance(opponents, str):
        raise OptionError(f"vs={opponents!r} is a single name", f"give a list: [{opponents!r}]")
    if not opponents:
        hint = f"name some of {', '.join(OPPONENTS)}, an address, or a program"
        raise OptionError("vs is empty", hint)

    named: dict[str, Any] = {}
    for opponent in opponents:
        _check(opponent, clock)
        name = _name(opponent)
        if name in OPPONENTS and not isinstance(opponent, str):
            message = f"the name {name!r} of a program is also the name of a variant"
            raise OptionError(message, "give it another name")
        if named.setdefault(name, opponent) != opponent:
            raise OptionError(f"two programs are called {name!r}", "give one another name")


def _check(opponent: Any, clock: Clock) -> None:
    if not isinstance(opponent, str):
        if not is_program(opponent):
            hint = f"give a program, an address, or one of {', '.join(OPPONENTS)}"
            raise OptionError(f"vs {shown(opponent)}: not a program", hint)
    elif is_url(opponent):
        check_url(opponent)
        if clock == "cpu":
            message = (
                f"{opponent} runs in another process, and clock='cpu' measures only this process"
            )
            raise OptionError(message, "leave out clock='cpu'")
    elif opponent not in OPPONENTS:
        hint = f"{nearest(opponent, OPPONENTS)} An address starts with http://"
        raise OptionError(f"vs {opponent!r}: not a variant", hint)


def _name(opponent: Any) -> str:
    return opponent if isinstance(opponent, str) else getattr(opponent, "__name__", "program")


def bench(
    executor: LocalExecutor,
    against: Sequence[Any],
    measured: Measurements,
    tell: Tell = lambda line: None,
) -> None:
    """Measure the workload on the engine, unmodified and against each opponent.

    Args:
        executor: Executor of the engine.
        against: Opponents: names, addresses or programs.
        measured: Workload and number of rounds. Receives the samples, also before an interrupt.
        tell: Shows a line of progress.
    """
    with ExitStack() as stack:
        workload = measured.workload
        sides: dict[str, Side] = {AS_IS: EngineSide(executor, workload.run, measured.clock)}
        weights = Weights(executor)
        for opponent in against:
            side = _side(executor, workload, opponent, weights, measured.clock)
            stack.callback(side.close)
            sides[_name(opponent)] = side
        measure(sides, measured, tell)


def _side(
    executor: LocalExecutor, workload: Workload, opponent: Any, weights: Weights, clock: Clock
) -> Side:
    if not isinstance(opponent, str):
        other = replace(workload, program=opponent)
        return EngineSide(executor, other.run, clock, f"with the program {_name(opponent)}")
    if opponent in ABLATIONS:
        title = f"without {ABLATIONS[opponent].technique}"
        return EngineSide(executor, workload.run, clock, title, opponent)
    if opponent == ITSELF:
        return EngineSide(executor, workload.run, clock, "with nothing changed")
    if opponent in LIBRARIES:
        return PeerSide(LIBRARIES[opponent](executor, weights), workload, clock)
    return PeerSide(HttpPeer(executor, opponent), workload, clock)
