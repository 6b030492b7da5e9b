"""Running a program: at once, in another program, bound, streamed, awaited."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from sgnb.errors import Aborted, OptionError, ProgramError
from sgnb.events import ProgramCalled, RunFinished, RunStarted
from sgnb.lang import SglFunction, function, gen, select, set_default_backend


@function
def ask(s: Any, question: str, style: str = "short") -> str:
    """Ask one question."""
    s += f"{question} ({style}) " + gen("answer", max_tokens=7)
    return str(s["answer"]) + "!"


def test_run(make: Any) -> None:
    executor = make("yes")
    state = ask.run("Well?", temperature=0.0, max_new_tokens=50, backend=executor)
    assert state.text() == "Well? (short) yes"
    assert state.ret_value == "yes!"
    assert executor.calls[0].params.temperature == 0.0
    assert executor.calls[0].params.max_new_tokens == 7
    started = executor.events(RunStarted)[0]
    assert (started.run, started.title, started.total) == (state.run_id, "ask", 1)
    assert started.source.startswith("@function\ndef ask(s")
    assert started.file == __file__
    line = executor.calls[0].location.line - started.first_line
    assert "gen(" in started.source.splitlines()[line]
    [called] = executor.events(ProgramCalled)
    assert (called.branch, called.arguments) == ("0", "question='Well?'")


def test_a_program_looks_like_its_function(make: Any) -> None:
    assert ask.__name__ == "ask"
    assert ask.__doc__ == "Ask one question."
    assert "question: " in repr(ask)
    assert isinstance(function()(lambda s: None), SglFunction)


def test_the_default_backend(make: Any) -> None:
    set_default_backend(make("yes"))
    try:
        assert ask("Well?").ret_value == "yes!"
    finally:
        set_default_backend(None)


def test_bind(make: Any) -> None:
    polite = ask.bind(style="polite")
    assert polite.run("Hm?", backend=make("yes")).text() == "Hm? (polite) yes"
    assert ask.bound == {}


def test_a_program_inside_a_program(make: Any) -> None:
    @function
    def outer(s: Any) -> Any:
        s += "first. "
        return ask(s, "Then?", style="inner")

    state = outer.run(backend=make("yes"))
    assert state.text() == "first. Then? (inner) yes"
    assert state.ret_value == "yes!"


def test_a_parameter_named_like_a_sampling_word_is_the_functions(make: Any) -> None:
    @function
    def program(s: Any, temperature: float) -> None:
        s += f"{temperature} degrees " + gen("x")

    executor = make("ok")
    assert program.run(temperature=20.0, backend=executor).text() == "20.0 degrees ok"
    assert executor.calls[0].params.temperature == 1.0


def test_stream(make: Any) -> None:
    state = ask.run("Well?", stream=True, backend=make("yes", delay=0.01))
    assert list(state.text_iter()) == ["Well? (short) ", "y", "e", "s"]
    assert list(state.text_iter("answer")) == ["yes"]
    assert state.ret_value == "yes!"


def test_stream_one_variable_that_is_not_there_yet(make: Any) -> None:
    @function
    def program(s: Any) -> None:
        s += gen("first") + " "
        s["later"] = s["first"] + "?"
        s += gen("second") + select("choice", ["a", "bb"])

    executor = make("abc", delay=0.005)
    state = program.run(stream=True, backend=executor)
    assert "".join(state.text_iter("second")) == "abc"  # in as many pieces as a busy machine leaves
    assert list(state.text_iter("later")) == ["abc?"]
    assert list(state.text_iter("choice")) == ["a"]
    with pytest.raises(ProgramError, match="nothing sets the variable 'thrid'"):
        list(state.text_iter("thrid"))


def test_a_streamed_programs_error_reaches_its_readers(make: Any) -> None:
    @function
    def program(s: Any) -> None:
        s += "a"
        raise KeyError("mine")

    executor = make()
    state = program.run(stream=True, backend=executor)
    pieces = []
    with pytest.raises(KeyError, match="mine"):
        for piece in state.text_iter():
            pieces.append(piece)
    assert pieces in (["a"], [])
    with pytest.raises(KeyError, match="mine"):
        _ = state.ret_value
    assert state.text() == "a"


def test_without_streaming_the_text_comes_in_one_piece(make: Any) -> None:
    state = ask.run("Well?", backend=make("yes"))
    assert list(state.text_iter()) == ["Well? (short) yes"]


def test_cancel_from_another_thread_keeps_the_partial_text(make: Any) -> None:
    executor = make("abcdefgh" * 10_000, delay=0.01)
    state = ask.run("Well?", stream=True, backend=executor)
    pieces = []
    for piece in state.text_iter("answer"):
        pieces.append(piece)
        if len(pieces) == 3:
            threading.Thread(target=state.cancel).start()
    assert state["answer"] == "".join(pieces)
    assert state.get_meta_info("answer")["finish_reason"] == {"type": "abort", "message": "stopped"}
    assert state.text().startswith("Well? (short) abc")
    assert len(state.text()) < 80_000
    assert isinstance(state.error(), Aborted)
    deadline = time.monotonic() + 60
    while not executor.events(RunFinished) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert executor.events(RunFinished)[0].status == "interrupted"


@pytest.mark.parametrize("backend", ["openai", object()])
def test_what_cannot_run_programs_is_refused(backend: Any) -> None:
    @function
    def program(s: Any) -> None:
        s += "x"

    with pytest.raises(OptionError, match=r"cannot run programs\n  hint: give an Engine"):
        program.run(backend=backend)


def test_await(make: Any) -> None:
    executor = make("yes", together=20)

    async def main() -> list[Any]:
        return await asyncio.gather(*(ask.arun(f"{i}?", backend=executor) for i in range(20)))

    states = asyncio.run(main())
    assert [state.text() for state in states] == [f"{i}? (short) yes" for i in range(20)]
    assert executor.most_running == 20


def test_await_raises_and_cancels(make: Any) -> None:
    executor = make(delay=30)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask.arun("?", backend=executor), 0.05)
        with pytest.raises(ValueError, match="boom"):
            await ask.arun("?", backend=make(lambda call: ValueError("boom")))

    asyncio.run(main())
    assert len(executor.cancelled) == 1


def test_stream_in_an_event_loop(make: Any) -> None:
    async def main() -> tuple[list[Any], list[Any]]:
        state = ask.run("Well?", stream=True, backend=make("yes", delay=0.005))
        text = [piece async for piece in state.text_async_iter()]
        answer = [pair async for pair in state.text_async_iter("answer", return_meta_data=True)]
        return text, answer

    text, answer = asyncio.run(main())
    assert "".join(text) == "Well? (short) yes"  # what comes before it is read is one piece
    assert answer == [("yes", {"finish_reason": {"type": "stop"}, "length": 3})]
