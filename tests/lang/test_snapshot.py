"""States that go on: in another run, as a copy, through JSON, on another engine."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from sgnb.errors import OptionError, RecordError
from sgnb.lang import (
    Snapshot,
    assistant,
    function,
    gen,
    select,
    user,
    user_begin,
    user_end,
)
from sgnb.lang.chat import ChatTemplate
from sgnb.lang.executor import Result
from sgnb.segment import Segment

from .fake import answer_by_hash

TEMPLATE = ChatTemplate(
    "other", {"system": ("[S]", "[/S]"), "user": ("[U]", "[/U]"), "assistant": ("[A]", "[/A]")}
)


EMPTY: dict[str, Any] = {
    "sgnb": 1, "tokenizer": "", "segments": [], "messages": [], "earlier": {}, "variables": {},
}  # fmt: skip


@function
def turn(s: Any, question: str) -> None:
    s += user(question)
    s += assistant(gen("answer"))


@pytest.fixture
def tokens(make: Any) -> Any:
    """An executor whose outputs have tokens."""

    def build(**options: Any) -> Any:
        executor = make(lambda call: "xy", **options)
        generate = executor.generate

        def made(call: Any, sink: Any) -> Any:
            def note(item: Any) -> None:
                kept = (Segment("xy", "output", (7, 8)),)
                sink(Result(item.texts, item.meta, segments=kept))

            return generate(call, note)

        executor.generate = made
        return executor

    return build


def test_a_run_goes_on_from_another(make: Any) -> None:
    executor = make(answer_by_hash)
    first = turn.run("a?", backend=executor)
    second = turn.run("b?", backend=executor, continue_from=first)
    whole = [message["role"] for message in second.messages()]
    assert whole == ["user", "assistant"] * 2
    assert second.text().startswith(first.text())
    assert second.history("answer") == [first["answer"], second["answer"]]
    assert executor.calls[1].prompt == first.text() + "USER: b?\nASSISTANT: "
    assert first.messages() == second.messages()[:2]  # it stays as it was
    other = turn.run("c?", backend=executor, continue_from=first)
    assert other.text().startswith(first.text()) and "b?" not in other.text()


def test_batches_streams_and_event_loops_go_on_too(make: Any) -> None:
    executor = make("x")
    first = turn.run("a?", backend=executor)
    states = turn.run_batch([("b",), ("c",)], backend=executor, continue_from=first)
    assert all(state.text().startswith(first.text()) for state in states)
    streamed = turn.run("d", backend=executor, continue_from=first, stream=True)
    assert "".join(streamed.text_iter()).startswith(first.text())
    awaited = asyncio.run(turn.arun("e", backend=executor, continue_from=first.snapshot()))
    assert len(awaited.messages()) == 4


def test_what_is_inherited_can_be_read_and_set(make: Any) -> None:
    executor = make("x")

    @function
    def begin(s: Any) -> None:
        s += "One: " + select("pick", ["a", "bb"])
        s["n"] = 3

    @function
    def more(s: Any) -> Any:
        s["n"] = s["n"] + 1
        return s["pick"], s["n"], s.get_meta_info("pick")["chosen"]

    state = more.run(backend=executor, continue_from=begin.run(backend=executor))
    assert state.ret_value == ("a", 4, "a") and "pick" in state


def test_through_json(tokens: Any) -> None:
    executor = tokens()
    first = turn.run("Größe <|end|>?", backend=executor)
    text = first.snapshot().to_json()
    restored = Snapshot.from_json(text)
    assert json.loads(text)["variables"] == {"answer": "xy"}
    assert restored.segments == first.snapshot().segments and restored.text == first.text()
    turn.run("b", backend=executor, continue_from=restored).sync()
    turn.run("b", backend=executor, continue_from=first).sync()
    assert executor.calls[1].segments == executor.calls[2].segments
    assert Segment("xy", "output", (7, 8)) in executor.calls[1].segments
    assert Segment("Größe <|end|>?", "data") in executor.calls[1].segments


def test_on_another_engine_outputs_are_text_and_roles_have_its_marks(tokens: Any) -> None:
    first = turn.run("a", backend=tokens()).snapshot()
    other = tokens(chat=TEMPLATE)
    held = replace(first, tokenizer="words")
    state = turn.run("b", backend=other, continue_from=Snapshot.from_json(held.to_json()))
    assert state.text() == "[U]a[/U][A]xy[/A][U]b[/U][A]xy[/A]"
    kinds = [segment.kind for segment in other.calls[0].segments if segment.text == "xy"]
    assert kinds == ["data"]
    turn.run("b", backend=other, continue_from=first).sync()
    assert Segment("xy", "output", (7, 8)) in other.calls[-1].segments


def test_an_open_role_goes_on(make: Any) -> None:
    executor = make("x")

    @function
    def begins(s: Any) -> None:
        s += user_begin() + "Hel"

    @function
    def ends(s: Any) -> None:
        s += "lo" + user_end()

    state = ends.run(backend=executor, continue_from=begins.run(backend=executor))
    assert state.messages() == [{"role": "user", "content": "Hello"}]


def test_after_an_error_what_there_was_goes_on(make: Any) -> None:
    executor = make(lambda call: ValueError("boom") if "bad" in call.prompt else "x")
    failed = turn.run("bad", backend=executor)
    assert failed.error() is not None
    held = failed.snapshot()
    assert held.text == "USER: bad\nASSISTANT: " and held.role == "assistant"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"sgnb": 99}', "null",
        '{"sgnb": 1, "tokenizer": "", "segments": [{"text": 1, "kind": "raw"}], "messages": [],'
        ' "variables": {}, "earlier": {}}',
        '{"sgnb": 1, "tokenizer": "", "segments": [{"text": "", "kind": "bad"}], "messages": [],'
        ' "variables": {}, "earlier": {}}',
        '{"sgnb": 1, "tokenizer": "", "segments": [{"text": "x", "mark": {"role": "boss",'
        ' "begins": true, "previous": null}}], "messages": [], "variables": {},'
        ' "earlier": {}}',
    ],
)  # fmt: skip
def test_what_is_no_saved_state(text: str) -> None:
    with pytest.raises(OptionError):
        Snapshot.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": {"a": 1}}, {"messages": [{"role": ["user"], "content": ""}]},
        {"segments": [{"text": "a", "kind": "output", "tokens": [-5]}]},
        {"segments": [{"text": "a", "kind": "output", "tokens": [2**70]}]},
        {"segments": [{"text": "a", "mark": {"role": "user", "begins": 1, "previous": None}}]},
        {"variables": [["a", 1]]}, {"earlier": {"a": "text"}}, {"tokenizer": None},
    ],
)  # fmt: skip
def test_a_changed_state_is_refused(change: dict[str, Any]) -> None:
    text = json.dumps(EMPTY | change)
    with pytest.raises(RecordError, match=next(iter(change))):
        Snapshot.from_json(text)


@pytest.mark.parametrize("end", ["\0", "}", "\udc80", "[" * 100_000])
def test_a_damaged_end_of_a_state_is_refused(end: str) -> None:
    with pytest.raises(RecordError, match="the saved state cannot be read"):
        Snapshot.from_json(json.dumps(EMPTY) + end)


def test_a_variable_of_any_depth_is_saved_and_read_or_named() -> None:
    deep: Any = "x"
    for levels in range(1, 2_000):
        deep = [deep]
        if levels in (100, 250, 1_999):
            snapshot = Snapshot((), variables={"fine": 1, "deep": deep})
            if levels == 100:
                assert Snapshot.from_json(snapshot.to_json()) == snapshot
            else:
                with pytest.raises(OptionError, match="'deep'"):
                    snapshot.to_json()
    with pytest.raises(RecordError, match="levels"):
        Snapshot.from_json(json.dumps(EMPTY)[:-2] + '"x": ' + "[" * 900 + "]" * 900 + "}}")


def test_what_cannot_be_saved_or_gone_on_from(make: Any) -> None:
    executor = make("x")

    @function
    def program(s: Any) -> None:
        s["thing"] = object()

    held = program.run(backend=executor).snapshot()
    with pytest.raises(OptionError, match="'thing'"):
        held.to_json()
    state = turn.run("a", backend=executor, continue_from=held)
    assert state["thing"] is held.variables["thing"]
    for values in ([object(), "text"], [{(1, 2): 3}]):
        held = Snapshot((), variables={"x": values[-1]}, earlier={"x": tuple(values[:-1])})
        with pytest.raises(OptionError, match="'x' is"):
            held.to_json()
    with pytest.raises(OptionError, match=r"\(1, 2\)"):
        Snapshot((), variables={(1, 2): "a"}).to_json()  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="continue_from"):
        turn.run("a", backend=executor, continue_from="text")  # type: ignore[arg-type]
