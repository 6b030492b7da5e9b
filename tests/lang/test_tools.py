"""Tools: schemas of functions, calls by hand and in an agent's loop, formats read off templates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import jinja2
import jsonschema
import numpy as np
import pytest
from pydantic import AfterValidator, BaseModel, ValidationError

import sgnb as sgl
from sgnb.errors import OptionError, ProgramError
from sgnb.lang.chat import PLAIN, ChatTemplate, from_render, with_tools
from sgnb.lang.chat.tool_format import ToolFormat
from sgnb.lang.chat.tools import MAX_CALLS
from sgnb.lang.executor import Call, Delta, Result

from .fake import FakeExecutor


class Point(BaseModel):
    x: int
    tags: list[str] = []


@dataclass
class Unhashable:
    n: int = 1

    def __call__(self, a: int) -> int:
        return a + self.n


def add(a: int, b: int = 1) -> int:
    """Adds two numbers.

    Args:
        a: the first
        b (int): the second
    """
    return a + b


def search(
    query: str, where: Literal["web", "wiki"] = "web", limit: int | None = None
) -> list[str]:
    """Searches.

    :param query: what to look for
    """
    return [query, where]


def move(to: Point, speeds: dict[str, float]) -> str:
    """Moves."""
    return f"{type(to).__name__} {to.x} {speeds}"


def fails(why: str) -> str:
    """Fails."""
    raise KeyError(why)


class StoppingFake(FakeExecutor):
    """One whose texts end at the call's stop strings, as an engine's do; answers in order."""

    def __init__(self, *answers: str, chat: ChatTemplate = PLAIN, **options: Any) -> None:
        script = iter(answers)
        super().__init__(lambda call: next(script), chat=chat, **options)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        def cut(message: Delta | Result) -> None:
            if isinstance(message, Result) and message.texts:
                text = message.texts[0]
                for stop in call.params.stop:
                    if stop in text:
                        meta = {**message.meta[0], "stopped_by": stop}
                        message = replace(message, texts=(text.partition(stop)[0],), meta=(meta,))
                        break
            sink(message)

        return super().generate(call, cut)


def call_text(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


CLOSE, NEXT = "", "\n<tool_call>\n"  # after a call, of several


@pytest.fixture
def fake() -> Any:
    made: list[StoppingFake] = []

    def build(*answers: str, **options: Any) -> StoppingFake:
        made.append(StoppingFake(*answers, **options))
        return made[-1]

    yield build
    for executor in made:
        executor.close()


# What a function becomes


def test_schema_of_a_function() -> None:
    assert sgl.Tool(add).schema == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first"},
                    "b": {"type": "integer", "default": 1, "description": "the second"},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
    properties = sgl.Tool(search).parameters()["properties"]
    assert properties["where"] == {"type": "string", "default": "web", "enum": ["web", "wiki"]}
    assert properties["query"]["description"] == "what to look for"
    assert {"type": "null"} in properties["limit"]["anyOf"]
    assert sgl.Tool(search).description == "Searches."


def test_arguments_become_the_types_of_the_hints() -> None:
    arguments = {"to": {"x": 3}, "speeds": {"a": 1.5}}
    assert sgl.Tool(move)(arguments) == "Point 3 {'a': 1.5}"

    def copy(json: int, schema: str = "s") -> tuple[int, str]:
        return json, schema

    assert sgl.Tool(copy)({"json": 4}) == (4, "s")
    with pytest.raises(ValidationError):
        sgl.Tool(add)({"a": "many"})


def test_functions_that_are_no_tools() -> None:
    def bare(a) -> None: ...  # type: ignore[no-untyped-def]

    def starred(*a: int) -> None: ...

    def strange(a: Callable[[int], int]) -> None: ...

    for func, what in ((bare, "no type hint"), (starred, "takes"), (strange, "no JSON schema")):
        with pytest.raises(OptionError, match=what):
            sgl.gen("call", tools=[func])
    for tools, what in (
        ([], "nothing to call"),
        (add, "no list"),
        ([add, sgl.Tool(search, "add")], "two tools"),
        ([3], "no function"),
        ([lambda: 1], "cannot be named"),
        ([Unhashable()], "cannot be named"),
        ([int], "has no signature"),
    ):
        with pytest.raises(OptionError, match=what):
            sgl.gen("call", tools=tools)
    with pytest.raises(OptionError, match="the tool 'add' is no function"):
        sgl.Tool("add")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean 'add'"):
        sgl.gen("call", tools=[add], tool_choice="ad")
    with pytest.raises(OptionError, match="regex='a' and tools exclude each other"):
        sgl.gen("call", tools=[add], regex="a")
    with pytest.raises(OptionError, match="and tools exclude each other"):
        sgl.gen("call", tools=[add], choices=["a"])
    with pytest.warns(UserWarning, match="no effect without tools"):
        sgl.gen("call", tool_choice="required")


# By hand


@sgl.function
def by_hand(s: Any, question: str, choice: str = "auto", parallel: bool = False) -> Any:
    tools = [add, search]
    s += sgl.use_tools(tools)
    s += sgl.user(question)
    s += sgl.assistant(
        sgl.gen("call", tools=tools, tool_choice=choice, parallel_tool_calls=parallel)
    )
    call = s["call"]
    if isinstance(call, str):
        return call
    result = [one() for one in call] if parallel else call()
    s += sgl.tool(call, result)
    s += sgl.assistant(sgl.gen("answer"))
    return result


def test_a_call_by_hand(fake: Any) -> None:
    executor = fake("I add. <tool_call>", call_text("add", a=2, b=3), "It is 5.")
    state = by_hand.run("2 + 3?", backend=executor)
    call = state["call"]
    assert (call.name, call.arguments) == ("add", {"a": 2, "b": 3})
    assert isinstance(call, sgl.ToolCall) and call.tool.func is add
    assert (call(), state.ret_value, state["answer"]) == (5, 5, "It is 5.")
    assert state.messages()[-2:] == [
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "It is 5."},
    ]
    written = f"ASSISTANT: I add. <tool_call>\n{call_text('add', a=2, b=3)}\n</tool_call>\n"
    result = "USER: <tool_response>\n5\n</tool_response>\nASSISTANT: It is 5.\n"
    assert state.text().endswith(written + result)
    assert str(call) == "I add. <tool_call>\n" + call_text("add", a=2, b=3)
    declared = state.text().partition("USER:")[0]
    assert declared.startswith("SYSTEM: These tools can be called:") and '"search"' in declared


def test_the_steps_of_a_call(fake: Any) -> None:
    """A free text ends at the mark, and the call is a text of the schema, that no stop cuts."""
    executor = fake("<tool_call>", call_text("add", a=2), "So.")
    by_hand.run("?", backend=executor).sync()
    free, bound, _ = executor.calls
    assert free.params.stop == ("\nUSER:", "<tool_call>") and free.params.grammar is None
    assert bound.params.stop == () and bound.prompt.endswith("ASSISTANT: <tool_call>\n")
    schema = json.loads(bound.params.json_schema)
    for good in (call_text("add", a=1), call_text("search", query="q", limit=None)):
        jsonschema.validate(json.loads(good), schema)
    for bad in (call_text("move"), call_text("add"), call_text("add", a="1"), "{}"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(bad), schema)


def test_an_answer_in_text(fake: Any) -> None:
    executor = fake("Five.")
    state = by_hand.run("2 + 3?", backend=executor)
    assert state["call"] == state.ret_value == "Five."
    assert len(executor.calls) == 1 and "finish_reason" in state.get_meta_info("call")


def test_required_and_named_calls(fake: Any) -> None:
    for choice, names in (("required", {"add", "search"}), ("add", {"add"})):
        executor = fake(call_text("add", a=1), "Two.")
        state = by_hand.run("1 + 1?", choice, backend=executor)
        assert state.ret_value == 2
        cases = json.loads(executor.calls[0].params.json_schema)["anyOf"]
        assert {case["properties"]["name"]["const"] for case in cases} == names


def test_parallel_calls(fake: Any) -> None:
    first, second = call_text("add", a=1), call_text("search", query="q")
    executor = fake("<tool_call>", first, NEXT, second, CLOSE, "Done.")
    state = by_hand.run("?", parallel=True, backend=executor)
    assert [call.name for call in state["call"]] == ["add", "search"]
    assert state.ret_value == [2, ["q", "web"]]
    between = "USER: <tool_response>\n2\n</tool_response>\n<tool_response>\n"
    assert between + '["q","web"]\n</tool_response>\n' in state.text()
    endless = fake("<tool_call>", *[first, NEXT] * (MAX_CALLS - 1), first, "Done.")
    assert len(by_hand.run("?", parallel=True, backend=endless)["call"]) == MAX_CALLS


def test_results_are_data(fake: Any) -> None:
    @sgl.function(special_tokens=True)
    def program(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.gen("call", tools=[search], tool_choice="required"))
        s += sgl.tool(s["call"], "<|end|>")
        s += sgl.gen("answer")

    executor = fake(call_text("search", query="q"), "")
    program.run(backend=executor).sync()
    kinds = {part.kind for part in executor.calls[-1].segments if "<|end|>" in part.text}
    assert kinds == {"data"}


def test_wrong_results_say_so(fake: Any) -> None:
    call = sgl.ToolCall("add", {"a": 1}, sgl.Tool(add))
    with pytest.raises(ProgramError, match="is no call"):
        sgl.tool("add", 3)
    with pytest.raises(ProgramError, match="2 calls need a list"):
        sgl.tool([call, call], [3])

    @sgl.function
    def program(s: Any) -> None:
        with s.user():
            s += sgl.tool(call, 3)

    with pytest.raises(ProgramError, match="inside the role 'user'"):
        program.run(backend=fake())

    @sgl.function
    def late(s: Any) -> None:
        s += sgl.user("?") + sgl.use_tools([add])

    with pytest.raises(ProgramError, match="after the conversation began"):
        late.run(backend=fake())


def test_what_json_cannot_say_is_a_result_as_text() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    call = sgl.ToolCall("add", {"a": 1}, sgl.Tool(add))
    for result, text in ((b"\xff", "b'\\xff'"), (loop, "[1, [...]]"), (map(str, [1]), '["1"]')):
        assert sgl.tool(call, result).texts == (text,)
    assert sgl.tool(call, (n for n in [1, 2])).texts == ("[1,2]",)


def test_a_call_that_was_cut_says_so(fake: Any) -> None:
    with pytest.raises(ProgramError, match="is incomplete") as caught:
        by_hand.run("?", "required", backend=fake('{"name": "add", "argu'))
    assert any("gen 'call'" in note for note in caught.value.__notes__)


def test_errors_of_a_tool() -> None:
    call = sgl.ToolCall("fails", {"why": "so"}, sgl.Tool(fails))
    with pytest.raises(KeyError) as caught:
        call()
    assert f"in tool 'fails', at {__file__}" in caught.value.__notes__[0]
    assert call(on_error="model") == "Error: KeyError: 'so'"
    even = Annotated[int, AfterValidator(lambda n: n if n % 2 == 0 else int("odd"))]

    def half(n: int) -> int:
        return n // 2

    half.__annotations__["n"] = even
    text = sgl.ToolCall("half", {"n": 3}, sgl.Tool(half))(on_error="model")
    assert text.startswith("Error: n: Value error")
    with pytest.raises(OptionError, match="on_error"):
        call(on_error="nobody")  # type: ignore[arg-type]


def test_streams_forks_and_batches(fake: Any) -> None:
    executor = fake("I add. <tool_call>", call_text("add", a=2), "Three.")
    state = by_hand.run("?", stream=True, backend=executor)
    assert "".join(state.text_iter("answer")) == "Three."
    assert "".join(state.text_iter("call")) == str(state["call"])
    assert "".join(state.text_iter()) == state.text()

    same = FakeExecutor(call_text("add", a=4))
    many = by_hand.run_batch([("?", "required")] * 20, backend=same)
    assert [state.ret_value for state in many] == [5] * 20

    @sgl.function
    def forked(s: Any) -> list[int]:
        s += sgl.use_tools([add]) + sgl.user("?")
        forks = s.fork(3)
        forks += sgl.assistant(sgl.gen("call", tools=[add], tool_choice="add"))
        forks.join()
        return [call() for call in s["call"]]

    assert forked.run(backend=same).ret_value == [5, 5, 5]
    same.close()


def test_an_answer_streams_piece_by_piece(fake: Any) -> None:
    executor = fake("Five.", delay=0.01)
    pieces = list(by_hand.run("?", stream=True, backend=executor).text_iter("call"))
    assert len(pieces) > 1 and "".join(pieces) == "Five."


# An agent


@sgl.function
def ask(s: Any, question: str, **options: Any) -> Any:
    tools = [add, fails]
    s += sgl.use_tools(tools)
    s += sgl.user(question)
    return sgl.agent(s, tools, **{"parallel_tool_calls": False, **options})


def test_an_agent_calls_until_it_answers(fake: Any) -> None:
    executor = fake("<tool_call>", call_text("add", a=1), "<tool_call>", call_text("add", a=2), "3")
    state = ask.run("?", backend=executor)
    assert state.ret_value == state["answer"] == "3"
    assert [state[f"answer_{i}"].arguments for i in range(2)] == [{"a": 1}, {"a": 2}]
    roles = [message["role"] for message in state.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_an_agent_talks_on(fake: Any) -> None:
    @sgl.function
    def talk(s: Any) -> list[str]:
        answers = []
        for question in ("One?", "Two?"):
            s += sgl.user(question)
            answers.append(sgl.agent(s, [add]))
        return answers

    executor = fake("1", "<tool_call>", call_text("add", a=1), CLOSE, "2")
    state = talk.run(backend=executor)
    assert state.ret_value == ["1", "2"] and state["answer_0"] == "1"
    assert state.text().count("These tools can be called") == 1


def test_an_agent_tells_of_its_tools(fake: Any) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?")
        sgl.agent(s, [add])

    text = program.run(backend=fake("1")).text()
    assert "USER: These tools can be called:" in text
    assert "These tools" not in ask.run("?", backend=fake("1")).text().partition("USER:")[2]


def test_an_agent_goes_on_in_another_run(fake: Any) -> None:
    """Also through JSON, where a call is its name and arguments; the tools stay told."""
    turn = ["<tool_call>", call_text("add", a=1)]
    state = ask.run("?", backend=fake(*turn, "Two."))
    text = state.snapshot().to_json()
    saved = sgl.Snapshot.from_json(text)
    assert saved.variables["answer_0"] == {"name": "add", "arguments": {"a": 1}}

    @sgl.function
    def more(s: Any) -> str:
        s += sgl.user("And?")
        return sgl.agent(s, [add])

    for start in (state, saved):
        went_on = more.run(continue_from=start, backend=fake("Three."))
        assert went_on.text() == state.text() + "USER: And?\nASSISTANT: Three.\n"
        assert went_on.ret_value == "Three." and went_on["answer_0"]


def test_an_agent_that_never_answers(fake: Any) -> None:
    turn = ["<tool_call>", call_text("add", a=1)]
    with pytest.raises(ProgramError, match="2 turns of the model were calls") as caught:
        ask.run("?", max_turns=2, backend=fake(*turn * 2))
    assert __file__ in str(caught.value) and "on_limit" in str(caught.value)
    executor = fake(*turn, "Two, I think.")
    state = ask.run("?", max_turns=2, on_limit="answer", backend=executor)
    assert state["answer"] == "Two, I think."
    assert executor.calls[-1].params.stop == ("\nUSER:",)


def test_an_agent_that_must_call_answers_in_its_last_turn(
    fake: Any, recwarn: pytest.WarningsRecorder
) -> None:
    options = {"max_turns": 2, "on_limit": "answer", "tool_choice": "required"}
    executor = fake(call_text("add", a=1), "Two.")
    assert ask.run("?", **options, backend=executor)["answer"] == "Two."
    assert not recwarn.list


def test_errors_reach_the_model_or_the_user(fake: Any) -> None:
    turn = ["<tool_call>", call_text("fails", why="so")]
    state = ask.run("?", backend=fake(*turn, "It failed."))
    assert state["answer"] == "It failed." and "\nError: KeyError: 'so'\n" in state.text()
    with pytest.raises(KeyError, match="so") as caught:
        ask.run("?", on_error="user", backend=fake(*turn))
    assert f"in tool 'fails', at {__file__}" in caught.value.__notes__[0]


def test_arguments_of_an_agent(fake: Any) -> None:
    for options, what in (
        ({"max_turns": 0}, "max_turns=0"),
        ({"max_turns": True}, "max_turns=True"),
        ({"on_error": "nobody"}, "on_error"),
        ({"on_limit": "sleep"}, "on_limit"),
        ({"temprature": 0}, "did you mean 'temperature'"),
    ):
        with pytest.raises(OptionError, match=what):
            ask.run("?", **options, backend=fake("1"))
    assert ask.run("?", max_turns=np.int64(1), backend=fake("1")).ret_value == "1"


async def lookup(key: str) -> str:
    """Looks up."""
    await asyncio.sleep(0)
    return key.upper()


def test_an_agent_in_an_async_program(fake: Any) -> None:
    @sgl.function
    async def program(s: Any) -> str:
        s += sgl.user("?")
        return await sgl.agent(s, [lookup, add])

    first, second = call_text("lookup", key="a"), call_text("add", a=1)
    executor = fake("<tool_call>", first, NEXT, second, CLOSE, "A and 2.")
    state = asyncio.run(program.arun(backend=executor))
    assert state.ret_value == "A and 2."
    assert "<tool_response>\nA\n</tool_response>\n<tool_response>\n2\n" in state.text()


def test_after_a_tools_error_no_other_goes_on(fake: Any) -> None:
    ended = []

    async def waits(key: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(key)

    @sgl.function
    async def program(s: Any) -> list[str]:
        s += sgl.user("?")
        with pytest.raises(KeyError):
            await sgl.agent(s, [waits, fails], on_error="user")
        await asyncio.sleep(0)
        return list(ended)

    calls = call_text("waits", key="a"), NEXT, call_text("fails", why="so"), CLOSE
    state = asyncio.run(program.arun(backend=fake("<tool_call>", *calls)))
    assert state.ret_value == ["a"]


def test_async_tools_by_hand(fake: Any) -> None:
    @sgl.function
    async def program(s: Any) -> str:
        s += sgl.user("?") + sgl.assistant(sgl.gen("call", tools=[lookup], tool_choice="lookup"))
        call = await s["call"]
        s += sgl.tool(call, await call())
        return await s["call"]

    state = asyncio.run(program.arun(backend=fake(call_text("lookup", key="k"))))
    assert state.messages()[-1] == {"role": "tool", "content": "K"}

    @sgl.function
    def plain(s: Any) -> Any:
        return sgl.agent(s, [lookup])

    with pytest.raises(ProgramError, match="the tool 'lookup' is an async def"):
        plain.run(backend=fake())


# Formats of templates, in the manner of known models

QWEN = """{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Functions:{% for t in tools %}
{{ t | tojson }}{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}{% elif m.role != 'system' or not loop.first %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}{% if not loop.first %}
{% endif %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}"""

LLAMA = """<begin>{% set ns = namespace(asked=false) %}{% for m in messages %}
{%- if m.role == 'tool' %}<h>ipython</h>{{ {"output": m.content} | tojson }}<eot>
{%- elif m.tool_calls %}
{%- if m.tool_calls | length > 1 %}{{ refuse() }}{% endif %}<h>assistant</h>
{%- set c = m.tool_calls[0].function %}{"name": "{{ c.name }}", "parameters":
{{- ' ' }}{{ c.arguments | tojson }}}<eot>
{%- else %}<h>{{ m.role }}</h>{% if m.role == 'user' and tools and not ns.asked %}Functions:
{% for t in tools %}{{ t | tojson }}{% endfor %}
Question: {% set ns.asked = true %}{% endif %}{{ m.content }}<eot>{% endif %}{% endfor %}"""

MISTRAL = """<s>{% set asked = messages | selectattr('role', 'equalto', 'user') | list %}
{%- for m in messages %}
{%- if m.role == 'user' %}{% if tools and m == asked[-1] %}[AVAILABLE_TOOLS]
{%- for t in tools %}{{ t | tojson }}{% endfor %}[/AVAILABLE_TOOLS]{% endif -%}
[INST]{{ m.content }}[/INST]
{%- elif m.role == 'tool' %}[TOOL_RESULTS]{"content": {{ m.content }}, "call_id":
{{- ' ' }}"{{ m.tool_call_id }}"}[/TOOL_RESULTS]
{%- elif m.tool_calls %}[TOOL_CALLS][
{%- for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments":
{{- ' ' }}{{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}
{%- if not loop.last %}, {% endif %}{% endfor %}]</s>
{%- elif m.role == 'assistant' %}{{ m.content }}</s>
{%- else %}{{ refuse() }}{% endif %}{% endfor %}"""

NAME_FIRST = """{% for t in tools %}{{ t | tojson }}{% endfor %}
{%- for m in messages %}[{{ m.role }}]{% for c in m.tool_calls %}[CALL]{{ c.function.name }}[ARGS]
{{- c.function.arguments | tojson }}{% endfor %}{{ m.content }}[end]{% endfor %}"""


def renderer(source: str) -> Callable[..., str]:
    template = jinja2.Environment(keep_trailing_newline=True)
    template.policies["json.dumps_kwargs"] = {"sort_keys": False}
    compiled = template.from_string(source)
    return lambda messages, tools=None: compiled.render(messages=messages, tools=tools)


def chat_of(source: str) -> ChatTemplate:
    render = renderer(source)
    return with_tools(from_render("model", render), render)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (QWEN, ("<tool_call>\n", "\n</tool_call>", "arguments", "<tool_call>")),
        (LLAMA, ("", "", "parameters", '{"name":')),
        (MISTRAL, ("[TOOL_CALLS][", "]", "arguments", "[TOOL_CALLS][")),
    ],
    ids=["qwen", "llama", "mistral"],
)
@pytest.mark.parametrize("system", [True, False])
def test_a_program_writes_what_the_template_renders(
    source: str, expected: tuple[str, ...], system: bool, fake: Any
) -> None:
    chat = chat_of(source)
    form = chat.tools
    assert (form.open, form.close, form.arguments_key, form.mark(None)) == expected
    ids = {form.id_key: "abc123xyz"} if form.id_key else {}
    arguments = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    written = [json.dumps({"name": "add", form.arguments_key: own, **ids}) for own in arguments]
    script = [form.mark(None), written[0]]
    if form.separator is not None:
        same = form.close if form.separator.startswith(form.close) else ""
        ends = form.separator.removeprefix(same), form.close.removeprefix(same)
        script += [ends[0], written[1], ends[1]]
    system = system and source is not MISTRAL

    @sgl.function
    def program(s: Any) -> Any:
        s += sgl.use_tools([add])
        if system:
            s += sgl.system("Be kind.")
        s += sgl.user("What?")
        s += sgl.assistant(sgl.gen("calls", tools=[add], parallel_tool_calls=True))
        s += sgl.tool(s["calls"], [call() for call in s["calls"]])
        s += sgl.assistant(sgl.gen("answer"))
        return s["calls"]

    state = program.run(backend=fake(*script, "So.", chat=chat))
    made = [
        {"id": "abc123xyz", "type": "function", "function": {"name": "add", "arguments": own}}
        for own in arguments[: len(state.ret_value)]
    ]
    assert len(made) == (1 if source is LLAMA else 2)
    messages: list[dict[str, Any]] = [
        *([{"role": "system", "content": "Be kind."}] if system else []),
        {"role": "user", "content": "What?"},
        {"role": "assistant", "content": "", "tool_calls": made},
        *[
            {"role": "tool", "name": "add", "tool_call_id": "abc123xyz", "content": text}
            for text in ("3", "7")[: len(made)]
        ],
        {"role": "assistant", "content": "So."},
    ]
    assert state.text() == renderer(source)(messages, [sgl.Tool(add).schema])


@pytest.mark.parametrize(
    ("source", "whitespace"),
    [(QWEN, None), (LLAMA, None), (MISTRAL, None), (LLAMA.replace('"name": ', '"name":'), 1)],
)
def test_a_call_has_the_layout_of_the_template(source: str, whitespace: int | None) -> None:
    assert chat_of(source).tools.whitespace == whitespace


def test_results_in_json_strings_are_escaped(fake: Any) -> None:
    call = sgl.ToolCall("search", {}, sgl.Tool(search))

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.tool(call, 'a "b"\n')

    text = program.run(backend=fake(chat=chat_of(LLAMA))).text()
    assert json.loads(text.removeprefix("<h>ipython</h>").removesuffix("<eot>")) == {
        "output": 'a "b"\n'
    }


def test_a_mark_that_is_a_special_token_is_seen(fake: Any) -> None:
    executor = fake("<|call|>", call_text("add", a=1))
    executor.chat = replace(PLAIN, tools=replace(ToolFormat(), open="<|call|>\n["))
    by_hand.run("?", parallel=False, backend=executor).error()
    assert executor.calls[0].params.stop[-1] == "<|call|>"
    assert not executor.calls[0].params.skip_special_tokens


@pytest.mark.parametrize("source", [NAME_FIRST, QWEN.replace("tool_calls", "calls"), "refuses"])
def test_templates_that_write_no_json_call_get_the_plain_format(source: str) -> None:
    chatml = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
    plain = renderer(chatml)
    tool_render = renderer(source)

    def render(messages: Any, tools: Any = None) -> str:
        return tool_render(messages, tools) if tools else plain(messages)

    assert with_tools(from_render("model", plain), render).tools == ToolFormat()
