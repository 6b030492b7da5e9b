"""Tools on services: calls and results in the formats of OpenAI, Anthropic and SGLang, and faulty
answers."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any, Literal

import pytest

pytest.importorskip("litellm")

import sgnb as sgl
from sgnb.backends.api import limits
from sgnb.backends.api.tool_calls import has_unparsed_call
from sgnb.errors import ProgramError, RequestError, ServiceError
from sgnb.lang.chat import PLAIN
from sgnb.lang.chat.tools import MAX_CALLS

from .service import KEY, Service
from .tool_service import Reply, ToolService, Wire


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def search(query: str, where: Literal["web", "wiki"] = "web") -> list[str]:
    """Searches."""
    return [query, where]


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT", 0.01)


def openai(service: ToolService, **options) -> sgl.OpenAI:
    return sgl.OpenAI("m", base_url=f"{service.url}/v1", api_key=KEY, **options)


def litellm(service: ToolService, **options) -> sgl.LiteLLM:
    return sgl.LiteLLM("openai/gpt-4o-mini", base_url=f"{service.url}/v1", api_key=KEY, **options)


def anthropic(service: ToolService, **options) -> sgl.Anthropic:
    return sgl.Anthropic("claude-haiku-4-5", base_url=service.url, api_key=KEY, **options)


def sglang(service: ToolService, **options) -> sgl.RuntimeEndpoint:
    return sgl.RuntimeEndpoint(service.url, KEY, chat_template=PLAIN, **options)


FORMATS = [openai, anthropic, sglang]


@sgl.function
def by_hand(s: Any, choice: str = "auto", parallel: bool = False) -> Any:
    tools = [add, search]
    s += sgl.use_tools(tools)
    s += sgl.system("Be brief.")
    s += sgl.user("2 + 3?")
    s += sgl.assistant(
        sgl.gen(
            "call",
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=parallel,
            max_tokens=64,
        )
    )
    call = s["call"]
    if isinstance(call, str):
        return call
    s += sgl.tool(call, [one() for one in call] if parallel else call())
    s += sgl.assistant(sgl.gen("answer", max_tokens=64))
    return s["answer"]


@sgl.function
def ask(s: Any, **options: Any) -> Any:
    s += sgl.user("2 + 3?")
    return sgl.agent(s, [add, search], max_tokens=64, **options)


GOOD = Wire("add", '{"a": 2, "b": 3}', "call_good")
FIVE = Reply("It is 5.")


# Formats


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", [openai, litellm, sglang])
def test_openais_format(make, stream) -> None:
    with ToolService(Reply("I add.", [GOOD]), FIVE) as service:
        state = by_hand.run(backend=make(service), stream=stream)
        assert state.ret_value == "It is 5."
        call = state["call"]
    assert (call.name, call.arguments, call.id) == ("add", {"a": 2, "b": 3}, "call_good")
    assert call.tool.func is add and call.text.startswith("I add.<tool_call>\n")
    first = service.bodies[0]
    assert service.paths[0] == "/v1/chat/completions"
    assert first["tools"] == [sgl.Tool(add).schema, sgl.Tool(search).schema]
    assert (first["tool_choice"], first["parallel_tool_calls"]) == ("auto", False)
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 3?"},
    ]
    meta = state.get_meta_info("call")
    assert (meta["finish_reason"]["type"], meta["completion_tokens"]) == ("stop", 4)


@pytest.mark.parametrize("stream", [False, True])
def test_results_go_back_by_id(stream) -> None:
    calls = [GOOD, Wire("search", '{"query": "q"}', "call_other")]
    with ToolService(Reply("", calls), FIVE) as service:
        state = by_hand.run(parallel=True, backend=openai(service), stream=stream)
        assert state.ret_value == "It is 5."
    last = service.bodies[-1]
    function = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    other = {"name": "search", "arguments": '{"query": "q"}'}
    assert last["messages"][2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_good", "type": "function", "function": function},
                {"id": "call_other", "type": "function", "function": other},
            ],
        },
        {"role": "tool", "tool_call_id": "call_good", "content": "5"},
        {"role": "tool", "tool_call_id": "call_other", "content": '["q","web"]'},
    ]
    assert last["tool_choice"] == "none" and len(last["tools"]) == 2
    assert "parallel_tool_calls" not in service.bodies[0]


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_format(stream) -> None:
    with ToolService(Reply("I add.", [GOOD]), FIVE) as service:
        state = by_hand.run(backend=anthropic(service), stream=stream)
        assert state.ret_value == "It is 5." and state["call"].arguments == {"a": 2, "b": 3}
    first, last = service.bodies
    assert [tool["name"] for tool in first["tools"]] == ["add", "search"]
    assert first["tools"][0]["input_schema"]["required"] == ["a"]
    assert first["tool_choice"]["type"] == "auto"
    assert first["tool_choice"]["disable_parallel_tool_use"] is True
    use = next(block for block in last["messages"][1]["content"] if block["type"] == "tool_use")
    assert (use["id"], use["input"]) == ("call_good", {"a": 2, "b": 3})
    [result] = last["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "call_good")
    assert "5" in str(result["content"])
    assert last["tool_choice"]["type"] == "none" and len(last["tools"]) == 2


def test_sglangs_answers_after_a_call_use_generate() -> None:
    """A generation without tools keeps the server's own protocol, with the call as text."""
    with ToolService(Reply("", [GOOD]), FIVE) as service:
        by_hand.run(backend=sglang(service)).sync()
    assert service.paths == ["/v1/chat/completions", "/generate"]
    text = service.bodies[1]["text"]
    assert text.startswith("SYSTEM: Be brief.\n\nThese tools can be called:")
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>' in text
    assert text.endswith("USER: <tool_response>\n5\n</tool_response>\nASSISTANT: ")


