"""An engine behind OpenAI's and SGLang's protocols, with public clients as peers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import numpy as np
import openai
import pytest

import sgnb as sgl
from sgnb.backends.serve import app
from sgnb.backends.serve.bodies import ChatMessage, Function
from sgnb.backends.serve.conversation import chat_segments
from sgnb.backends.serve.server import EngineServer
from sgnb.backends.serve.tool_answers import ClientTool
from sgnb.backends.template_reader import chat_template
from sgnb.engine import Engine
from sgnb.errors import GrammarError, OptionError
from sgnb.events import RequestFinished
from sgnb.lang.chat import PLAIN
from sgnb.media import png
from sgnb.models import path

from .remote.conftest import wait_until

SAMPLING: dict[str, Any] = {"temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny", device="cpu", dtype="float32", max_total_tokens=8192) as engine:
        yield engine


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[EngineServer]:
    with EngineServer(engine) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: EngineServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0) as client:
        yield client


def post(server: EngineServer, place: str, body: Any, token: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.token if token is None else token}"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(server.url + place, content=data, headers=headers, timeout=60)


def test_completions(engine: Engine, client: openai.OpenAI) -> None:
    texts = ["The capital of France is", "One, two,"]
    outputs = engine.generate(texts, max_new_tokens=8, temperature=0, return_logprob=True)
    made = client.completions.create(model="tiny", prompt=texts, logprobs=2, **SAMPLING)
    assert [choice.text for choice in made.choices] == [output.text for output in outputs]
    assert [choice.finish_reason for choice in made.choices] == [o.finish_reason for o in outputs]
    logprobs = made.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs == pytest.approx(outputs[0].logprobs, abs=1e-4)
    assert len(logprobs.top_logprobs or []) == len(outputs[0].token_ids)
    assert made.usage is not None
    assert made.usage.completion_tokens == sum(len(output.token_ids) for output in outputs)
    ids = engine.encode(texts[:1])[0]
    again = client.completions.create(model="tiny", prompt=ids, n=2, **SAMPLING)
    assert [choice.text for choice in again.choices] == [outputs[0].text] * 2


def test_streamed_completions(engine: Engine, client: openai.OpenAI) -> None:
    output = engine.generate("A story", max_new_tokens=8, temperature=0)
    chunks = list(
        client.completions.create(
            model="tiny",
            prompt="A story",
            stream=True,
            stream_options={"include_usage": True},
            **SAMPLING,
        )
    )
    assert "".join(c.choices[0].text for c in chunks if c.choices) == output.text
    assert len(chunks) > 3 and chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 8


def data_url(width: int, height: int) -> str:
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def calling(id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer"}},
                "required": ["city", "days"],
                "additionalProperties": False,
                "$defs": {"City": {"enum": ["Paris", "Lyon"]}},
            },
        },
    },
    {"type": "function", "function": {"name": "clock"}},
]


MESSAGES: Any = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "text", "text": "Name a color."}]},
]


def test_chat(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2, **SAMPLING
    )
    chunks = client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, **SAMPLING
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    choice = made.choices[0]
    assert choice.message.content == text and choice.message.role == "assistant"
    assert choice.logprobs is not None and choice.logprobs.content
    assert len(choice.logprobs.content[0].top_logprobs) == 2


def test_references_in_the_schema_of_a_tool_move_with_the_schema() -> None:
    schema = {
        "properties": {
            "const": {"$ref": "#/$defs/City"},  # a name, not the keyword
            "near": {"$ref": "#city"},
            "same": {"const": {"$ref": "#/$defs/City"}},
        },
        "$defs": {"City": {"$anchor": "city", "enum": ["Paris"]}, "default": {"$ref": "#"}},
    }
    tool = ClientTool(Function("a", parameters=schema))
    assert tool.parameters("#/$defs/a/$defs") == {
        "type": "object",
        "properties": {
            "const": {"$ref": "#/$defs/a/$defs/City"},
            "near": {"$ref": "#city"},
            "same": {"const": {"$ref": "#/$defs/City"}},
        },
        "$defs": {
            "City": {"$anchor": "city", "enum": ["Paris"]},
            "default": {"$ref": "#/$defs/a"},
        },
    }


def check_weather(call: Any) -> None:
    """A call of the first tool follows its schema."""
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "weather" and call.id
    assert arguments["city"] in ("Paris", "Lyon") and isinstance(arguments["days"], int)


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_tool_without_parameters(server: EngineServer, parameters: dict[str, Any]) -> None:
    body = {
        "messages": MESSAGES,
        "tools": [{"function": {"name": "now", **parameters}}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 20,
    }
    [choice] = post(server, "/v1/chat/completions", body).json()["choices"]
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "now", "arguments": "{}"}


def test_arguments_are_an_object_without_a_type_in_the_schema() -> None:
    tool = ClientTool(Function("a", parameters={"properties": {"b": {"type": "integer"}}}))
    assert tool.parameters()["type"] == "object"
    for schema in ({"const": 5}, {"enum": [1, "x"]}, {"anyOf": [{"type": "string"}]}):
        with pytest.raises(GrammarError, match=r"of tool 'a': no JSON value"):
            ClientTool(Function("a", parameters=schema))


@pytest.mark.parametrize("parallel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tools(client: openai.OpenAI, parallel: bool) -> None:
    asked = {
        "model": "tiny",
        "messages": MESSAGES,
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": parallel,
        "max_tokens": 60,
        "temperature": 0,
    }
    made: Any = client.chat.completions.create(**asked)
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls" and not choice.message.content
    calls = choice.message.tool_calls
    assert len(calls) == 1 or parallel
    for call in calls:
        check_weather(call)
    assert len({call.id for call in calls}) == len(calls)
    assert made.usage.completion_tokens > 5 and made.usage.prompt_tokens > 100

    stream: Any = client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **asked
    )
    *chunks, end, usage = list(stream)
    streamed = [call for c in chunks for call in c.choices[0].delta.tool_calls or ()]
    assert [call.index for call in streamed] == list(range(len(calls)))
    assert [c.function.arguments for c in streamed] == [c.function.arguments for c in calls]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert end.choices[0].finish_reason == "tool_calls"
    assert usage.usage.completion_tokens == made.usage.completion_tokens
    assert usage.usage.prompt_tokens == made.usage.prompt_tokens


def test_the_model_may_answer_in_text(client: openai.OpenAI, engine: Engine) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "tools": TOOLS, **SAMPLING}
    made = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(stream=True, **asked))
    text = made.choices[0].message.content
    assert text and made.choices[0].finish_reason in ("stop", "length")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    without = client.chat.completions.create(**{**asked, "tool_choice": "none"})
    plain = client.chat.completions.create(model="tiny", messages=MESSAGES, **SAMPLING)
    assert without.choices[0].message.content == plain.choices[0].message.content


def test_a_conversation_with_results_of_tools(client: openai.OpenAI, engine: Engine) -> None:
    """Calls and results have the format of the model's programs."""
    result = {"role": "tool", "tool_call_id": "c1", "content": "It rains <|end|>."}
    messages: Any = [*MESSAGES, calling("c1", '{"city": "Lyon", "days": 2}'), result]
    made = client.chat.completions.create(
        model="tiny", messages=messages, tools=TOOLS, tool_choice="none", **SAMPLING
    )
    assert made.choices[0].message.content is not None

    chat = chat_template(engine)
    typed = [msgspec.convert(message, ChatMessage) for message in messages]
    segments = chat_segments(chat, typed)
    form, user, assistant = chat.tools, chat.roles["user"], chat.roles["assistant"]
    text = "".join(segment.text for segment in segments)
    call = form.open + '{"name": "weather", "arguments": {"city": "Lyon", "days": 2}}' + form.close
    turn = f"{assistant[0]}{call}{assistant[1]}{user[0]}<tool_response>\nIt rains <|end|>."
    assert text.endswith(f"{turn}\n</tool_response>{user[1]}{assistant[0]}")
    data = [segment.text for segment in segments if segment.kind == "data"]
    assert data[-1] == "It rains <|end|>.", "special tokens of a result are text"


