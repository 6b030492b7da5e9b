"""`sgnb.why_slow` on the real engine: time that a program spends on purpose is found."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import sgnb
from sgnb import gen
from sgnb.errors import OptionError

NAP = 0.15


def nap(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


async def async_nap(seconds: float) -> str:
    """Sleep without blocking."""
    await asyncio.sleep(seconds)
    return "slept"


def test_python_and_tools(shell: Any) -> None:
    sgnb.load("tiny")

    @sgnb.function
    def program(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=4)
        s.sync()
        time.sleep(NAP)
        call = sgnb.ToolCall("nap", {"seconds": 2 * NAP}, sgnb.Tool(nap))
        s += call()

    state = program.run()
    state.wait()
    report = sgnb.why_slow(state)
    assert report.seconds["tools"] >= 2 * NAP
    assert report.seconds["Python"] >= NAP
    assert report.seconds["tools"] + report.seconds["Python"] < report.total
    assert sum(report.seconds.values()) == pytest.approx(report.total)
    assert str(report).startswith("of ") and "Python" in str(report)
    assert "tools" in report._repr_html_() and report.table()[0]["part"] == "decode"
    log = state.program.executor.log.read().records
    tools = [type(r.event).__name__ for r in log if "Tool" in type(r.event).__name__]
    assert tools[-2:] == ["ToolCalled", "ToolReturned"]


def test_an_async_tool_counts_until_it_ends(shell: Any) -> None:
    sgnb.load("tiny")

    @sgnb.function
    async def program(s: Any) -> None:
        s += await sgnb.ToolCall("async_nap", {"seconds": NAP}, sgnb.Tool(async_nap))()

    state = asyncio.run(program.arun())
    assert sgnb.why_slow(state).seconds["tools"] >= NAP


def test_a_wait_for_another_program(shell: Any) -> None:
    sgnb.load("tiny", max_running_requests=1)

    @sgnb.function
    def story(s: Any, start: str, tokens: int) -> None:
        s += start + gen("text", max_tokens=tokens, ignore_eos=True)

    first = story.run("Once", 150)
    second = story.run("Twice", 4)
    second.wait(timeout=60)
    report = sgnb.why_slow(second)
    assert report.seconds["waiting"] > report.seconds["decode"]
    assert report.waited_for[first.program.run.id] > 0.5 * report.seconds["waiting"]
    assert f"waiting for {first.program.run.id}" in str(report)
    assert sgnb.why_slow(first).seconds["waiting"] < 0.5 * sgnb.why_slow(first).total


def test_a_running_program_counts_until_now(shell: Any) -> None:
    sgnb.load("tiny")

    @sgnb.function
    def program(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=2000, ignore_eos=True)

    state = program.run()
    before = sgnb.why_slow(state).total
    time.sleep(NAP)
    assert sgnb.why_slow(state).total >= before + NAP
    state.cancel()
    state.wait(timeout=30)
    report = sgnb.why_slow(state)
    assert report.total == sgnb.why_slow(state).total
    assert report.seconds["decode"] > 0.5 * report.total


def test_what_has_no_times(shell: Any) -> None:
    with pytest.raises(OptionError, match="is not a state of a program"):
        sgnb.why_slow("text")  # type: ignore[arg-type]