@pytest.mark.parametrize("make", FORMATS)
def test_an_agent(make) -> None:
    search_call = Wire("search", '{"query": "2 + 3"}', "call_s")
    with ToolService(Reply("", [search_call]), Reply("", [GOOD]), FIVE) as service:
        state = ask.run(backend=make(service))
        assert state.ret_value == state["answer"] == "It is 5."
    assert len(service.bodies) == 3
    assert "These tools can be called" not in state.text()
    assert [message["role"] for message in state.messages()] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_an_agent_without_an_answer_may_not_call_in_the_last_turn() -> None:
    def reply(body: dict[str, Any]) -> Reply:
        return FIVE if body["tool_choice"] == "none" else Reply("", [GOOD])

    with ToolService(reply) as service:
        state = ask.run(backend=openai(service), max_turns=2, on_limit="answer")
        assert state.ret_value == "It is 5."
    assert [body["tool_choice"] for body in service.bodies] == ["auto", "none"]


def test_an_async_agent() -> None:
    async def slow(a: int) -> int:
        await asyncio.sleep(0)
        return a

    @sgl.function
    async def program(s: Any) -> Any:
        s += sgl.user("?")
        return await sgl.agent(s, [slow], max_tokens=64)

    calls = [Wire("slow", '{"a": 1}', "c1"), Wire("slow", '{"a": 2}', "c2")]
    with ToolService(Reply("", calls), FIVE) as service:
        assert program.run(backend=openai(service)).ret_value == "It is 5."
    contents = [turn["content"] for turn in service.bodies[1]["messages"][2:]]
    assert contents == ["1", "2"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("required", "required"), ("add", {"type": "function", "function": {"name": "add"}})],
)
def test_a_choice_is_sent(choice, sent) -> None:
    with ToolService(Reply("", [GOOD]), FIVE) as service:
        by_hand.run(choice, backend=openai(service)).sync()
    assert service.bodies[0]["tool_choice"] == sent


def test_a_text_is_streamed_before_a_call() -> None:
    with ToolService(Reply("I add two numbers.", [GOOD]), FIVE) as service:
        state = by_hand.run(backend=openai(service), stream=True)
        assert "".join(state.text_iter("call")).startswith("I add two numbers.")


