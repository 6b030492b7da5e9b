"""The time of a run by activity: sums, and the part of each activity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sgnb.engine.engine import Engine
from sgnb.events import (
    BranchFinished,
    BranchStarted,
    Extended,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestWaits,
    RunFinished,
    RunStarted,
    Sampled,
    StepRan,
    ToolCalled,
    ToolReturned,
)
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.time_parts import TimeParts

from .random_programs import random_program


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny", context_length=512, max_total_tokens=4096) as engine:
        yield engine


def step(seconds: float, *rows: tuple[int, int, int], sampled: int = 0) -> StepRan:
    tokens = [Sampled(sampled, 5, -1.0)] if sampled else []
    return StepRan(1, seconds, [Extended(*row) for row in rows], tokens, 0, 1, 0, 0, 0)


LOG = [
    (0.0, RunStarted("r1", "", "", 1)),
    (0.0, BranchStarted("r1", "0", "", "")),
    (1.0, RequestQueued(7, "r2", "0", "b", "generate", (1, 2))),
    (1.0, RequestQueued(1, "r1", "0", "a", "generate", (1, 2, 3, 4))),  # Python 1
    (1.5, RequestWaits(1, "running_limit", 2, 1)),  # waiting 0.5
    (3.0, step(1.0, (7, 0, 2))),  # waiting 1.5, of which 1 for r2
    (3.0, RequestAdmitted(1, 0)),
    (4.0, step(1.0, (1, 0, 4), sampled=1)),  # prefill 1
    (4.5, step(0.5, (1, 4, 1), sampled=1)),  # decode 0.5
    (4.5, RequestWaits(1, "mask", 0, 0)),
    (5.5, step(0.25, (1, 5, 1), sampled=1)),  # grammar 0.75, decode 0.25
    (6.0, RequestFinished(1, "stop", 4, 0, 3)),  # decode 0.5
    (6.25, ToolCalled("r1", "0", "search")),  # Python 0.25
    (8.25, ToolReturned("r1", "0", "search")),  # tools 2
    (8.5, BranchFinished("r1", "0", "")),  # Python 0.25
    (9.0, RunFinished("r1", "done")),  # Python 0.5
]
"""Events with times; a comment names the time that ends with the event."""


def test_each_activity_gets_its_time() -> None:
    parts, branch = TimeParts("r1"), TimeParts("r1", "0")
    for seq, (t, event) in enumerate(LOG, 1):
        for one in (parts, branch):
            one.apply(Record(seq, t, event))
    expected = {
        "decode": 1.25, "prefill": 1.0, "grammar": 0.75, "encoder": 0.0, "waiting": 2.0,
        "service": 0.0, "tools": 2.0, "paused": 0.0, "Python": 2.0,
    }  # fmt: skip
    assert parts.seconds == pytest.approx(expected)
    assert branch.seconds == pytest.approx({**expected, "Python": 1.5})
    assert parts.waited_for == branch.waited_for == {"r2": 1.0}
    assert parts.complete and parts.ended and branch.complete and branch.ended
    line = parts.line()
    assert line.startswith("of 9.0 s: ") and line.endswith(
        "decode 1.2 s, prefill 1.0 s, grammar 750 ms"
    )
    assert "waiting for r2 2.0 s" in line


def test_other_activities() -> None:
    """A call without tokens is a service, and a call of the grammar is not a wait."""
    parts = TimeParts("r1")
    log = [
        (0.0, RunStarted("r1", "", "", 1)),
        (0.0, RequestQueued(1, "r1", "0", "a", "generate", ())),
        (1.0, RequestFinished(1, "stop", 3, 0, 2)),  # service 1
        (1.0, RequestQueued(2, "r1", "0", "a", "generate", (1, 2))),
        (1.0, RequestWaits(2, "grammar", 0, 0)),
        (3.0, RequestWaits(2, "encoder", 0, 0)),  # grammar 2
        (6.0, RequestFinished(2, "abort", 2, 0, 0)),  # encoder 3
        (10.0, RunFinished("r1", "done")),  # Python 4
    ]
    for seq, (t, event) in enumerate(log, 1):
        parts.apply(Record(seq, t, event))
    shown = {name: seconds for name, seconds in parts.seconds.items() if seconds}
    assert shown == {"service": 1.0, "grammar": 2.0, "encoder": 3.0, "Python": 4.0}
    parts.advance(12.0)
    assert parts.total == 10.0, "nothing counts after the end"


@pytest.mark.parametrize("programs", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_the_parts_of_random_programs_sum_to_their_time(engine: Engine, programs: int) -> None:
    """Compared with the clock of the program, which the parts do not read."""
    for seed in range(programs):
        engine.flush_cache()
        after = engine.log.last
        states = [
            random_program(seed + i, forks=seed % 3 == 0).run(backend=engine) for i in range(3)
        ]
        for state in states:
            state.wait()
        records = engine.log.read(after).records
        runs = LogState(records).runs
        assert len(runs) == 3
        for run in runs.values():
            assert run.time.total == pytest.approx(run.metrics.seconds)
            assert min(run.time.seconds.values()) >= 0.0
        for state in states:
            program = state.program
            parts = TimeParts(program.run.id, program.root.id)
            for record in records:
                parts.apply(record)
            assert program.begun_at is not None and program.ended_at is not None
            measured = program.ended_at - program.begun_at
            # A busy machine may pause the thread between the event and the clock.
            assert parts.total == pytest.approx(measured, rel=0.02, abs=0.005), seed
            assert parts.seconds["decode"] > 0
