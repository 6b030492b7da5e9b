"""Pieces of a stream, each with the meta information of its generation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sgnb.errors import Aborted
from sgnb.lang import Run, function, gen, select, separate_reasoning
from sgnb.lang.executor import Call, Delta, Result

LOGPROBS = [(-float(i), i, None) for i in range(3)]


@function
def program(s: Any) -> None:
    s += "Q: " + gen("a") + "; " + gen("b") + " " + select("c", ["x", "y"]) + "."


@pytest.mark.parametrize("name", [None, "a"])
def test_each_piece_has_its_meta_information(make: Any, name: str | None) -> None:
    state = program.run(stream=True, backend=make("yes", delay=0.02))
    pieces = list(state.text_iter(var_name=name, return_meta_data=True))
    if name is None:
        assert "".join(text for text, _ in pieces) == state.text() == "Q: yes; yes x."
        assert [meta for text, meta in pieces if text in ("Q: ", "; ", " ", ".")] == [{}] * 4
        [(_, meta)] = [pair for pair in pieces if pair[0] == "x"]
        assert meta["choices"] == ("x", "y")
    made = [(text, meta) for text, meta in pieces if "piece_token_logprobs" in meta]
    assert "".join(text for text, _ in made) == ("yesyes" if name is None else "yes")
    own = [row for _, meta in made for row in meta["piece_token_logprobs"]]
    assert own == LOGPROBS * (2 if name is None else 1)
    assert all(len(meta["piece_token_logprobs"]) == len(text) for text, meta in made)


def test_late_readers_get_pieces_with_the_final_meta_information(make: Any) -> None:
    state = program.run(stream=True, backend=make("yes"))
    state.sync()
    pieces = list(state.text_iter(return_meta_data=True))
    assert [text for text, _ in pieces] == ["Q: ", "yes", "; ", "yes", " ", "x", "."]
    assert pieces[1][1]["finish_reason"] == pieces[3][1]["finish_reason"] == {"type": "stop"}

    async def read() -> list[Any]:
        return [pair async for pair in state.text_async_iter("b", return_meta_data=True)]

    assert asyncio.run(read()) == [("yes", {"finish_reason": {"type": "stop"}, "length": 3})]


@pytest.mark.parametrize("text", [
    "<think>Hm, <b> or < ?</think> So.\n", "<think></think>So.", "No thought.", " <thin air",
    "<think>never said",
])  # fmt: skip
def test_reasoning_streams_beside_the_answer(make: Any, text: str) -> None:
    @function
    def think(s: Any) -> None:
        s += "Q: " + separate_reasoning(gen("a"), "qwen3") + "!"

    executor = make(text, delay=0.002)
    state = think.run(stream=True, backend=executor)
    name = "a_reasoning_content"
    streamed = {name: "".join(state.text_iter(var_name=name)), "a": "".join(state.text_iter("a"))}
    whole = "".join(think.run(stream=True, backend=executor).text_iter())
    thought, _, answer = text.removeprefix("<think>").partition("</think>")
    if not text.startswith("<think>"):
        thought, answer = "", text
    assert streamed == {"a": answer.strip(), name: thought.strip()}
    assert (state["a"], state[name]) == (answer.strip(), thought.strip())
    assert state.text() == whole == f"Q: {answer.strip()}!"


def test_reasoning_of_each_sample_and_of_kinds_of_models(make: Any) -> None:
    with Run(make(lambda call: ["x</think>y", "z"])) as run:
        s = run.state()
        s += separate_reasoning("A" + gen("a", n=2) + select("b", ["c"]), "DeepSeek-R1")
    assert s["a"] == ["y", ""] and s["a_reasoning_content"] == ["x", "z"]
    assert s.text() == "Ayc"
    with pytest.raises(ValueError, match="did you mean 'qwen3'"):
        separate_reasoning(gen("a"), "qwen33")


def test_a_stream_with_reasoning_that_is_cut_keeps_the_answer(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = make()

    def generate(call: Call, sink: Any) -> Any:
        sink(Delta("<think>a</think>b"))
        sink(Result(error=Aborted("stopped")))
        return lambda: None

    monkeypatch.setattr(fake, "generate", generate)
    with pytest.raises(Aborted), Run(fake, stream=True) as run:
        s = run.state()
        s += separate_reasoning(gen("a"))
    assert s.text() == "b"
