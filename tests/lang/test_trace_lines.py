"""The line and the message of errors in a trace: the user's line also through libraries, and the
message of the program's own errors."""

from __future__ import annotations

import html
import inspect
import json
import os.path
import re
import shlex
import string
import textwrap
from collections.abc import Callable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import pytest

import sgnb as sgl
from sgnb.errors import OptionError, TraceError
from sgnb.lang import function

from .fake import FakeExecutor

LIBRARIES: dict[str, Callable[[Any], Any]] = {
    "re.escape": lambda q: re.escape(q),
    "re.sub": lambda q: re.sub("a", q, "banana"),
    "os.path.join": lambda q: os.path.join("a", q),
    "os.path.basename": lambda q: os.path.basename(q),
    "json.dumps": lambda q: json.dumps([q]),
    "html.escape": lambda q: html.escape(q),
    "urllib.parse.quote": lambda q: quote(q),
    "textwrap.dedent": lambda q: textwrap.dedent(f"  {q}\n  a"),
    "textwrap.fill": lambda q: textwrap.fill(q),
    "shlex.quote": lambda q: shlex.quote(q),
    "string.Template": lambda q: string.Template(q).substitute(a="b"),
    "str(PurePath)": lambda q: str(PurePath(q, "x")),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_refusal_names_the_line_of_the_program(name: str) -> None:
    @function
    def program(s: Any, q: str) -> None:
        s += "Path: "
        s += LIBRARIES[name](q)

    with pytest.raises(TraceError) as raised:
        program.compile()
    first = inspect.getsourcelines(program.func)[1]
    lines = first + 3, LIBRARIES[name].__code__.co_firstlineno
    assert any(raised.value.message.startswith(f"{__file__}:{line}: ") for line in lines)


@pytest.mark.parametrize("name", LIBRARIES)
def test_generated_data_in_a_library_is_refused_at_its_line(name: str) -> None:
    @function
    def program(s: Any) -> None:
        s += "Path: " + sgl.gen("x")
        s += LIBRARIES[name](s["x"])

    with pytest.raises(TraceError) as raised:
        program.compile()
    first = inspect.getsourcelines(program.func)[1]
    lines = first + 3, LIBRARIES[name].__code__.co_firstlineno
    assert any(raised.value.message.startswith(f"{__file__}:{line}: ") for line in lines)


def test_the_message_of_a_refused_library_call_names_the_function() -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("x")
        s += re.sub("a", "b", s["x"])

    with pytest.raises(TraceError, match=r"generated data: re.sub\(\) of s\['x'\]"):
        program.compile()


def test_an_error_of_the_program_is_raised_as_it_is(fake: FakeExecutor) -> None:
    @function
    def program(s: Any, topics: Any) -> None:
        if not topics:
            raise LookupError("pick at least one topic")
        s += ", ".join(topics) + sgl.gen("x")

    with pytest.raises(LookupError, match=r"^'?pick at least one topic'?$"):
        program.compile(topics=[])
    topics = ["a"]
    compiled = program.compile(topics=topics)
    topics.clear()
    with pytest.raises(LookupError, match=r"^'?pick at least one topic'?$"):
        compiled.run(backend=fake)


def test_an_error_after_a_placeholder_keeps_its_message_and_names_the_argument() -> None:
    @function
    def program(s: Any, topic: str) -> None:
        s += topic
        raise ValueError(f"no prompt for {topic}, only for sleep")

    with pytest.raises(TraceError) as raised:
        program.compile()
    line = inspect.getsourcelines(program.func)[1] + 3
    message = "program raised ValueError while it was traced: no prompt for {topic}, only for sleep"
    assert raised.value.message == f"{__file__}:{line}: {message}"
    assert isinstance(raised.value.__cause__, ValueError)


def test_an_option_error_of_a_placeholder_names_the_line() -> None:
    @function
    def program(s: Any, count: int) -> None:
        s += "a"
        s += sgl.gen("a", n=count)

    with pytest.raises(TraceError) as raised:
        program.compile()
    line = inspect.getsourcelines(program.func)[1] + 3
    reason = "this needs the value of an argument"
    assert raised.value.message.startswith(f"{__file__}:{line}: {reason}")


def test_a_fixed_argument_is_no_sampling_option(fake: FakeExecutor) -> None:
    @function
    def program(s: Any, q: str, n: int = 1) -> None:
        s += f"{q}{n}" + sgl.gen("x")

    with pytest.raises(OptionError, match="the graph of program has fixed 'n'"):
        program.compile(check=False).run("a", n=3, backend=fake)
    with pytest.raises(OptionError, match="the graph of program has fixed 'n'"):
        program.compile(n=2).run("a", n=3, backend=fake)
    with pytest.warns(UserWarning, match="differs from the compiled graph"):
        state = program.compile().run("a", n=3, backend=fake)
    assert state.text().startswith("a3<") and isinstance(state["x"], str)


def test_a_difference_is_reported_once_with_both_lines(fake: FakeExecutor) -> None:
    @function
    def program(s: Any, q: str) -> None:
        if re.match(r"\d", q):
            s += "number "
        else:
            s += "word "
        s += sgl.gen("x")

    compiled = program.compile()
    first = inspect.getsourcelines(program.func)[1]
    with pytest.warns(UserWarning) as caught:
        for q in ("12", "13"):
            assert compiled.run(q, backend=fake).text().startswith("number ")
    (warning,) = caught
    now, before = f"{__file__}:{first + 3}: 'number '", f"{__file__}:{first + 5}: 'word '"
    assert f"At compile: {before}. Now: {now}. The run uses" in str(warning.message)


def test_a_moved_graph_with_another_trace_is_refused(fake: FakeExecutor) -> None:
    rules = ["Be brief."]

    @function
    def program(s: Any, q: str) -> None:
        s += f"Q: {q}\n\n" + "".join(rules) + " Write one word in lower case.\n\nA:"
        s += sgl.gen("x")

    compiled = program.compile(move=["Be brief."], backend=fake)
    assert compiled.run("a", backend=fake).text().startswith("Be brief.")
    rules.append(" Be kind.")
    with pytest.raises(TraceError, match="compile the program again"):
        compiled.run("a", backend=fake)
