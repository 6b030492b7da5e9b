"""Programs on a real server: `transformers serve` with the bundled model, on loopback."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

pytest.importorskip("openai")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import sgnb as sgl
from sgnb.errors import ServiceError

from .transformers_serve import MODEL, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def engine() -> Iterator[sgl.Engine]:
    with sgl.Engine("tiny") as engine:
        yield engine


def backend(server: Server, is_chat: bool = True, **options) -> sgl.OpenAI:
    return sgl.OpenAI(MODEL, is_chat, base_url=server.url, **options)


@sgl.function
def travel(s, country):
    s += sgl.user(f"What is the capital of {country}?")
    s += sgl.assistant(sgl.gen("capital", max_tokens=24, temperature=0))
    s += sgl.user("What language do people speak there?")
    s += sgl.assistant(sgl.gen("language", max_tokens=24, temperature=0))


@sgl.function
def complete(s):
    s += "The capital of Japan is" + sgl.gen("city", stop=".", max_tokens=16, temperature=0)
    s += ".\nThe capital of France is" + sgl.gen("other", stop=".", max_tokens=16, temperature=0)


@pytest.mark.slow
def test_a_conversation_says_what_the_engine_says(server, engine) -> None:
    model = backend(server)
    here = travel.run("Japan", backend=engine)
    there = travel.run("Japan", backend=model, stream=True)
    assert "".join(there.text_iter("capital")) == here["capital"]
    assert there["language"] == here["language"]
    own, other = (state.get_meta_info("language") for state in (here, there))
    assert (other["prompt_tokens"], other["completion_tokens"]) == (
        own["prompt_tokens"],
        own["completion_tokens"],
    )
    assert model.usage().total.calls == model.usage().total.requests == 2


@pytest.mark.slow
def test_a_completion_says_what_the_engine_says(server, engine) -> None:
    here = complete.run(backend=engine)
    for stream in (False, True):
        there = complete.run(backend=backend(server, False), stream=stream)
        assert there.text() == here.text()
        assert there.get_meta_info("city")["finish_reason"] == {"type": "stop", "matched": "."}


@pytest.mark.slow
def test_forks_and_batches(server, engine) -> None:
    @sgl.function
    def capitals(s, first, second):
        s += sgl.system("Answer in one sentence.")
        forks = s.fork(2)
        for fork, name in zip(forks, (first, second), strict=True):
            fork += sgl.user(f"What is the capital of {name}?")
            fork += sgl.assistant(sgl.gen("capital", max_tokens=24, temperature=0))
        forks.join()

    rows = [("Japan", "France"), ("Italy", "Egypt"), ("Spain", "Peru")]
    model = backend(server)
    here = [s["capital"] for s in capitals.run_batch(rows, backend=engine)]
    assert [s["capital"] for s in capitals.run_batch(rows, backend=model)] == here
    assert model.usage().total.calls == 6


@pytest.mark.slow
def test_what_it_does_not_know_is_done_here(server) -> None:
    """It takes neither n, log-probabilities nor formats, and says nothing of it."""

    @sgl.function
    def ask(s, **options):
        s += sgl.user("What is 12 + 30?") + sgl.assistant(sgl.gen("a", max_tokens=16, **options))

    model = backend(server)
    state = ask.run(backend=model, n=3, temperature=1.0)
    assert len(state["a"]) == 3
    assert model.usage().total.requests == 3

    @sgl.function
    def choose(s):
        s += "The capital of Japan is" + sgl.select("city", [" Paris", " Tokyo"])

    assert choose.run(backend=backend(server, False))["city"] == " Tokyo"
    with pytest.raises(ServiceError, match="is not a text that regex"):
        ask.run(backend=model, regex="x+", temperature=0)["a"]


@pytest.mark.slow
def test_a_server_that_is_killed() -> None:
    @sgl.function
    def tell(s):
        s += sgl.user("Tell me a story.")
        s += sgl.assistant(sgl.gen("a", max_tokens=2000, temperature=0, seed=1))

    server = Server()
    model = backend(server, tries=2)
    travel.run("Japan", backend=model).sync()
    states = [tell.run(backend=model, stream=True) for _ in range(3)]
    pieces = states[0].text_iter("a")
    first = next(pieces)
    os.kill(server.process.pid, signal.SIGKILL)
    server.close()
    with pytest.raises(ServiceError, match=r"cannot be reached|broke off"):
        list(pieces)
    assert first in states[0].text()  # what came is kept
    for state in states[1:]:
        if state.error() is not None:  # else it was quicker
            assert isinstance(state.error(), ServiceError)
    used = model.usage().total
    assert used.failed >= 1 and used.retries["connection"] >= 1
