"""Mistakes that people make: the exception is the original one, and says or shows the line. The
table of docs/LANGUAGE.md."""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgnb import lang
from sgnb.errors import GrammarError, OptionError, ProgramError, RequestError
from sgnb.lang import (
    Tool,
    agent,
    assistant_end,
    beam_search,
    function,
    gen,
    majority_vote,
    retry,
    select,
    user,
    user_begin,
    user_end,
)
from sgnb.lang.ir import ExpressionError

DOCS = Path(__file__).parents[2] / "docs" / "LANGUAGE.md"

MISTAKES: dict[str, tuple[Callable[..., Any], type[BaseException]]] = {}


def mistake(what: str, kind: type[BaseException]) -> Callable[[Any], Any]:
    def add(program: Any) -> Any:
        MISTAKES[what] = program, kind
        return program

    return add


@mistake("an argument that `gen` does not have", OptionError)
def unknown_argument(s: Any) -> None:
    s += gen("a", max_token=3)  # here


@mistake("a value of the wrong type", OptionError)
def wrong_type(s: Any) -> None:
    s += gen("a", temperature="hot")  # type: ignore[arg-type]  # here


@mistake("a value out of its bounds", OptionError)
def out_of_bounds(s: Any) -> None:
    s += gen("a", top_p=2.0)  # here


@mistake("a regex that cannot be read", GrammarError)
def bad_regex(s: Any) -> None:
    s += gen("a", regex="(a")  # here


@mistake("a JSON schema that cannot be read", GrammarError)
def bad_schema(s: Any) -> None:
    s += gen("a", json_schema='{"type": ')  # here


@mistake("None appended", ExpressionError)
def appends_none(s: Any) -> None:
    s += None  # here


@mistake("a number appended", ExpressionError)
def appends_a_number(s: Any) -> None:
    s += 3  # here


@mistake("a generation in an f-string", ExpressionError)
def f_string(s: Any) -> None:
    s += f"Name: {gen('name')}"  # here


@mistake("a generation in a text made with %", ExpressionError)
def percent(s: Any) -> None:
    s += "Name: %s" % gen("name")  # noqa: UP031  # here


@mistake('an expression as the new value of `s`: `s = "x" + gen("name")`', ProgramError)
def rebinds_the_state(s: Any) -> None:
    s += "Name: "
    if True:
        s = "x" + gen("name")  # here


@mistake("a name that nothing sets", KeyError)
def unknown_name(s: Any) -> None:
    s += gen("answer")
    s += s["anwser"]  # here


@mistake("a name that only a fork sets", ProgramError)
def name_of_a_fork(s: Any) -> None:
    forks = s.fork(2)
    forks += gen("idea")
    s += s["idea"]  # here


@mistake("a role inside a role", ProgramError)
def role_in_a_role(s: Any) -> None:
    s += user_begin()
    s += user("Hi")  # here


@mistake("a role that ends and did not begin", ProgramError)
def role_without_begin(s: Any) -> None:
    s += assistant_end()  # here


@mistake("a fork of no branches", OptionError)
def empty_fork(s: Any) -> None:
    s.fork(0)  # here


@mistake("a join of a kind that there is not", OptionError)
def unknown_join(s: Any) -> None:
    s.fork(2).join("concat")  # here


@mistake("expressions for another number of branches", ProgramError)
def wrong_number_of_branches(s: Any) -> None:
    forks = s.fork(3)
    forks += ["a", "b"]  # here


@mistake("text for a branch that was joined", ProgramError)
def joined_branch(s: Any) -> None:
    forks = s.fork(2)
    forks.join()
    forks[0] += "more"  # here


@mistake("`select` without choices", OptionError)
def no_choices(s: Any) -> None:
    s += select("a", [])  # here


def failing_method(choices: Any) -> Any:
    return [1 / 0 for _ in choices]  # here


