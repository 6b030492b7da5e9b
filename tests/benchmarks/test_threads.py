"""The benchmarks of threads, at toy sizes."""

from __future__ import annotations

from typing import Any

from benchmarks import first_runs, nested_batches

from ..lang.fake import FakeExecutor


def test_nested_batches() -> None:
    executor: Any = FakeExecutor()
    report = nested_batches.compare(executor, executor, (3, 2, 4), reads=True, rounds=1)
    assert [row[0] for row in report.rows] == ["one flat batch", "3 levels of batches"]
    assert len([call for call in executor.calls if call.prompt == "Leaf 23:"]) == 3
    executor.close()


def test_first_runs() -> None:
    executor = FakeExecutor()
    report = first_runs.first_runs(executor, programs=7, threads=3, rounds=2)
    assert report.met and report.rows[0][:2] == ("14", 0)
    executor.close()
