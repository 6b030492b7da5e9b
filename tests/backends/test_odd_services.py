"""Answers of services that keep to OpenAI's protocol loosely, and backends that are used oddly."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import OpenAI, RuntimeEndpoint, limits
from sgnb.errors import Aborted, EngineError, OptionError, RequestError, ServiceError
from sgnb.event_loops import LoopThread
from sgnb.lang.chat import PLAIN

from .service import KEY, Service

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


@sgl.function
def ask(s, question="Count.", **options):
    s += sgl.user(question) + sgl.assistant(sgl.gen("a", max_tokens=16, **options))


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT", 0.01)


@contextmanager
def saying(reply: Callable[[str], tuple[int, str, str]]) -> Iterator[str]:
    """The address of a server that answers each path with a status, a type and a text."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, kind, text = reply(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def answering(body: Any) -> Iterator[OpenAI]:
    with saying(lambda path: (200, "application/json", json.dumps(body))) as url:
        yield OpenAI("model", base_url=url, api_key=KEY, tries=1)


@contextmanager
def streaming(*events: Any) -> Iterator[OpenAI]:
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in [*events, "end"])
    text = text.replace('"end"', "[DONE]")
    with saying(lambda path: (200, "text/event-stream", text)) as url:
        yield OpenAI("model", base_url=url, api_key=KEY, tries=1)


def message(**said: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}


def part(delta: Any, finish: str | None = None) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_a_refusal_is_kept() -> None:
    with answering(message(content=None, refusal="I will not.") | {"usage": USAGE}) as model:
        state = ask.run(backend=model)
        meta = state.get_meta_info("a")
    assert state["a"] == ""
    assert meta["refusal"] == "I will not."
    assert meta["finish_reason"] == {"type": "abort", "message": "refusal"}


def test_a_streamed_refusal_is_kept() -> None:
    with streaming(part({"refusal": "I will "}), part({"refusal": "not."}, "stop")) as model:
        state = ask.run(backend=model, stream=True)
        assert list(state.text_iter("a")) == []
    assert state.get_meta_info("a")["refusal"] == "I will not."


def test_a_refusal_instead_of_json_is_quoted() -> None:
    with answering(message(content=None, refusal="I will not.")) as model:
        state = ask.run(backend=model, json_schema='{"type": "integer"}')
        with pytest.raises(ServiceError, match=r"the answer 'I will not\.' is not JSON"):
            state["a"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": f"overloaded, key {KEY}"}}, "overloaded, key …"),
        ([1, 2], r"\[1, 2\]"),
        (message(content=[{"type": "text", "text": "hi"}]), "its content is"),
    ],
)
def test_what_is_no_answer_is_quoted(body, said) -> None:
    with answering(body) as model, pytest.raises(ServiceError, match=f"invalid answer: .*{said}"):
        ask.run(backend=model)["a"]


def test_chunks_that_say_nothing_are_passed_over() -> None:
    chunks = {"type": "ping"}, part({"content": "one "}), None, part(None), part({}, "stop")
    with streaming(*chunks) as model:
        state = ask.run(backend=model, stream=True)
        assert "".join(state.text_iter("a")) == "one "


def test_half_of_a_surrogate_pair() -> None:
    with answering(message(content="a\ud83d b")) as model:
        assert ask.run(backend=model)["a"] == "a\ufffd b"
        with pytest.raises(RequestError, match=r"half of a surrogate pair: .*a\\ud800"):
            ask.run("a\ud800b", backend=model)["a"]
        assert model.usage().total.requests == 1


def test_a_refusal_for_the_place_or_the_model_is_quoted() -> None:
    said = json.dumps({"error": {"message": "country not supported"}})
    with saying(lambda path: (403, "application/json", said)) as url:
        model = OpenAI("model", base_url=url, api_key=KEY)
        with pytest.raises(ServiceError, match="country not supported"):
            ask.run(backend=model)["a"]


