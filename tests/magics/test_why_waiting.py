"""`sgnb.why_waiting` on the real engine."""

from __future__ import annotations

import time
from typing import Any

import pytest

import sgnb
from sgnb import gen
from sgnb.errors import OptionError


@sgnb.function
def story(s: Any, start: str) -> None:
    s += start
    s += gen("text", max_tokens=2000, ignore_eos=True)


def test_a_program_waits_for_the_running_limit(shell: Any) -> None:
    sgnb.load("tiny", max_running_requests=1)
    first, second = (story.run(start) for start in ("Once", "Twice"))
    try:
        deadline = time.monotonic() + 30
        while not (waiting := sgnb.why_waiting(first) + sgnb.why_waiting(second)):
            assert time.monotonic() < deadline, "both programs run"
            time.sleep(0.01)
        while waiting and waiting[0].wait.reason != "running_limit":
            waiting = sgnb.why_waiting(first) + sgnb.why_waiting(second)
        assert len(waiting) == 1 and waiting[0].name == "text"
        assert "the limit is 1" in str(waiting[0])
    finally:
        first.cancel()
        second.cancel()
    first.wait(timeout=30)
    second.wait(timeout=30)
    assert sgnb.why_waiting(first) == sgnb.why_waiting(second) == []


def test_only_states_of_programs(shell: Any) -> None:
    with pytest.raises(OptionError, match="is not a state of a program"):
        sgnb.why_waiting("text")  # type: ignore[arg-type]