def test_anthropics_refusal_of_tools_is_reported() -> None:
    with ToolService(Reply("tools.0.name: too long", status=400)) as service:
        with pytest.raises(ServiceError, match=r"tools\.0\.name"):
            by_hand.run(backend=anthropic(service)).sync()
        assert len(service.bodies) == 1


def test_missing_and_repeated_ids_are_replaced() -> None:
    calls = [GOOD._replace(id=None), GOOD._replace(id="x"), GOOD._replace(id="x")]
    with ToolService(Reply("", calls), FIVE) as service:
        state = by_hand.run(parallel=True, backend=openai(service))
        assert [call.id for call in state["call"]] == ["call_1", "x", "call_3"]
        assert state.ret_value == "It is 5."
    results = [turn["tool_call_id"] for turn in service.bodies[1]["messages"][3:]]
    assert results == ["call_1", "x", "call_3"]


def test_a_call_without_a_result_is_an_error_before_the_request() -> None:
    @sgl.function
    def forgets(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.gen("call", tools=[add]))
        s += sgl.user("And?") + sgl.assistant(sgl.gen("answer"))

    with ToolService(Reply("", [GOOD])) as service:
        with pytest.raises(RequestError, match="follows tool calls without results: add"):
            forgets.run(backend=openai(service)).sync()
        assert len(service.bodies) == 1


def test_forks_and_snapshots_keep_calls() -> None:
    @sgl.function
    def program(s: Any) -> Any:
        s += sgl.user("?") + sgl.assistant(sgl.gen("call", tools=[add]))
        s += sgl.tool(s["call"], s["call"]())
        forks = s.fork(2)
        for fork in forks:
            fork += sgl.assistant(sgl.gen("answer"))
        return [fork["answer"] for fork in forks]

    @sgl.function
    def goes_on(s: Any) -> Any:
        s += sgl.user("Sure?") + sgl.assistant(sgl.gen("sure"))
        return s["sure"]

    with ToolService(Reply("", [GOOD]), FIVE) as service:
        model = openai(service)
        state = program.run(backend=model)
        assert state.ret_value == ["It is 5."] * 2
        for content in (state.snapshot(), sgl.Snapshot.from_json(state.snapshot().to_json())):
            assert goes_on.run(backend=model, continue_from=content).ret_value == "It is 5."
    roles = [[turn["role"] for turn in body["messages"]] for body in service.bodies[1:]]
    assert roles[0] == roles[1] == ["user", "assistant", "tool"]
    assert roles[2] == ["user", "assistant", "tool", "user"]
    assert roles[3] == ["user", "assistant", "user", "user"]  # JSON holds the text of a call
    assert "<tool_call>" in service.bodies[-1]["messages"][1]["content"]


@pytest.mark.parametrize("make", [openai, anthropic])
def test_a_select_after_a_call(make) -> None:
    @sgl.function
    def program(s: Any) -> Any:
        s += sgl.user("?") + sgl.assistant(sgl.gen("call", tools=[add], max_tokens=8))
        s += sgl.tool(s["call"], s["call"]()) + sgl.assistant(sgl.select("word", ["yes", "no"]))
        return s["word"]

    def reply(body: dict[str, Any]) -> Reply:
        return Reply("", [GOOD]) if len(body["messages"]) == 1 else Reply('{"choice": "no"}')

    with ToolService(reply) as service:
        assert program.run(backend=make(service)).ret_value == "no"
    assert [tool for tool in service.bodies[1]["tools"] if "add" in str(tool)]


# Services without tools


WRITTEN = 'I add. <tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'


