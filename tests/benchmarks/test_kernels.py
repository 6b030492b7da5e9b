"""The benchmark of single kernels: its calls in triton's interpreter, what it says without a GPU,
how it fails."""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu import clock, kernels, loading

from ..engine.interpreter import interpreted, needs_triton


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.slow
@needs_triton
def test_what_is_timed_runs_in_the_interpreter() -> None:
    assert interpreted("tests.benchmarks.kernels_check")[-2:] == ["all", "ran"]


def test_loading_has_a_toy_size() -> None:
    report = loading.run()
    assert [row[0] for row in report.rows] == [
        "sgnb",
        "sgnb, cast to float16",
        "transformers, then to the device",
    ]
    assert all(float(row[1]) > 0 for row in report.rows)


def test_kernels_say_that_they_need_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main(["--only", "experts,sampling"]) == 0
    assert capsys.readouterr().out.count("Needs an NVIDIA GPU.") == 2


def test_unknown_parts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kernels.main(["--only", "experts,attention"])
    assert (
        "no 'attention'; there are experts, invariant, skinny, layers, sampling, loading"
        in capsys.readouterr().err
    )


def test_a_case_that_fails_leaves_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("out of luck\nand more")

    def run(calls: object) -> float:
        fail()
        return 1.0

    assert clock.attempt("a case", run, [fail]) is None
    assert capsys.readouterr().out == "a case: failed: ValueError: out of luck\n"
    assert clock.microseconds(None) == clock.times(None, 1.0) == clock.times(1.0, None) == "-"


def test_a_part_that_fails_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("no folder")

    monkeypatch.setattr(loading, "run", broken)
    assert kernels.main(["--only", "loading,experts"]) == 0
    out = capsys.readouterr().out
    assert "failed: RuntimeError: no folder" in out and "Needs an NVIDIA GPU." in out


def test_caches_stay_cold() -> None:
    for size in (1 << 10, 1 << 18, 1 << 24, 1 << 30):
        count = clock.copies(size)
        assert clock.FEWEST <= count <= clock.MOST
        assert count * size >= 2 * clock.CACHE_BYTES or count == clock.MOST
