"""Programs on a model behind an API, over a service on loopback."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import ApiExecutor, OpenAI

from .service import KEY, Request, Service


def by_last_turn(request: Request) -> str:
    last = request.body["messages"][-1]["content"] if "messages" in request.body else request.prompt
    return f"answer to {last.strip().splitlines()[-1]}"


@sgl.function
def talk(s, question):
    s += sgl.system("Be short.")
    s += sgl.user(question)
    s += sgl.assistant(sgl.gen("first", max_tokens=16))
    s += sgl.user("And why?")
    s += sgl.assistant(sgl.gen("second", max_tokens=16, temperature=0.5))


@pytest.fixture
def service():
    with Service(by_last_turn) as service:
        yield service


def chat(service: Service, **options) -> ApiExecutor:
    return OpenAI("model", base_url=service.url, api_key=KEY, **options)


def text(service: Service, **options) -> ApiExecutor:
    return OpenAI("model", False, base_url=service.url, api_key=KEY, **options)


def test_a_conversation_is_sent_turn_by_turn(service) -> None:
    state = talk.run("What is 2?", backend=chat(service))
    assert state["first"] == "answer to What is 2?"
    assert state["second"] == "answer to And why?"
    assert [m["role"] for m in service.requests[1].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert service.requests[1].body["messages"][2]["content"] == "answer to What is 2?"
    meta = state.get_meta_info("second")
    assert meta["finish_reason"] == {"type": "stop", "matched": None}
    assert (meta["prompt_tokens"], meta["cached_tokens"], meta["completion_tokens"]) == (16, 1, 4)


def test_a_completion_is_sent_the_text(service) -> None:
    @sgl.function
    def complete(s):
        s += "Q: name?\nA:" + sgl.gen("a", stop="\n")
        s += "\nQ: more?\nA:" + sgl.gen("b", max_tokens=2)

    state = complete.run(backend=text(service))
    assert state.text() == "Q: name?\nA:answer to A:\nQ: more?\nA:answer to"
    assert service.requests[1].body["prompt"] == "Q: name?\nA:answer to A:\nQ: more?\nA:"
    assert state.get_meta_info("b")["finish_reason"] == {"type": "length", "length": 2}


@pytest.mark.parametrize("make", [chat, text])
def test_streams(service, make) -> None:
    @sgl.function
    def ask(s):
        s += sgl.user("hello you") + sgl.assistant(sgl.gen("a", max_tokens=16))

    state = ask.run(backend=make(service), stream=True)
    pieces = list(state.text_iter("a"))
    assert len(pieces) > 1
    assert "".join(pieces) == state["a"]
    assert state.get_meta_info("a")["completion_tokens"] == len(state["a"].split())