def test_what_headers_and_queries_say_is_not_quoted() -> None:
    said = json.dumps({"error": {"message": "no hidden1234 and no hidden5678 for you"}})
    with saying(lambda path: (400, "application/json", said)) as url:
        headers, query = {"X-Own": "Bearer hidden1234", "X-Who": "for"}, {"key": "hidden5678"}
        model = OpenAI("model", base_url=url, default_headers=headers, default_query=query)
        with pytest.raises(ServiceError, match="no … and no … for you"):
            ask.run(backend=model)["a"]


def test_who_cannot_be_reached_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ServiceError, match=f"at {url} cannot be reached") as caught:
            ask.run(backend=OpenAI("model", base_url=url, tries=1))["a"]
    assert caught.value.hint == "check that the server runs at this address"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": "localhost:8000/v1"}, "is not an address"),
        ({"base_url": "127.0.0.1:8000/v1"}, "is not an address"),
        ({"api_key": f"{KEY}\n"}, "invalid characters"),
        ({"api_key": "schlüssel"}, "invalid characters"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"prices": 3}, "prices=3"),
        ({"max_paralel": 3}, "max_paralel"),
    ],
)
def test_options_that_are_none(options, said) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        OpenAI("model", **{"base_url": "http://localhost/v1", "api_key": KEY, **options})
    assert KEY not in str(caught.value)


def test_a_proxy_or_certificates_that_no_client_can_use(monkeypatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    with pytest.raises(OptionError, match="the client cannot be created"):
        OpenAI("model", base_url="http://localhost/v1")
    with pytest.raises(OptionError, match=r"verify='/nowhere\.pem'"):
        RuntimeEndpoint("https://localhost", verify="/nowhere.pem")


def test_an_sglang_server_that_fails_after_it_was_found() -> None:
    def reply(path: str) -> tuple[int, str, str]:
        if path == "/get_model_info":
            return 200, "application/json", '{"model_path": "m"}'
        return (500, "text/plain", KEY) if path != "/generate" else (200, "application/json", "[]")

    with saying(reply) as url:
        model = RuntimeEndpoint(url, api_key=KEY, chat_template=PLAIN, tries=2)
        for what in (model.server_info, model.flush_cache):
            with pytest.raises(ServiceError, match=r"failed \(500\): … \(2 tries\)"):
                what()
        with pytest.raises(ServiceError, match=r"invalid answer: \[\]"):
            ask.run(backend=model)["a"]


def test_a_closed_backend() -> None:
    with Service() as service:
        model = OpenAI("model", base_url=service.url, api_key=KEY)
        assert [model.close(), model.close()] == [None, None]
        for use in (model.server_info, model.flush_cache, lambda: ask.run(backend=model)["a"]):
            with pytest.raises(EngineError, match="closed"):
                use()


def test_whoever_waits_when_a_loop_is_closed_is_told() -> None:
    async def end() -> None:
        pass

    async def wait() -> None:
        threading.Thread(target=loop.close).start()
        await forever.wait()

    loop, forever = LoopThread("test", end), asyncio.Event()
    with pytest.raises(Aborted, match="was closed"):
        loop.run(wait)


def _ask_in_child(model: OpenAI) -> None:
    with pytest.raises(EngineError, match="forked child"):
        ask.run(backend=model)["a"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_to_make_its_own() -> None:
    with Service() as service:
        model = OpenAI("model", base_url=service.url, api_key=KEY)
        ask.run(backend=model)["a"]
        child = multiprocessing.get_context("fork").Process(target=_ask_in_child, args=(model,))
        child.start()
        child.join(20)
        if child.is_alive():
            child.kill()
        assert child.exitcode == 0


def test_the_printed_usage_of_many_runs() -> None:
    with Service() as service:
        model = OpenAI("model", base_url=service.url, api_key=KEY)
        for i in range(60):
            model.usage().add(f"run{i}", type(model.usage().total)(calls=1))
    lines = repr(model.usage()).splitlines()
    assert lines[0] == "model, without the 10 first runs, which rows() has"
    assert (len(lines), len(model.usage().rows())) == (53, 61)
    assert repr(model.token_usage) == "TokenUsage(prompt_tokens=0, completion_tokens=0)"
