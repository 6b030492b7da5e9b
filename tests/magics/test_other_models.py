"""Cells whose calls name another engine, or a model that is no engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sgnb
from sgnb.errors import EngineError
from tests.lang.fake import FakeExecutor

from .conftest import Shell

CELL = """s += user("Name a city.") + assistant(gen("draft", max_tokens=6))
s += user("Good?") + assistant(select("good", ["yes", "no"], backend=judge)
    + gen("why", max_tokens=4, backend=judge))
s += user("In short?") + assistant(gen("short", max_tokens=9, backend=far)
    + select("sure", ["yes", "no"], backend=far))
"""


@pytest.fixture
def models(shell: Shell) -> Iterator[tuple[Any, FakeExecutor]]:
    """The notebook's `judge` and `far`."""
    shell("%sglang load tiny")
    judge = sgnb.load("tiny", name="judge")
    shell("%sglang engine use tiny")
    far = FakeExecutor("short")
    far.model_name = "somewhere/far-away"  # type: ignore[attr-defined]
    shell.ns.update(judge=judge, far=far)
    yield judge, far
    far.close()
    if "judge" in sgnb.engines.names():
        sgnb.cancel()
        sgnb.unload("judge")


def test_a_cell_over_several_models(
    shell: Shell, models: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell(f"%%sglang duel --show text,tree\n{CELL}")
    out = capsys.readouterr().out
    heads = [line.split(":")[0] for line in out.splitlines()]
    assert {"A tiny", "B tiny", "C far-away"} <= set(heads)
    assert {"radix tree of A tiny", "radix tree of B tiny"} <= set(heads)
    assert "C far-away: no tokens counted" in out
    trace = sgnb.recording()
    assert "short = 'short'  (by C)" in trace.text()

    report = sgnb.why_no_hit(shell.ns["s"])
    table = {row["call"]: row["model"] for row in report.table()}
    assert table == {"draft [0]": "", "good [0]": "B tiny", "why [0]": "B tiny"}


def test_a_dry_run_asks_no_other_model(shell: Shell, models: Any) -> None:
    judge, far = models
    judge.flush_cache()
    last = judge.log.last
    report = shell(f"%%sglang --dry\n{CELL}")
    assert (judge.log.last, far.calls) == (last, [])
    calls = {call.name: call for call in report.calls}
    asked = ["", "tiny", "tiny", "far-away", "far-away"]
    assert list(calls) == ["draft", "good", "why", "short", "sure"]
    assert [call.model for call in report.calls] == asked
    assert [row["model"] for row in report.table()] == asked
    assert calls["why"].shared_tokens > 0, "its own prompts share, in its own cache"
    assert calls["why"].prompt_tokens > calls["why"].shared_tokens
    assert calls["short"].prompt_tokens == 0
    warning = "short: far-away is not an engine in this process"
    assert any(line.startswith(warning) for line in report.warnings)


def test_an_engine_that_a_run_asks_is_in_use(shell: Shell, models: Any) -> None:
    shell('%%sglang --bg\ns += "Once" + gen("a", max_tokens=2000, ignore_eos=True, backend=judge)')
    background = shell.ns["s"]
    while not models[0].stats()["running"]:
        assert background.status == "running"
    with pytest.raises(EngineError, match=f"judge is in use by {background.run.id}"):
        sgnb.unload("judge")
    background.cancel()
    with pytest.raises(BaseException, match="stopped"):
        background.wait()
    sgnb.unload("judge")