@pytest.mark.parametrize("make", [openai, litellm])
@pytest.mark.parametrize("stream", [False, True])
def test_a_service_without_tools_gets_the_plain_format(make, stream) -> None:
    refusal = Reply("m does not support tools", status=400)
    with ToolService(refusal, Reply(WRITTEN), FIVE) as service:
        model = make(service)
        with pytest.warns(UserWarning, match="takes no tools: calls are written"):
            state = by_hand.run(backend=model, stream=stream)
            assert state.ret_value == "It is 5."
        assert model.usage().total.retries == {"no tools": 1}
    call = state["call"]
    assert (call.arguments, call.id) == ({"a": 2, "b": 3}, "call_1")
    _, second, third = service.bodies
    assert "tools" not in second and "tools" not in third
    system, user = second["messages"]
    assert system["role"] == "system" and user == {"role": "user", "content": "2 + 3?"}
    assert system["content"].startswith("Be brief.\n\nThese tools can be called:")
    assert [turn["role"] for turn in third["messages"]] == ["system", "user", "assistant", "user"]
    assert third["messages"][2]["content"] == WRITTEN
    assert third["messages"][3]["content"] == "<tool_response>\n5\n</tool_response>"


def test_an_agent_in_the_plain_format_has_a_system_message() -> None:
    refusal = Reply("tools are not supported", status=400)
    with ToolService(refusal, Reply(WRITTEN), FIVE) as service, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ask.run(backend=openai(service)).ret_value == "It is 5."
    assert [turn["role"] for turn in service.bodies[1]["messages"]] == ["system", "user"]
    assert '"search"' in service.bodies[1]["messages"][0]["content"]


def test_an_sglang_server_without_tools_gets_the_plain_format() -> None:
    refusal = Reply("tool_choice requires a parser", status=400)
    with ToolService(refusal, Reply(WRITTEN), FIVE) as service, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = by_hand.run(backend=sglang(service))
        assert state.ret_value == "It is 5."
    assert service.paths == ["/v1/chat/completions", "/generate", "/generate"]
    assert service.bodies[1]["text"].startswith("SYSTEM: Be brief.\n\nThese tools can be called:")