def test_parts_of_a_turn_keep_their_order() -> None:
    parts: Any = [image_part(data_url(8, 6)), {"type": "text", "text": "and"}]
    message = msgspec.convert({"role": "user", "content": parts}, ChatMessage)
    _, picture, text, *_ = chat_segments(PLAIN, [message])
    assert (picture.kind, picture.item.label) == ("media", "image 8×6") and text[:2] == (
        "and",
        "data",
    )


SLOW: dict[str, tuple[str, dict[str, Any]]] = {
    "submit": ("/v1/completions", {"prompt": "x", "max_tokens": 1}),
    "encode": ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1}),
}


@pytest.mark.parametrize("method", SLOW)
def test_a_slow_prompt_does_not_hold_up_a_stream(
    engine: Engine, server: EngineServer, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The first submission, or the tokenization of a chat, waits for the end of another stream."""
    original, ended, begun = getattr(engine, method), threading.Event(), threading.Event()

    def slowly(prompts: Any, *args: Any, **options: Any) -> Any:
        is_first = not begun.is_set()
        begun.set()
        assert not is_first or ended.wait(20)
        return original(prompts, *args, **options)

    monkeypatch.setattr(engine, method, slowly)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, server, *SLOW[method])
        assert begun.wait(20)
        stream = post(server, "/v1/completions", {"prompt": "y", "max_tokens": 4, "stream": True})
        assert stream.text.count("data: ") > 3
        ended.set()
        assert waiting.result().status_code == 200


@pytest.mark.slow
def test_images() -> None:
    """Each image of a data URL is a part of the prompt, as in a program."""
    urls = [data_url(64, 48), data_url(40, 56)]
    content = [{"type": "text", "text": "What is it?"}, *map(image_part, urls)]
    with Engine("tiny-vision", device="cpu", dtype="float32", max_total_tokens=4096) as engine:
        with EngineServer(engine) as server:
            options: Any = {"base_url": f"{server.url}/v1", "api_key": server.token}
            with openai.OpenAI(**options, max_retries=0) as client:
                messages: Any = [{"role": "user", "content": content}]
                made = client.chat.completions.create(
                    model="tiny-vision", messages=messages, **SAMPLING
                )

        @sgl.function
        def look(s: Any) -> None:
            s += sgl.user("What is it?" + sgl.image(urls[0]) + sgl.image(urls[1]))
            s += sgl.assistant(sgl.gen("answer", temperature=0, max_tokens=8))

        state = look.run(backend=engine)
        assert made.choices[0].message.content == state["answer"]
        assert made.usage is not None
        found = state.get_meta_info("answer")
        assert made.usage.prompt_tokens == found["prompt_tokens"]


def test_chat_follows_a_schema(client: openai.OpenAI) -> None:
    schema: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = client.chat.completions.create(
        model="tiny",
        messages=MESSAGES,
        max_tokens=30,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )
    assert isinstance(json.loads(made.choices[0].message.content or "")["n"], int)


def test_special_tokens_of_a_message_are_text(server: EngineServer, engine: Engine) -> None:
    assert engine.tokenizer is not None
    special = next(iter(engine.tokenizer.hf.all_special_tokens))
    segments = chat_segments(chat_template(engine), [ChatMessage("user", special)])
    plain = chat_segments(chat_template(engine), [ChatMessage("user", "x")])
    ids = engine.tokenizer.hf.all_special_ids
    counts = [sum(t in ids for t in engine.encode([each])[0]) for each in (segments, plain)]
    assert counts[0] == counts[1]


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="no model is called 'other'"):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    "place, body",
    [("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": MESSAGES})],
)
def test_another_model_is_not_served(
    engine: Engine, server: EngineServer, place: str, body: dict[str, Any]
) -> None:
    asked = body | {"max_tokens": 1}
    response = post(server, place, asked | {"model": "other"})
    assert response.status_code == 404
    assert "no model is called 'other'" in response.json()["error"]["message"]
    for name in ("tiny", engine.model_name):
        assert post(server, place, asked | {"model": name}).status_code == 200


def test_no_token_has_no_log_probabilities(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "max_tokens": 0}
    chat = client.chat.completions.create(messages=MESSAGES, logprobs=True, **asked)
    assert chat.choices[0].logprobs is not None and chat.choices[0].logprobs.content == []
    made = client.completions.create(prompt="x", logprobs=1, **asked)
    assert made.choices[0].logprobs is not None
    assert made.choices[0].logprobs.tokens == made.choices[0].logprobs.top_logprobs == []


@pytest.mark.parametrize("token", ["t\u00f6ken", "a b", "a\r\nb: 1"])
def test_a_token_that_no_client_can_send_is_refused(engine: Engine, token: str) -> None:
    with pytest.raises(OptionError, match="does not fit a header"):
        EngineServer(engine, token=token)


def test_other_paths_and_methods_are_explained(server: EngineServer, client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=r"POST '/v1/embeddings' is not served"):
        client.embeddings.create(model="tiny", input="a")
    response = httpx.get(f"{server.url}/v1/completions")
    assert response.status_code == 405
    assert "/v1/chat/completions" in response.json()["error"]["message"]


@sgl.function
def program(s: Any) -> None:
    s += "Is the sky blue? " + sgl.select("answer", ["yes", "no", "perhaps"])
    s += ". The sky is " + sgl.gen("sky", max_tokens=4, temperature=0)


def test_runtime_endpoint(engine: Engine, server: EngineServer) -> None:
    remote = sgl.RuntimeEndpoint(server.url, server.token, chat_template=str(path("tiny")))
    local, other = program.run(backend=engine), program.run(backend=remote)
    assert (local["sky"], local["answer"]) == (other["sky"], other["answer"])
    streamed = program.run(backend=remote, stream=True)
    assert "".join(streamed.text_iter()) == other.text()
    assert remote.flush_cache() == 0


def test_openai_backend(engine: Engine, server: EngineServer) -> None:
    remote = sgl.OpenAI("tiny", False, base_url=f"{server.url}/v1", api_key=server.token)

    @sgl.function
    def completes(s: Any) -> None:
        s += "The sky is " + sgl.gen("sky", max_tokens=4, temperature=0)

    assert completes.run(backend=remote)["sky"] == completes.run(backend=engine)["sky"]


@pytest.mark.parametrize("token", ["w", "wrong"])
@pytest.mark.parametrize("place", ["/v1/completions", "/generate", "/flush_cache"])
def test_a_wrong_token_is_refused(server: EngineServer, place: str, token: str) -> None:
    assert post(server, place, {"prompt": "x"}, token).status_code == 401
    assert httpx.get(f"{server.url}/v1/models").status_code == 401


BODIES: dict[str, tuple[str, Any]] = {
    "no json": ("/v1/completions", b"{"),
    "no object": ("/v1/completions", []),
    "no prompt": ("/v1/completions", {"model": "tiny"}),
    "prompt": ("/v1/completions", {"prompt": [1, "a"]}),
    "empty": ("/v1/completions", {"prompt": []}),
    "token": ("/v1/completions", {"prompt": [10**7]}),
    "unknown": ("/v1/completions", {"prompt": "x", "best_of": 3}),
    "temperature": ("/v1/completions", {"prompt": "x", "temperature": -1}),
    "many": ("/v1/completions", {"prompt": "x", "n": 10**6}),
    "bias": ("/v1/completions", {"prompt": "x", "logit_bias": {"a": 1}}),
    "stream": ("/v1/completions", {"prompt": ["x", "y"], "stream": True}),
    "messages": ("/v1/chat/completions", {"messages": []}),
    "role": ("/v1/chat/completions", {"messages": [{"role": "boss", "content": "x"}]}),
    "image": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    ),
    "image of a text model": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [image_part(data_url(9, 9))]}]},
    ),
    "image from the web": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [image_part("https://example.com/a.png")]}]},
    ),
    "image from a file": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [image_part("/etc/passwd")]}]},
    ),
    "tools": ("/v1/chat/completions", {"messages": MESSAGES, "tools": []}),
    "tool name": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "tools": [{"type": "function", "function": {"name": "a b"}}]},
    ),
    "tool without a name": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "tools": [{"type": "function", "function": {"name": ""}}]},
    ),
    "tool choice": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "tools": TOOLS, "tool_choice": {"function": {"name": "other"}}},
    ),
    "choice without tools": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "tool_choice": "required"},
    ),
    "parameters of a tool": (
        "/v1/chat/completions",
        {
            "messages": MESSAGES,
            "tools": [{"function": {"name": "a", "parameters": {"type": "string"}}}],
        },
    ),
    "samples with tools": ("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS, "n": 2}),
    "result without a call": (
        "/v1/chat/completions",
        {"messages": [*MESSAGES, {"role": "tool", "tool_call_id": "1", "content": "x"}]},
    ),
    "arguments": ("/v1/chat/completions", {"messages": [*MESSAGES, calling("c1", "{")]}),
    "nothing said": ("/v1/chat/completions", {"messages": [{"role": "assistant"}]}),
    "format": ("/v1/chat/completions", {"messages": MESSAGES, "response_format": {"type": "x"}}),
    "nothing": ("/generate", {}),
    "both": ("/generate", {"text": "x", "input_ids": [1]}),
    "regex": ("/generate", {"text": "x", "sampling_params": {"regex": "(("}}),
    "option": ("/generate", {"text": "x", "sampling_params": {"tempreture": 1}}),
    "deep": ("/v1/completions", b'{"metadata":' + b'{"a":' * 100_000),
    "long": ("/generate", {"text": "x " * 9000}),
}


@pytest.mark.parametrize("case", BODIES)
def test_invalid_bodies_are_explained(server: EngineServer, case: str) -> None:
    response = post(server, *BODIES[case])
    error = response.json()["error"]
    assert response.status_code == 400 and error["type"] == "invalid_request_error"
    assert error["message"] and "Traceback" not in error["message"]


BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "reference": ({"$ref": "#/$defs/absent"}, "'#/$defs/absent' is not in the schema"),
    "type": ({"properties": {"x": {"type": "strin"}}}, "'strin' is not a type"),
    "pattern": ({"properties": {"x": {"type": "string", "pattern": "(("}}}, "is not a regex"),
    "endless": ({"properties": {"x": {"$ref": "#"}}, "required": ["x"]}, "describes no text"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_an_invalid_schema_of_a_tool_is_explained(
    engine: Engine, server: EngineServer, case: str, choice: str, stream: bool
) -> None:
    """The model computes nothing for the request."""
    parameters, reason = BAD_PARAMETERS[case]
    before = engine.stats()["computed_tokens"]
    tool = {"function": {"name": "broken", "parameters": {"type": "object"} | parameters}}
    body = {"messages": MESSAGES, "tool_choice": choice, "stream": stream, "max_tokens": 4}
    response = post(server, "/v1/chat/completions", body | {"tools": [*TOOLS, tool]})
    message = response.json()["error"]["message"]
    assert response.status_code == 400
    assert "tool 'broken'" in message and reason in message
    assert engine.stats()["computed_tokens"] == before


def test_a_large_body_is_refused(server: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_BODY", 1000)
    response = post(server, "/generate", {"text": "x" * 2000})
    assert response.status_code == 400 and "1,000 bytes" in response.json()["error"]["message"]


def test_the_end_of_a_connection_ends_the_request(engine: Engine, server: EngineServer) -> None:
    body = {"text": "go on", "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}}

    def has_request() -> bool:
        return bool(engine.stats()["in_flight"])

    async def read(client: httpx.AsyncClient, stream: bool) -> None:
        async with client.stream("POST", "/generate", json=body | {"stream": stream}) as response:
            async for _ in response.aiter_bytes():
                pass

    async def leave(stream: bool) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
            reading = asyncio.create_task(read(client, stream))
            while not await asyncio.to_thread(has_request):
                await asyncio.sleep(0.01)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    for stream in (True, False):
        asyncio.run(leave(stream))
        wait_until(lambda: not has_request(), 30)
        events = [record.event for record in engine.log.read().records]
        *_, last = [event for event in events if isinstance(event, RequestFinished)]
        assert last.reason == "abort", f"stream={stream}"


@pytest.mark.parametrize(
    "place, name", [("/v1/completions", "metadata"), ("/generate", "sampling_params")]
)
def test_a_deeply_nested_body_is_refused(server: EngineServer, place: str, name: str) -> None:
    levels = 20_000
    value = b'{"a":' * levels + b"1" + b"}" * levels
    response = post(server, place, b'{"' + name.encode() + b'":' + value + b"}")
    assert response.status_code == 400
    assert "nested too deeply" in response.json()["error"]["message"]


def test_the_end_of_a_server_ends_its_streams_silently(
    engine: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    server = EngineServer(engine)
    server._server.config.timeout_graceful_shutdown = 0.2  # type: ignore[assignment]
    body = {"prompt": "x", "max_tokens": 3000, "ignore_eos": True, "stream": True}
    headers = {"Authorization": f"Bearer {server.token}"}
    url = f"{server.url}/v1/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=60) as response:
        parts = response.iter_bytes()
        next(parts)
        server.close()
        with pytest.raises(httpx.HTTPError):
            list(parts)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("port", ["8000", "", None, True, 8000.0, -1, 65536, 10**40])
def test_an_invalid_port_is_refused(engine: Engine, port: Any) -> None:
    with pytest.raises(OptionError, match=r"port=.* is not allowed\n.* from 0 to 65535"):
        EngineServer(engine, port)


def test_a_token_of_another_type_is_refused(engine: Engine) -> None:
    token: Any = b"secret"
    with pytest.raises(OptionError, match="token=b'secret' is not allowed"):
        EngineServer(engine, token=token)


def test_the_logging_of_the_user_stays(engine: Engine) -> None:
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access")]
    own = logging.NullHandler()
    for logger in loggers:
        logger.addHandler(own)

    def settings() -> list[Any]:
        return [(each.level, each.propagate, *each.handlers, *each.filters) for each in loggers]

    before = settings()
    try:
        with EngineServer(engine) as server:
            assert [each[:3] for each in settings()] == [each[:3] for each in before]
            assert post(server, "/flush_cache", {}).status_code == 200
        assert settings() == before
    finally:
        for logger in loggers:
            logger.removeHandler(own)


def test_a_server_logs_its_own_errors_only(
    engine: Engine,
    server: EngineServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests and mistakes of clients are no lines of a notebook."""
    caplog.set_level(logging.DEBUG, "uvicorn")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        assert b"400" in connection.recv(1000)
    assert post(server, "/flush_cache", {}).status_code == 200
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]

    logging.getLogger("uvicorn.error").warning("of another server")
    assert caplog.messages[-1] == "of another server"

    def fail() -> None:
        raise RuntimeError("a mistake of sgnb")

    monkeypatch.setattr(engine, "flush_cache", fail)
    assert post(server, "/flush_cache", {}).status_code == 500
    wait_until(lambda: "a mistake of sgnb" in caplog.text, 20)


def test_a_port_in_use_is_refused(engine: Engine, server: EngineServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(OptionError, match=str(port)):
        EngineServer(engine, port)


def test_a_server_that_does_not_start_leaves_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: EngineServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EngineServer, "_wait", interrupt)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        EngineServer(engine)
    assert not [each for each in set(threading.enumerate()) - before if each.name == "sgnb-serve"]


def test_the_magic_serves_the_current_engine(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    from sgnb.magics.commands import Commands
    from sgnb.magics.magic_options import LineCall
    from sgnb.magics.session import SESSION

    session = type(SESSION)(print)
    session.set_default_backend(engine)
    try:
        with Commands({}, session).serve(LineCall.parse("serve --port 0")) as server:
            assert server.url in capsys.readouterr().out
            assert post(server, "/flush_cache", {}).status_code == 200
        with pytest.raises(OptionError, match="port=70000 is not allowed"):
            Commands({}, session).serve(LineCall.parse("serve --port 70000"))
    finally:
        sgl.set_default_backend(None)
