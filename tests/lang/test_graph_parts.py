"""`compile(partial=True)`: a program that depends on generated data runs as it is, and the programs
that it calls as graphs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import sgnb as sgl
from sgnb.errors import ProgramError
from sgnb.lang import CompiledProgram, Graph, function, set_default_executor

from .fake import FakeExecutor
from .test_graph import seen
from .test_property import names, programs, run_it

pytestmark = pytest.mark.filterwarnings("ignore:.*is interpreted, not run as a graph")

RAN: list[str] = []


@pytest.fixture(autouse=True)
def no_default() -> Any:
    yield
    set_default_executor(None)


def run_on(executor: FakeExecutor, program: Any, *args: Any) -> Any:
    """Its state, when it is over; programs that it calls run there too."""
    set_default_executor(executor)
    state = program.run(*args)
    state.sync()
    return state


@function
def three(s: Any, topic: str, count: int = 3) -> str:
    RAN.append("three")
    s += f"About {topic}."
    forks = s.fork(count)
    words = []
    for i, fork in enumerate(forks):
        fork += f"{i}:" + sgl.gen("word", max_tokens=count)
        words.append(fork["word"])
    forks.join()
    s += ",".join(words)
    return words[0]


@function
def longer(s: Any, text: str) -> None:
    RAN.append("longer")
    s += text + sgl.gen("more")
    if len(s["more"]) > 3:
        s += "!" + three(s, "long")


@function
def outer(s: Any, topic: str) -> None:
    state = three.run(topic, temperature=0)
    again = three.run("more " + topic, count=2)
    if len(state["word"][0]) > 2:
        s += state.ret_value + "|"
    three(s, topic, 2)
    longer(s, "x")
    s += again.text() + sgl.gen("end")


def test_the_same_as_the_program(make: type[FakeExecutor]) -> None:
    with pytest.warns(UserWarning, match="is interpreted, not run as a graph"):
        compiled = outer.compile(partial=True)
    mine, theirs = make(), make()
    state, expected = run_on(mine, compiled, "a"), run_on(theirs, outer, "a")
    assert state.text() == expected.text()
    assert state._branch.variables == expected._branch.variables
    assert seen(mine) == seen(theirs)


def test_each_graph_is_traced_once(make: type[FakeExecutor]) -> None:
    compiled = outer.compile(partial=True, check=False)
    run_on(make(), compiled, "a")
    RAN.clear()
    run_on(make(), compiled, "b")
    assert RAN == ["longer"]
    run_on(make(), outer, "b")
    assert RAN.count("three") == 4, "the program itself is not changed"


def test_the_code_of_each_graph_runs_once_per_call(make: type[FakeExecutor]) -> None:
    compiled = outer.compile(partial=True)
    run_on(make(), compiled, "a")
    RAN.clear()
    run_on(make(), compiled, "b")
    assert RAN.count("three") == 4


def test_its_parts_wait_for_nothing(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any) -> None:
        first = three.run("a")
        if first["word"] == ["no"]:
            s += "?"

    together = make(together=3)
    run_on(together, program.compile(partial=True))
    assert together.most_running == 3


def test_errors_are_those_of_the_program(make: type[FakeExecutor]) -> None:
    @function
    def part(s: Any, name: str, number: int) -> None:
        s += f"{number}" + sgl.gen(name)
        s += s[f"no {name}"]

    @function
    def program(s: Any) -> None:
        s += sgl.gen("a")
        if s["a"]:
            part(s, "b", 1)

    def error(one: Any) -> str:
        with pytest.raises(ProgramError) as raised:
            one.run(backend=make()).sync()
        return str(raised.value)

    assert error(program.compile(partial=True)) == error(program)


@pytest.mark.parametrize("values", [(1, True, 1.0), ([1], [2], [1]), ("1", 1, None)])
def test_values_that_are_no_texts(values: tuple[Any, ...], make: type[FakeExecutor]) -> None:
    @function
    def part(s: Any, value: Any) -> None:
        s += f"<{value}>"

    @function
    def program(s: Any) -> None:
        s += sgl.gen("a")
        if s["a"]:
            for value in values:
                part(s, value)
                part.bind(value=value)(s)

    compiled = program.compile(partial=True)
    assert compiled.run(backend=make()).text() == program.run(backend=make()).text()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_random_programs_inside_others(program: list[Any]) -> None:
    @function
    def inner(s: Any, word: str) -> None:
        s += f"{word}: "
        run_it(s, program, names())

    graph = CompiledProgram(Graph.from_json(inner.trace().to_json()))

    def within(s: Any, word: str, part: Any) -> None:
        s += "<"
        part(s, word)
        s += ">" + sgl.gen("end")

    @function
    def outer(s: Any, word: str) -> None:
        within(s, word, graph)

    @function
    def as_code(s: Any, word: str) -> None:
        within(s, word, inner)

    @function
    def partly(s: Any, word: str) -> None:
        within(s, word, inner)
        if len(s["end"]) > 4:
            s += "!"

    executor = FakeExecutor()
    try:
        expected, partial = run_on(executor, as_code, "a"), partly.compile(partial=True)
        state = run_on(executor, CompiledProgram(outer.trace()), "a")
        assert state.text() == expected.text()
        assert state._branch.variables == expected._branch.variables
        assert run_on(executor, partial, "a").text() == run_on(executor, partly, "a").text()
    finally:
        executor.close()