def test_a_completion_model_gets_the_plain_format() -> None:
    def reply(request: Any) -> str:
        return "It is 5." if "<tool_response>" in request.prompt else WRITTEN

    with Service(reply) as service:
        model = sgl.OpenAI("m", False, base_url=service.url, api_key=KEY)
        state = by_hand.run(backend=model)
        assert state.ret_value == "It is 5." and state["call"].arguments == {"a": 2, "b": 3}
        prompt = service.requests[0].prompt
        assert prompt.startswith("SYSTEM: Be brief.\n\nThese tools can be called:")
        assert prompt.count("These tools can be called") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "add", "arguments": {"a": 2', "a call of"),
        ('<tool_call>{"name": "mul", "arguments": {"a": 2}}</tool_call>', "a call of"),
        ('<tool_call>{"name": "add", "arguments": {"a": "2"}}</tool_call>', "schema"),
        ('<tool_call>{"name": "add", "arguments": [2]}</tool_call>', "schema"),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', "a call of"),
        ("<tool_call>add(2, 3)</tool_call>", "a call of"),
        ('<tool_call>{"name": "add"}</tool_call>', "schema"),
        (f"{WRITTEN} <tool_call> {WRITTEN.partition('<tool_call>')[2]}", "a single call"),
        ('<tool_call>{"name": "add", "name": "add", "arguments": {"a": 2}}', "a call of"),
        ("Five.", "a call of"),
    ],
)
def test_faulty_calls_in_the_plain_format(text, expected) -> None:
    replies = [Reply("no tools here", status=400), Reply(text)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ToolService(*replies, Reply(WRITTEN), FIVE) as service:
            model = openai(service)
            assert by_hand.run("required", backend=model).ret_value == "It is 5."
            assert model.usage().total.retries["tool call"] == 1
        with ToolService(*replies) as service:
            with pytest.raises(ServiceError, match=expected):
                by_hand.run("required", backend=openai(service)).sync()
            assert len(service.bodies) == 4


# Faulty answers


def call(arguments: Any, name: Any = "add") -> Reply:
    return Reply("", [Wire(name, arguments)])


DEEP = '{"a": ' + "[" * 600 + "]" * 600 + "}"
FAULTY = {
    "not an object": (call("[2]"), "JSON schema|invalid answer"),
    "unknown tool": (call('{"a": 2}', "rm"), "rm.* is not a call of 'add, search'"),
    "code as a name": (call('{"a": 2}', "__import__('os')"), "is not a call of"),
    "wrong type": (call('{"a": "2"}'), "JSON schema"),
    "missing argument": (call("{}"), "JSON schema"),
    "further argument": (call('{"a": 2, "c": 3}'), "JSON schema"),
    "wrong choice": (call('{"query": "q", "where": "x"}', "search"), "JSON schema"),
    "a nested value": (call(DEEP), "levels|JSON schema|invalid answer"),
    "two calls": (Reply("", [GOOD, GOOD._replace(id="call_b")]), "is not a single call"),
    "no call": (Reply("Five."), "'Five.' is not a call of"),
    "no answer": (Reply(""), "is not a call of"),
    "many calls": (Reply("", [GOOD] * 500), "is not a single call: the answer has 500 calls"),
}
OPENAIS = {
    "bad JSON": (call('{"a": 2'), "is not JSON"),
    "code": (call("dict(a=2)"), "is not JSON"),
    "NaN": (call('{"a": NaN}'), "is not JSON"),
    "a repeated key": (call('{"a": 2, "a": 3}'), "is not JSON"),
    "a number as name": (call('{"a": 2}', 3), "invalid answer|valid string"),
    "an object as arguments": (call({"a": 2}), "invalid answer"),
    "a list as arguments": (call([2]), "invalid answer"),
}
QUICK_STREAMS = {"no call", "not an object"}
"""Faults that the quick tests try in streams, too. In a stream, many calls are many events."""
CASES = [
    pytest.param(
        make,
        name,
        stream,
        id=f"{make.__name__}-{name}-{'stream' if stream else 'whole'}",
        marks=pytest.mark.slow if stream and name not in QUICK_STREAMS else (),
    )
    for make in FORMATS
    for stream in (False, True)
    for name in (FAULTY if make is anthropic and not stream else FAULTY | OPENAIS)
    if make is not anthropic or name not in ("an object as arguments", "a list as arguments")
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "name", "stream"), CASES)
def test_a_faulty_answer_is_asked_for_again(make, name, stream) -> None:
    reply, _ = (FAULTY | OPENAIS)[name]
    with ToolService(reply, Reply("", [GOOD]), FIVE) as service:
        model = make(service)
        state = by_hand.run("required", backend=model, stream=stream)
        if name == "no call" and stream:  # the text has been delivered to the reader
            with pytest.raises(ServiceError, match="is not a call of"):
                state["call"]
            return
        assert state["call"].arguments == {"a": 2, "b": 3}
        assert state.ret_value == "It is 5."
        assert sum(model.usage().total.retries.values()) == 1


@pytest.mark.parametrize(("make", "name", "stream"), CASES)
def test_a_service_of_faulty_answers_is_reported(make, name, stream) -> None:
    reply, message = (FAULTY | OPENAIS)[name]
    with ToolService(reply) as service:
        model = make(service, format_tries=2, tries=2)
        with pytest.raises(ServiceError, match=message) as caught:
            by_hand.run("required", backend=model, stream=stream).sync()
        assert len(service.bodies) == (1 if name == "no call" and stream else 2)
    assert any("gen 'call'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", FORMATS)
def test_too_many_parallel_calls_are_reported(make, stream) -> None:
    calls = [GOOD._replace(id=f"call_{i}") for i in range(MAX_CALLS + 1)]
    message = "at most 16 calls: the answer has 17"
    with ToolService(Reply("", calls)) as service, pytest.raises(ServiceError, match=message):
        by_hand.run("auto", True, backend=make(service), stream=stream).sync()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", FORMATS)
def test_endless_arguments_are_refused(make, stream) -> None:
    arguments = json.dumps({"query": "q" * 2_000_000})
    with ToolService(Reply("", [Wire("search", arguments)])) as service:
        with pytest.raises(ServiceError, match="1,048,576 characters"):
            by_hand.run(backend=make(service), stream=stream).sync()
        assert len(service.bodies) == 1


