"""The paper's workloads are of their shapes, run whole, and are the same work each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sgnb import Engine
from sgnb.backends import LocalExecutor
from sgnb.benchmark.paper import NAMES, SMALL, Scale, workloads
from sgnb.benchmark.work import RecordingExecutor
from sgnb.errors import OptionError

from ..marks import some_are_slow

LEAST = Scale(0.02, 0.05, 0.02)


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with Engine("tiny") as engine:
        yield LocalExecutor(engine)


@pytest.mark.parametrize("name", some_are_slow(NAMES, set(NAMES) - {"mmlu", "document"}))
def test_a_workload_runs_whole_and_shares_what_it_says(name: str, executor: LocalExecutor) -> None:
    [workload] = workloads([name], LEAST)
    noted = RecordingExecutor(executor)
    executor.flush_cache()
    before = executor.engine.stats()
    states = workload.program.run_batch(workload.rows, backend=noted, temperature=0)
    for state in states:
        state.raise_error()
    after = executor.engine.stats()
    used = {key: after[key] - before[key] for key in ("cached_tokens", "jumped_tokens")}
    assert used["cached_tokens"] if "nocache" in workload.claims else True
    assert bool(used["jumped_tokens"]) is (name == "json")
    assert len(states) == len(workload.rows) > 0
    assert all(call.params.ignore_eos or call.params.grammar for call in noted.work.generations)


def test_data_is_the_same_each_time_and_as_large_as_is_asked() -> None:
    for name in NAMES:
        first, again = (workloads([name])[0] for _ in range(2))
        assert first.rows == again.rows
    [small], [full] = workloads(["chat-long"]), workloads(["chat-long"], Scale(1, 1, 1))
    assert len(full.rows) == 60 and len(small.rows) == round(60 * SMALL.rows)
    assert len(full.rows[0][1][0].split()) == 250


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match="hellaswag"):
        workloads(["helaswag"])
