"""Calls of tools on the bundled model: whatever it writes at temperature 1, every call parses, and
obeys the schema of its tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel

import sgnb as sgl
from sgnb.backends.local import LocalExecutor
from sgnb.engine.engine import Engine
from sgnb.lang.chat.tool_format import ToolFormat


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: float
    colour: Colour = Colour.RED


@dataclass
class Note:
    title: str
    done: bool


def search(query: str, where: Literal["web", "wiki"] = "web", limit: int | None = None) -> str:
    """Searches."""
    return f"{query!r} {where} {limit}"


def move(path: list[Point], speed: float = 1.0) -> str:
    """Moves."""
    return " ".join(f"{point.x} {point.colour.value}" for point in path)


def note(note: Note, tags: list[Literal["a", "b"]]) -> str:
    """Takes a note."""
    return f"{note.title} {note.done} {len(tags)}"


def stop() -> str:
    """Stops."""
    return "stopped"


TOOLS = [search, move, note, stop]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny") as engine:
        yield engine


@pytest.fixture
def executor(engine: Engine) -> Iterator[LocalExecutor]:
    executor = LocalExecutor(engine)
    yield executor
    executor.close()


@sgl.function
def program(s: Any, number: int, choice: str) -> Any:
    s += sgl.use_tools(TOOLS)
    s += sgl.user(f"Take step {number}.")
    s += sgl.assistant(
        sgl.gen("call", tools=TOOLS, tool_choice=choice, max_tokens=48, temperature=1.0)
    )
    call = s["call"]
    s += sgl.tool(call, call())


def test_calls_parse_and_run_at_temperature_1(executor: LocalExecutor) -> None:
    rows = [(i, choice) for i in range(6) for choice in ("required", "search", "move", "note")]
    for (_, choice), state in zip(rows, program.run_batch(rows, backend=executor), strict=True):
        call = state["call"]
        assert choice in ("required", call.name)
        jsonschema.validate(call.arguments, call.tool.parameters())
        # The state's text is the call as it was parsed, and its result.
        written = state.messages()[1]["content"]
        assert json.loads(written.removeprefix("<tool_call>").removesuffix("</tool_call>")) == {
            "name": call.name,
            "arguments": call.arguments,
        }
        assert state.messages()[2] == {"role": "tool", "content": call()}


def test_parallel_calls_end(executor: LocalExecutor) -> None:
    @sgl.function
    def several(s: Any) -> None:
        s += sgl.user("Go.") + sgl.assistant(
            sgl.gen(
                "calls",
                tools=[stop],
                tool_choice="required",
                parallel_tool_calls=True,
                max_tokens=32,
            )
        )

    for state in several.run_batch([{}] * 4, backend=executor):
        assert 1 <= len(state["calls"]) <= 16
        assert state.messages()[-1]["content"].count("<tool_call>") == len(state["calls"])


@pytest.mark.parametrize("mark", ["e", "<|user|>"], ids=["text", "special token"])
def test_a_mark_in_the_models_text_opens_a_call(executor: LocalExecutor, mark: str) -> None:
    """Also where it is a special token, which texts leave out."""
    opened = replace(ToolFormat(), open=f"{mark} ")
    executor.chat = replace(executor.chat, stop=(), tools=opened)
    [token] = executor.engine.tokenizer.hf.encode("<|user|>")  # type: ignore[union-attr]
    bias = {} if mark == "e" else {token: 50.0}

    @sgl.function
    def free(s: Any) -> None:
        s += "Once upon a time" + sgl.gen(
            "call", tools=[search], max_tokens=48, logit_bias=bias, temperature=1.0
        )

    state = free.run(backend=executor)
    assert isinstance(state["call"], sgl.ToolCall)
    assert f"{mark} {{" in state.text() and state.text().endswith("}\n</tool_call>")
    assert token in state.token_ids() or mark == "e"


def test_the_format_is_that_of_the_models_own_template(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = (
        "{% if tools %}<|system|>\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|end|>\n"
        "{% endif %}{% for m in messages %}<|{{ m.role if m.role != 'tool' else 'user' }}|>\n"
        "{% for c in m.tool_calls %}<call>{{ c.function | tojson }}</call>{% endfor %}"
        "{{ m.content }}<|end|>\n{% endfor %}"
    )
    assert engine.tokenizer is not None
    monkeypatch.setattr(engine.tokenizer.hf, "chat_template", template)
    executor = LocalExecutor(engine)
    form = executor.chat.tools
    assert (form.open, form.close, form.mark(None)) == ("<call>", "</call>", "<call>")
    state = program.run(0, "search", backend=executor)
    assert state.text().startswith('<|system|>\n{"type": "function", "function": {"name": "search"')
    assert f"{state['call']}</call><|end|>\n<|user|>\n{state['call']()}<|end|>\n" in state.text()
    executor.close()


def test_an_agent_that_answers_or_says_why_not(executor: LocalExecutor) -> None:
    @sgl.function
    def ask(s: Any, question: str) -> str:
        s += sgl.use_tools(TOOLS)
        s += sgl.user(question)
        return sgl.agent(s, TOOLS, max_turns=2, on_limit="answer", max_tokens=16)

    states = ask.run_batch([("Who wrote Hamlet?",)] * 4, backend=executor)
    assert all(isinstance(state["answer"], str) for state in states)
