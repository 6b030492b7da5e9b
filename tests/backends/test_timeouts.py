"""`gen(timeout=)` and partial texts of stopped generations, on the engine and on a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import OpenAI
from sgnb.errors import TimedOut
from sgnb.events import RequestFinished
from sgnb.lang.core import stopping

from .service import KEY, Service


@sgl.function
def story(s: Any) -> None:
    s += sgl.user("A story.")
    s += sgl.assistant(sgl.gen("story", max_tokens=3000, timeout=60) + sgl.gen("never"))


@pytest.fixture(params=["engine", "completions", "chat"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "engine":
        with sgl.Engine("tiny") as engine:
            yield engine
        return
    with Service(lambda request: "word " * 3000, delay=0.002) as service:
        yield OpenAI("model", request.param == "chat", base_url=service.url, api_key=KEY)


def wait_until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("program", [story, story.compile()], ids=["interpreted", "compiled"])
def test_a_generation_that_times_out(backend: Any, program: Any) -> None:
    endless = {"ignore_eos": True} if isinstance(backend, sgl.Engine) else {}
    state = program.run(backend=backend, **endless)
    wait_until(lambda: state._branch.partial)
    stopping._expire(state._branch, state._branch.done)

    assert isinstance(state.error(), TimedOut)
    text, meta = state["story"], state.get_meta_info("story")
    assert text and state.text().endswith(text)
    assert meta["finish_reason"]["type"] == "abort"
    assert meta["finish_reason"]["message"].startswith("gen 'story' took longer")
    with pytest.raises(TimedOut):
        state["never"]

    run = state.program.run
    wait_until(lambda: run.status != "running")
    assert (run.status, run.message.split(":")[0]) == ("error", "TimedOut")
    events = [record.event for record in run.executor.log.read().records]
    assert [e.reason for e in events if isinstance(e, RequestFinished)] == ["abort"]


def test_a_stopped_state_goes_on_from_its_tokens() -> None:
    @sgl.function
    def more(s: Any) -> None:
        s += sgl.gen("more", max_tokens=1)

    with sgl.Engine("tiny") as engine:
        state = story.run(backend=engine, ignore_eos=True, stream=True)
        wait_until(lambda: len(state._branch.partial) > 40)
        state.cancel()
        tokens = state.get_meta_info("story")["token_ids"]
        assert state.token_ids()[-len(tokens) :] == tokens
        again = more.run(backend=engine, continue_from=state)
        assert again.get_meta_info("more")["cached_tokens"] >= len(state.token_ids()) - 1