@mistake("an error in a `choices_method`", ZeroDivisionError)
def broken_method(s: Any) -> None:
    s += select("a", ["x", "y"], choices_method=failing_method)
    s["a"]


@mistake("an error in the program's own code", ZeroDivisionError)
def own_code(s: Any) -> None:
    s += gen("a")
    s += str(1 // 0)  # here


def lookup(city: str) -> str:
    return {"Paris": "France"}[city]  # here


@mistake("an error in a function that the program calls", KeyError)
def a_tool(s: Any) -> None:
    s += gen("city")
    s += lookup(s["city"])


@mistake("a request that the engine refuses", RequestError)
def refused(s: Any) -> None:
    s += "too long"
    s += gen("refused")  # here
    s += gen("after")


def _inner(s: Any) -> None:
    s += gen("refused")  # here


inner = function(_inner)


@mistake("an error of a program that the program calls", RequestError)
def nested(s: Any) -> None:
    state = inner.run(backend=s.program.executor)
    s += state["refused"]


@mistake("an argument that the program does not have", OptionError)
def wrong_call(s: Any) -> None:
    inner.run(citty="Paris")  # here


def _takes_stream(s: Any, stream: Any) -> None: ...


@mistake("an argument of a program that `run` has too: `stream`, `backend` ...", ProgramError)
def argument_of_run(s: Any) -> None:
    function(_takes_stream)  # here


@mistake("a `functools.partial` as a program", ProgramError)
def partial_program(s: Any) -> None:
    function(functools.partial(_inner))  # here


@mistake("a fork that ends the role which was open at it, joined as text", ProgramError)
def joined_without_its_role(s: Any) -> None:
    s += user_begin()
    forks = s.fork(2)
    forks += "Hi" + user_end()
    forks.join("concate_and_append")  # here


@mistake("a fork that leaves a role open, joined as text", ProgramError)
def joined_with_a_role(s: Any) -> None:
    forks = s.fork(2)
    forks[1] += user("Hi") + user_begin()
    forks.join("concate_and_append")  # here


@mistake("a search of no branches, or no tries", OptionError)
def no_beam(s: Any) -> None:
    beam_search(s, propose=lambda b: ["a"], score=lambda b: 1, width=0)  # here


@mistake("a vote that cannot be counted, such as a list", ProgramError)
def uncounted_vote(s: Any) -> None:
    majority_vote(s, 2, gen("a"), vote=lambda b: [b["a"]])  # here


@mistake("an `agent` without a name for its answer", OptionError)
def nameless_agent(s: Any) -> None:
    agent(s, [lookup], name="")  # here


@mistake("a tool that is no function", OptionError)
def no_function(s: Any) -> None:
    Tool("lookup")  # type: ignore[arg-type]  # here


def executor_of(make: Any) -> Any:
    refusal = RequestError("the prompt is too long", "shorten it")
    return make(lambda call: refusal if call.name == "refused" else "Rome")


def lines_meant(program: Callable[..., Any]) -> set[int]:
    """The lines marked so, in the program or in what it calls."""
    found = set()
    for part in (program, failing_method, lookup, _inner):
        lines, first = inspect.getsourcelines(part)
        found |= {first + i for i, line in enumerate(lines) if "# here" in line}
        if part is program and found:
            return found
    return found


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.parametrize("way", ["run", "batch", "stream"])
def test_the_original_exception_at_its_line(make: Any, what: str, way: str) -> None:
    program, kind = MISTAKES[what]
    backend, made = executor_of(make), function(program)
    with pytest.raises(kind) as caught:
        if way == "run":
            made.run(backend=backend)["any name"]
        elif way == "batch":
            made.run_batch([{}], backend=backend)
        else:
            made.run(backend=backend, stream=True)["any name"]
    error = caught.value
    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    named = {int(line) for line in re.findall(rf"{re.escape(__file__)}:(\d+)", said)}
    frames = traceback.extract_tb(error.__traceback__)
    shown = {frame.lineno for frame in frames if frame.filename == __file__}
    assert lines_meant(program) & (named | shown), (said, shown)


def forgets_to_append(s: Any) -> None:
    gen("a")  # here
    "x" + lang.select("b", ["y"])  # here
    user("Hi"), 1  # here
    len(gen("a").options)

    def helper(s: Any) -> Any:
        s = gen("c")
        return s

    s += gen("d")
    f = s.fork(1)
    f += gen("e")
    f.join()


def test_what_is_not_appended_is_said_at_its_line(make: Any) -> None:
    made = function(forgets_to_append)
    with pytest.warns(UserWarning) as said:
        state = made.run(backend=make(lambda call: "ok"))
        made.run(backend=make(lambda call: "ok")).sync()
    assert state["d"] == "ok" and state["e"] == ["ok"]
    assert {warning.lineno for warning in said} == lines_meant(forgets_to_append)
    assert len(said) == 3, "once for each line"
    text = str(said[0].message)
    assert "gen('a') is not appended and does nothing; write s += ..." in text
    assert "\n" not in text and f"{__file__}:{said[0].lineno}" in text


def test_the_state_of_an_inner_program_is_not_rebound_either(make: Any) -> None:
    rebinds = function(rebinds_the_state)

    def outer(s: Any) -> None:
        rebinds(s)

    with pytest.raises(ProgramError, match="replaces the state and appends"):
        function(outer).run(backend=make()).sync()


def test_a_gen_of_anothers_is_not_meant(make: Any, recwarn: Any) -> None:
    def program(s: Any, gen: Any) -> Any:
        gen("a")
        s = gen("b")
        return s

    function(program).run(gen=str, backend=make())
    assert not recwarn.list


@pytest.mark.parametrize("name", ["stream", "backend", "use_thread", "continue_from", "self"])
def test_an_argument_of_run_is_named(name: str) -> None:
    made: dict[str, Any] = {}
    exec(f"def program(s, q, *, {name}=None): ...", made)
    with pytest.raises(ProgramError, match=f"program cannot have an argument '{name}'"):
        function(made["program"])


@pytest.mark.parametrize("tries", [0, -1, 1.5, True, "2"])
def test_numbers_of_tries(make: Any, tries: Any) -> None:
    def program(s: Any) -> None:
        retry(s, "a", valid=lambda b: True, tries=tries)

    with pytest.raises(OptionError, match=rf"\.py:\d+: tries={tries!r} is not allowed"):
        function(program).run(backend=make())


def test_whole_turns_are_joined_as_text(make: Any) -> None:
    """Turns of a fork's own, and text inside a role, leave the parent's role as it was."""

    def program(s: Any) -> None:
        forks = s.fork(2)
        forks += lambda i: user(str(i))
        forks.join("concate_and_append")
        s += user_begin()
        forks = s.fork(2)
        forks += ["a", "b"]
        forks.join("concate_and_append")
        s += user_end()

    state = function(program).run(backend=make())
    assert state.text() == "USER: 0\nUSER: 1\nUSER: ab\n"
    assert [message["content"] for message in state.messages()] == ["0", "1", "ab"]


def test_a_role_that_a_kept_fork_ended_is_known(make: Any) -> None:
    def program(s: Any) -> None:
        s += user_begin()
        [child] = s.fork(1)
        [inner] = child.fork(1)
        inner += "Hi" + user_end()
        child.keep(inner)
        s.program.join(s._branch, (child._branch,), append=True)

    with pytest.raises(ProgramError, match="ended the role 'user'"):
        function(program).run(backend=make()).sync()


def test_the_table_of_the_documentation_has_them_all() -> None:
    table = DOCS.read_text().partition("## Mistakes")[2]
    assert len(MISTAKES) >= 20
    for what, (_, kind) in MISTAKES.items():
        assert f"| {what} | `{kind.__name__}`" in table, what