@pytest.mark.parametrize("make", [openai, sglang])
def test_a_call_that_max_tokens_cuts_is_reported_at_once(make) -> None:
    with ToolService(Reply("", [Wire("add", '{"a": 2')], finish="length")) as service:
        with pytest.raises(ServiceError, match="is not JSON") as caught:
            by_hand.run(backend=make(service)).sync()
        assert "max_tokens" in caught.value.hint and len(service.bodies) == 1


def test_a_call_where_no_tool_is_offered_is_reported() -> None:
    with ToolService(Reply("", [GOOD])) as service:
        with pytest.raises(ServiceError, match="'add' is not text: no tool may be called"):
            by_hand.run(backend=openai(service)).sync()
        assert len(service.bodies) == 1 + 3


def test_omitted_arguments_are_no_arguments() -> None:
    def now() -> str:
        """Tells the time."""
        return "noon"

    @sgl.function
    def program(s: Any) -> Any:
        s += sgl.user("?")
        return sgl.agent(s, [now], max_tokens=64)

    with ToolService(Reply("", [Wire("now", "")]), FIVE) as service:
        assert program.run(backend=openai(service)).ret_value == "It is 5."
    assert service.bodies[1]["messages"][-1]["content"] == "noon"


def test_an_endless_agent_ends() -> None:
    with ToolService(Reply("", [GOOD])) as service:
        with pytest.raises(ProgramError, match="3 turns of the model were calls"):
            ask.run(backend=openai(service), max_turns=3).sync()
        assert len(service.bodies) == 3


def test_a_refused_option_is_omitted_later() -> None:
    refusal = Reply("unknown field parallel_tool_calls", status=400)
    with ToolService(refusal, Reply("", [GOOD]), FIVE) as service:
        assert by_hand.run(backend=openai(service)).ret_value == "It is 5."
    assert "parallel_tool_calls" not in service.bodies[1] and "tools" in service.bodies[1]


def test_sglangs_server_gets_its_own_sampling_options() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?")
        s += sgl.assistant(sgl.gen("call", tools=[add], top_k=20, min_tokens=2, stop="END"))

    with ToolService(Reply("", [GOOD])) as service:
        program.run(backend=sglang(service)).sync()
    [body] = service.bodies
    assert (body["top_k"], body["min_tokens"], "END" in body["stop"]) == (20, 2, True)
    assert "min_p" not in body


UNPARSED = {
    "qwen": '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>',
    "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"a": 2}}]',
    "llama": '<|python_tag|>{"name": "add", "parameters": {"a": 2}}',
    "llama without a mark": '{"name": "add", "parameters": {"a": 2}}',
    "a list": '[{"name": "add", "arguments": {"a": 2}}]',
    "xml": "<function=add><parameter=a>2</parameter></function>",
}
TEXTS = [
    "I can add.",
    '{"name": "other", "arguments": {}}',
    '{"add": 1}',
    "<tool_call> is a mark",
    "[1]",
]


@pytest.mark.parametrize("make", [openai, sglang])
@pytest.mark.parametrize("text", UNPARSED.values(), ids=UNPARSED.keys())
def test_a_server_without_a_parser_for_calls_is_reported(make, text) -> None:
    with ToolService(Reply(text)) as service:

        @sgl.function
        def program(s: Any) -> None:
            s += sgl.use_tools([add, search]) + sgl.user("2 + 3?")
            s += sgl.assistant(sgl.gen("call", tools=[add, search]))

        with pytest.warns(UserWarning, match="tool call as text: start the server with"):
            state = program.run(backend=make(service)).sync()
        assert state is None


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_are_not_reported(text) -> None:
    assert not has_unparsed_call(text, [sgl.Tool(add), sgl.Tool(search)])


def test_deeply_nested_answers_are_not_reported() -> None:
    text = "[" * 100_000 + '"add"'
    assert not has_unparsed_call(text, [sgl.Tool(add)])
