"""Tracing a program to a graph, and running the graph in place of the program."""

from __future__ import annotations

import contextlib
import html
import inspect
import json
import re
import textwrap
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pandas
import pytest
from hypothesis import given, settings

import sgnb as sgl
from sgnb.errors import OptionError, ProgramError, RecordError, TraceError
from sgnb.events import BranchStarted, GenerationDone, ProgramCalled, RunStarted, TextAppended
from sgnb.lang import CompiledProgram, Graph, function, set_default_executor
from sgnb.lang.executor import Call
from sgnb.lang.ir import ExpressionError, ToolResults

from .fake import FakeExecutor
from .test_property import names, programs, run_it


@pytest.fixture(autouse=True)
def default(fake: FakeExecutor) -> Any:
    set_default_executor(fake)
    yield
    set_default_executor(None)


def seen(executor: FakeExecutor) -> list[Any]:
    """What was asked and told of the branches, in an order of its own."""
    asked = [
        (call.name, call.prompt, str(getattr(call, "params", "")), call.location, call.segments)
        for call in executor.calls
    ]
    kinds = BranchStarted, GenerationDone, TextAppended
    told = [(event.branch, event.text) for event in executor.events(*kinds)]
    return [sorted(asked, key=str), sorted(told)]


def same(program: Any, make: type[FakeExecutor], trace: Any = (), **arguments: Any) -> Any:
    """The state of the program's graph, which is that of the program itself. `trace`: the arguments
    whose values the trace is given."""
    mine, theirs = make(), make()
    known = {name: arguments[name] for name in trace}
    own = {name: value for name, value in arguments.items() if name not in known}
    compiled = program.compile(**known)
    state = compiled.run(backend=mine, **own)
    expected = program.run(backend=theirs, **arguments)
    assert state.text() == expected.text()
    assert state.messages() == expected.messages()
    assert state._branch.variables == expected._branch.variables
    assert state.ret_value == expected.ret_value
    for run in (state, expected):
        run.program.wait_finished()  # branches that nobody has joined or read may still run
    assert seen(mine) == seen(theirs)
    saved = Graph.from_json(compiled.graph.to_json())
    assert saved == compiled.graph and str(saved) == str(compiled.graph)
    assert CompiledProgram(saved).run(backend=mine, **own).text() == expected.text()
    return state


def line_of(program: Any, text: str) -> int:
    """The line of a program on which `text` stands."""
    lines, first = inspect.getsourcelines(program.func)
    return first + next(i for i, line in enumerate(lines) if text in line)


@function
def every_kind(s: Any, question: str) -> str:
    s += sgl.system("Be brief.")
    with s.user():
        s += f"Q: {question}?\n" + sgl.select("kind", ["a", "b"])
    s += sgl.assistant(sgl.gen("answer", max_tokens=4))
    s["copy"] = s["answer"]
    with s.var_scope("part"):
        s += "and"
    forks = s.fork(2)
    forks += lambda i: f"{i}:" + sgl.gen("more", stop="\n")
    forks.join()
    part(s, s["kind"])
    other = part.run(word="x")
    s += other["end"] + ", ".join(s["more"])
    return "<" + s["answer"] + ">"


@function
def part(s: Any, word: str) -> None:
    s += word + sgl.gen("end")


LISTING = """\
%0 = every_kind()
%1 = %0 + system_begin()
%2 = %1 + 'Be brief.'
%3 = %2 + system_end()
%4 = %3 + user_begin()
%5 = %4 + 'Q: '
%6 = %5 + {question}
%7 = %6 + '?\\n'
%8 = %7 + select('kind', ['a', 'b'])
%9 = %8 + user_end()
%10 = %9 + assistant_begin()
%11 = %10 + gen('answer', max_new_tokens=4)
%12 = %11 + assistant_end()
%13 = %12 + s['copy'] = s0['answer'] + %11
%14 = %13 + var_scope
%15 = %14 + 'and'
%16 = %15 + var_scope('part')
%17 = %16 + fork(2)
%18 = %17[0]
%19 = %17[1]
%20 = %18 + '0:'
%21 = %20 + gen('more', stop='\\n')
%22 = %19 + '1:'
%23 = %22 + gen('more', stop='\\n')
%24 = %17 + join + %21 + %23
%25 = %24 + part(word=s0['kind']) + %8  # part
%26 = %25 + s0['kind'] + %8  # part
%27 = %26 + gen('end')  # part
%28 = part(word='x')  # part
%29 = %28 + 'x'  # part
%30 = %29 + gen('end')  # part
%31 = %30 + return  # part
%32 = %27 + s3['end'] + %30
%33 = %32 + s1['more'] + %21
%34 = %33 + ', '
%35 = %34 + s2['more'] + %23
%36 = %35 + return "<s0['answer']>" + %11
"""


def test_every_kind_of_node(make: type[FakeExecutor]) -> None:
    graph = every_kind.trace()
    assert f"{graph}\n" == graph.print_graph_dfs() == LISTING
    assert repr(graph) == "<Graph of every_kind: 37 nodes, 4 streams, 6 calls>"
    state = same(every_kind, make, question="Why")
    assert state["copy"] == state["answer"] and len(state["more"]) == 2


def test_a_node_prints_what_leads_to_it() -> None:
    graph = every_kind.trace()
    assert graph.nodes[21].print_graph_dfs().splitlines() == [
        line for i, line in enumerate(LISTING.splitlines()) if i <= 18 or i in (20, 21)
    ]
    assert graph.last_node is graph.nodes[35]
    assert (17, 18) in graph.edges and (23, 24) in graph.edges and (11, 13) in graph.edges


def test_the_picture_for_graphviz() -> None:
    dot = every_kind.trace().to_dot()
    assert dot.startswith('digraph "every_kind" {') and dot.count("subgraph") == 4
    assert "  17 -> 18;" in dot and r"""7 [label="'?\\n'"]""" in dot
    assert dot.count("{") == dot.count("}")


def test_the_picture_of_a_graph() -> None:
    graph = every_kind.trace()
    bundle = graph._repr_mimebundle_()
    assert f"{bundle['text/plain']}\n" == LISTING
    root = ElementTree.fromstring(bundle["image/svg+xml"])
    kind = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{kind}title")]
    assert titles[:2] == ["every_kind: every_kind()", "every_kind: system_begin()"]
    assert len(titles) == 35, "all but those that return"
    assert root.attrib["aria-label"] == "The graph of every_kind: 35 nodes in 4 streams"
    card, *boxes = root.iter(f"{kind}rect")
    assert card.attrib["class"] == "card", "a light ground, also on a dark page"
    assert len({box.attrib["x"] for box in boxes}) == 4, "a column for each stream"
    assert root.attrib["viewBox"] == "0 0 1076 1072" and root.attrib["width"] == "840", "shrunk"


# The programs with which SGLang tests its own tracer, as they stand there.


def test_few_shot_qa() -> None:
    @sgl.function
    def few_shot_qa(s, question):  # type: ignore[no-untyped-def]
        s += "The following are questions with answers.\n\n"
        s += "Q: What is the capital of France?\n"
        s += "A: Paris\n"
        s += "Q: " + question + "\n"
        s += "A:" + sgl.gen("answer", stop="\n")

    tracer = few_shot_qa.trace()
    printed = tracer.last_node.print_graph_dfs() + "\n"
    assert "{question}" in printed and "gen('answer', stop='\\n')" in printed


def test_select() -> None:
    @sgl.function
    def capital(s):  # type: ignore[no-untyped-def]
        s += "The capital of France is"
        s += sgl.select("capital", ["Paris. ", "London. "])
        s += "It is a city" + sgl.gen("description", stop=".")

    tracer = capital.trace()
    assert "select('capital', ['Paris. ', 'London. '])" in tracer.last_node.print_graph_dfs()


def test_multi_function(capsys: pytest.CaptureFixture[str]) -> None:
    @sgl.function
    def expand(s, tip):  # type: ignore[no-untyped-def]
        s += "Please expand the following tip into a detailed paragraph:" + tip + "\n"
        s += sgl.gen("detailed_tip")

    @sgl.function
    def tip_suggestion(s, topic):  # type: ignore[no-untyped-def]
        s += "Here are 2 tips for " + topic + ".\n"

        s += "1." + sgl.gen("tip_1", stop=["\n", ":", "."]) + "\n"
        s += "2." + sgl.gen("tip_2", stop=["\n", ":", "."]) + "\n"

        branch1 = expand(tip=s["tip_1"])
        branch2 = expand(tip=s["tip_2"])

        s += "Tip 1: " + branch1["detailed_tip"] + "\n"
        s += "Tip 2: " + branch2["detailed_tip"] + "\n"
        s += "In summary" + sgl.gen("summary")

    compiled = tip_suggestion.compile()
    compiled.print_graph()
    assert "expand(tip=s0['tip_1'])" in capsys.readouterr().out

    topics = [{"topic": "staying healthy"}, {"topic": "staying happy"}, {"topic": "earning money"}]
    state = compiled.run(topic="staying healthy")
    assert state.text() == tip_suggestion.run(topic="staying healthy").text()
    states = compiled.run_batch(topics, temperature=0)
    expected = [tip_suggestion.run(**row, temperature=0).text() for row in topics]
    assert [state.text() for state in states] == expected


def test_role() -> None:
    @sgl.function
    def multi_turn_chat(s):  # type: ignore[no-untyped-def]
        s += sgl.user("Who are you?")
        s += sgl.assistant(sgl.gen("answer_1"))
        s += sgl.user("Who created you?")
        s += sgl.assistant(sgl.gen("answer_2"))

    compiled = multi_turn_chat.compile(backend=FakeExecutor())
    compiled.print_graph()
    assert [m["role"] for m in compiled.run().messages()] == ["user", "assistant"] * 2


def test_fork(make: type[FakeExecutor]) -> None:
    @sgl.function
    def tip_suggestion(s):  # type: ignore[no-untyped-def]
        s += (
            "Here are three tips for staying healthy: "
            "1. Balanced Diet; "
            "2. Regular Exercise; "
            "3. Adequate Sleep\n"
        )

        forks = s.fork(3)
        for i in range(3):
            forks[i] += f"Now, expand tip {i + 1} into a paragraph:\n"
            forks[i] += sgl.gen("detailed_tip")

        s += "Tip 1:" + forks[0]["detailed_tip"] + "\n"
        s += "Tip 2:" + forks[1]["detailed_tip"] + "\n"
        s += "Tip 3:" + forks[2]["detailed_tip"] + "\n"
        s += "In summary" + sgl.gen("summary")

    tracer = tip_suggestion.trace()
    assert tracer.last_node.print_graph_dfs().count("[") >= 3
    same(tip_suggestion, make)


def test_bind() -> None:
    @sgl.function
    def few_shot_qa(s, prompt, question):  # type: ignore[no-untyped-def]
        s += prompt
        s += "Q: What is the capital of France?\n"
        s += "A: Paris\n"
        s += "Q: " + question + "\n"
        s += "A:" + sgl.gen("answer", stop="\n")

    few_shot_qa_2 = few_shot_qa.bind(prompt="The following are questions with answers.\n\n")

    tracer = few_shot_qa_2.trace()
    printed = tracer.last_node.print_graph_dfs() + "\n"
    assert "'The following are questions with answers.\\n\\n'" in printed
    assert tracer.parameters == ("question",)


# Where an argument may stand.

TEXTS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda x: x,
    "after a text": lambda x: "Q: " + x,
    "before a text": lambda x: x + "?",
    "twice": lambda x: x + x,
    "f-string": lambda x: f"<{x}> and {x}",
    "f-string of it alone": lambda x: f"{x}",
    "width": lambda x: f"[{x:>12}]",
    "repr": lambda x: f"is {x!r}",
    "str()": lambda x: "of " + str(x),
    "percent": lambda x: "at %s and %s" % ("home", x),  # noqa: UP031
    "percent of it alone": lambda x: "at %s" % x,  # noqa: UP031
    "format": lambda x: "{} is {name}".format("it", name=x),
    "join": lambda x: ", ".join(["a", x, "b"]),
    "after a generation": lambda x: sgl.gen("a") + x,
    "before a generation": lambda x: x + sgl.gen("a"),
    "in a role": lambda x: sgl.user("Tell me: " + x),
    "as a role's text": lambda x: sgl.user(x),
    "as data": lambda x: sgl.data(x),
    "as raw text": lambda x: sgl.raw("<" + x + ">"),
    "in choices": lambda x: sgl.select("a", [f"{x}!", f"no {x}"]),
    "in a stop": lambda x: sgl.gen("a", stop=f"{x}."),
}


@pytest.mark.parametrize("value", ["Paris", "", "<|end|>", "a\nb {x} %s"])
@pytest.mark.parametrize("where", TEXTS)
def test_an_argument_in_a_text(where: str, value: str, make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str) -> None:
        s += "Begin. "
        s += TEXTS[where](word)
        s += " End."

    same(program, make, word=value)


def test_an_argument_in_a_pattern(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str) -> None:
        s += sgl.gen("a", regex=f"({word}|other)")

    same(program, make, word="Paris")


def test_numbers_are_formatted_when_they_are_there(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, price: float, count: int) -> None:
        s += f"{price:.2f} for {count}, {count:03d}, {price!r}, {count!s}"

    assert same(program, make, price=1.5, count=7).text() == "1.50 for 7, 007, 1.5, 7"


def test_a_number_where_a_text_is_needed(fake: FakeExecutor) -> None:
    @function
    def program(s: Any, count: int) -> None:
        s += "There are "
        s += "n = " + count

    with pytest.raises(ExpressionError) as raised:
        program.compile(check=False).run(count=3)
    line = line_of(program, "n = ")
    assert f"{__file__}:{line}: the argument 'count' is 3, which is no text" in str(raised.value)
    for way in (program, program.compile()):
        with pytest.raises(TypeError, match="can only concatenate str"):
            way.run(count=3)


def test_a_run_that_makes_several_texts_of_one() -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("a")
        s += "<" + s["a"]

    with pytest.raises(ExpressionError, match=r"the variable 'a' is \['<\d+>', '<\d+>'\], which"):
        program.compile(check=False).run(n=2)
    with pytest.raises(TypeError, match="can only concatenate str"):
        program.run(n=2)
    with pytest.raises(TraceError, match="raised TypeError while it was traced: can only conc"):
        program.compile().run(n=2)


# What a trace refuses.

DECIDES: dict[str, Callable[[Any], Any]] = {
    "len()": len,
    "==": lambda x: x == "a",
    "!=": lambda x: x != "a",
    "hash()": lambda x: {"a": 1}.get(x),
    "a loop": lambda x: [one for one in x],  # noqa: C416
    "an index": lambda x: x[0],
    "`in`": lambda x: "a" in x,
    "its truth": lambda x: 1 if x else 2,
    "<": lambda x: x < "b",
    "upper()": lambda x: x.upper(),
    "strip()": lambda x: x.strip(),
    "split()": lambda x: x.split(),
    "replace()": lambda x: x.replace("a", "b"),
    "format()": lambda x: x.format(1),
    "join()": lambda x: x.join(["a"]),
    "%": lambda x: x % 3,
    "*": lambda x: x * 3,
    "int()": int,
    "float()": float,
    "index()": lambda x: range(x),
    "a sum": lambda x: x + 1,
    "sub()": lambda x: x - 1,
    "rsub()": lambda x: 1 - x,
    ".items": lambda x: x.items(),
    "sorted": lambda x: sorted([x, "b"]),
    "a format": lambda x: f"{x + 'a':>5}",
    "repr()": lambda x: repr("a" + x),
    "fork()": None,  # type: ignore[dict-item]
}
AS = {"sorted": ">"}


@pytest.mark.parametrize("what", DECIDES)
def test_what_needs_an_arguments_value(what: str) -> None:
    @function
    def decides(s: Any, word: str) -> None:
        s += "a"
        s.fork(word) if what == "fork()" else DECIDES[what](word)

    with pytest.raises(TraceError) as raised:
        decides.trace()
    message = str(raised.value)
    needs = "needs the value of the argument 'word', which has none in a trace"
    assert f"{AS.get(what, what)} {needs}" in message
    lines = [line_of(decides, "DECIDES["), *_line(DECIDES[what])]
    assert any(f"{__file__}:{line}:" in message for line in lines), message
    assert "hint: give it one: decides.trace(word=...)" in message


def _line(func: Any) -> list[int]:
    code = getattr(func, "__code__", None)
    return [code.co_firstlineno] if code else []


CHANGES: dict[str, Callable[[Any], Any]] = {
    "upper": lambda x: f"{x}.".upper(),
    "lower": lambda x: f"{x}.".lower(),
    "strip": lambda x: f"{x}\n".strip(),
    "rstrip": lambda x: f"a {x}".rstrip(),
    "split": lambda x: " ".join(f"{x} a".split()),
    "lines": lambda x: "|".join(f"{x} a".split("\n")),
    "replace": lambda x: f"{x}.".replace(",", ";"),
    "of str": str.upper,
    "pattern": lambda x: re.sub("[^a-z]", "", x),
    "escaped for a pattern": lambda x: re.escape(f"{x}."),
    "escaped for HTML": lambda x: html.escape(f"{x}."),
    "escaped for an address": lambda x: quote(f"{x}."),
    "JSON": lambda x: json.dumps([x]),
    "JSON of all characters": lambda x: json.dumps([x], ensure_ascii=False),
    "a schema": lambda x: sgl.gen("a", json_schema={"enum": [x]}),
    "bytes": lambda x: str(f"{x}.".encode()),
    "repr": lambda x: repr(f"{x}."),
    "repr of a list": lambda x: str([f"{x}."]),
    "ascii": lambda x: f"{x!a}",
    "dedent": lambda x: textwrap.dedent(f" {x}\n a"),
    "fill": lambda x: textwrap.fill(f"{x} and a"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_text_that_was_changed_at_an_argument(how: str) -> None:
    @function
    def changes(s: Any, word: str) -> None:
        s += CHANGES[how](word)

    with pytest.raises(TraceError, match="a text with an argument in it was changed"):
        changes.trace()


def test_a_width_would_count_the_characters_of_a_mark() -> None:
    @function
    def wide(s: Any, word: str, template: str) -> None:
        s += template % word

    with pytest.raises(TraceError, match="a width in % needs the value"):
        wide.trace(template="%-30s|")


def test_what_a_program_catches_is_refused_all_the_same() -> None:
    @function
    def catches(s: Any, word: str) -> None:
        s += sgl.gen("a")
        with contextlib.suppress(Exception):
            s += s["a"].upper()
        with contextlib.suppress(Exception):
            s += word.upper()

    with pytest.raises(TraceError, match=r"an error that s\['a'\] raises inside `try`"):
        catches.trace()
    assert "s['a'] raises" in catches.trace(partial=True).stopped


@pytest.mark.parametrize("how", ["an object", "a tuple of names", "returned", "a tool's text"])
def test_objects_with_an_argument_in_them(how: str) -> None:
    @dataclass
    class Held:
        word: str

    pair = namedtuple("pair", "word")

    @function
    def holds(s: Any, word: str) -> Any:
        if how == "an object":
            s["a"] = Held(word)
        elif how == "a tuple of names":
            s["a"] = pair(word)
        elif how == "returned":
            return pair(word)
        else:
            s.program.append(s._branch, ToolResults((), (word,)))
        return None

    with pytest.raises(TraceError, match="has an argument or generated data in it"):
        holds.trace()


def test_the_names_of_variables_are_known() -> None:
    @function
    def assigns(s: Any, word: str) -> None:
        s[f"x{word}"] = 1

    @function
    def scopes(s: Any, word: str) -> None:
        with s.var_scope(f"x{word}"):
            s += "a"

    for program in (assigns, scopes):
        with pytest.raises(TraceError, match="a name depends on an argument"):
            program.trace()


def test_options_that_are_an_argument(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str) -> None:
        s += sgl.gen("a", stop=word) + sgl.gen("b", stop=[word, "x"]) + sgl.gen("c", regex=word)

    same(program, make, word="Paris")


def test_choices_that_are_arguments(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, first: str, second: str) -> None:
        s += sgl.select("a", [first, second])

    same(program, make, first="yes", second="no")
    with pytest.raises(OptionError, match="'yes' is repeated"):
        program.compile().run("yes", "yes")
    with pytest.raises(OptionError, match="'' cannot be scored"):
        program.compile().run("yes", "")


def test_an_option_that_is_no_text() -> None:
    @function
    def program(s: Any, count: int) -> None:
        s += sgl.gen("a", n=count)

    with pytest.raises(TraceError, match="this needs the value of an argument") as raised:
        program.trace()
    assert "hint: give the argument a value" in str(raised.value)


def test_an_argument_in_the_options_of_a_called_program(fake: FakeExecutor) -> None:
    @function
    def outer(s: Any, word: str) -> None:
        s += part.run(word="x", stop=[f"{word}."])["end"]

    outer.compile().run("Paris")
    (call,) = fake.calls
    assert isinstance(call, Call) and call.params.stop == ("Paris.",)


def test_arguments_stand_in_the_places_that_they_have(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str, times: int = 1, kind: str = "city", *, end: str) -> None:
        s += f"{word}{times}{kind}{end}"

    compiled = program.compile()
    assert str(compiled.graph.signature) == "(s, word, *, kind='city', end)"
    with pytest.warns(UserWarning, match="program differs from the compiled graph"):
        assert compiled.run("a", 2, "town", end="!").text() == "a2town!"
    with pytest.raises(OptionError, match="too many positional"):
        program.compile(check=False).run("a", 2, "town", end="!")
    same(program, make, word="a", kind="town", end="!")


def test_runs_of_a_graph_share_no_lists() -> None:
    @function
    def program(s: Any) -> Any:
        s["a"] = [1]
        return [2]

    compiled = program.compile()
    state = compiled.run()
    state["a"].append(3)
    state.ret_value.append(3)
    again = compiled.run()
    assert (again["a"], again.ret_value) == ([1], [2])


READS: dict[str, Callable[[Any], Any]] = {
    "s.text()": lambda s: s.text(),
    "s.messages()": lambda s: s.messages(),
    "s.token_ids()": lambda s: s.token_ids(),
    "s.snapshot()": lambda s: s.snapshot(),
    "s.error()": lambda s: s.error(),
    "s.run_id": lambda s: s.run_id,
    "s.tokens": lambda s: s.tokens,
    "s.seconds": lambda s: s.seconds,
    "s.history()": lambda s: s.history("answer"),
    "s.get_meta_info()": lambda s: s.get_meta_info("answer"),
    "a wait for it": lambda s: list(s.text_iter()),
    "int() of s['answer']": lambda s: int(s["answer"]),
    "== of s['answer']": lambda s: s["answer"] == "a",
    "len() of s['answer']": lambda s: len(s.get_var("answer")),
    "hash() of s['answer']": lambda s: {}.get(s["answer"]),
    "its truth of s['answer']": lambda s: not s["answer"],
    "strip() of s['answer']": lambda s: s["answer"].strip(),
    "s['call'], which may be a call of a tool": lambda s: s["call"],
    "s['calls'], which may be a call of a tool": lambda s: s["calls"],
}


@pytest.mark.parametrize("what", READS)
def test_what_depends_on_generated_data(what: str) -> None:
    @function
    def decides(s: Any) -> None:
        s += "a" + sgl.gen("answer")
        s += sgl.gen("call", tools=[tool_of_tests])
        forks = s.fork(2)
        forks += sgl.gen("calls", tools=[tool_of_tests])
        forks.join()
        READS[what](s)

    with pytest.raises(TraceError) as raised:
        decides.trace()
    message, line = str(raised.value), _line(READS[what])[0]
    assert f"{__file__}:{line}: this depends on generated data: {what}" in message
    assert "hint: run the program as it is: decides.run(...)" in message


def tool_of_tests(city: str) -> str:
    """Looks a city up."""
    return city


def test_what_cannot_be_traced_at_all() -> None:
    @function
    async def waits(s: Any) -> None:
        s += "a"

    @function
    def calls_a_batch(s: Any) -> None:
        part.run_batch([{"word": "a"}])

    @function
    def goes_on(s: Any) -> None:
        part.run(word="a", continue_from=part.run(word="b"))

    @function
    def named(s: Any, name: str) -> None:
        s += sgl.gen(f"about {name}")

    @function
    def cuts(s: Any, text: str) -> None:
        s += f"{text}."[2:]

    @function
    def encodes(s: Any, text: str) -> None:
        s += json.dumps(f"{text}.")

    @function
    def reads(s: Any, text: str) -> None:
        s += json.loads(f"[{text}")[0]

    @function
    def returns(s: Any) -> Any:
        return s

    @function
    def calls_itself(s: Any, text: str) -> None:
        s += text
        calls_itself(s, text)

    messages = {
        waits: "waits is an async def",
        calls_a_batch: "run_batch(...) in a program that is traced",
        goes_on: "run(continue_from=...) in a program that is traced",
        named: "its truth needs the value of the argument 'name'",
        cuts: "an index needs the value of the argument 'text'",
        encodes: "a text with an argument in it was changed",
        reads: "startswith() needs the value of the argument 'text'",
        calls_itself: "calls_itself raised RecursionError while it was traced",
        returns: "a TracingState is returned",
    }
    for program, message in messages.items():
        with pytest.raises(TraceError, match=message.replace("(", r"\(").replace(")", r"\)")) as e:
            program.trace()
        assert "/sgnb/lang/" not in e.value.message


def test_a_call_to_another_model_is_shown_with_its_name() -> None:
    other = FakeExecutor()

    @function
    def judged(s: Any) -> None:
        s += "A:" + sgl.gen("draft", backend=other) + sgl.select("v", ["a"], backend=other)

    lines = str(judged.trace()).splitlines()
    assert lines[2].endswith("gen('draft', backend=FakeExecutor)")
    assert lines[3].endswith("select('v', ['a'], backend=FakeExecutor)")


def test_a_programs_own_mistakes_are_what_they_are() -> None:
    @function
    def unknown(s: Any) -> None:
        s += s["nothing"]

    @function
    def nested(s: Any) -> None:
        with s.user(), s.user():
            s += "a"

    with pytest.raises(sgl.errors.UnknownVariableError, match="nothing"):
        unknown.trace()
    with pytest.raises(ProgramError, match="inside the role"):
        nested.trace()
    with pytest.raises(OptionError, match="no argument 'x'"):
        part.trace(x=1)
    with pytest.raises(OptionError, match="missing a required argument"):
        part.compile().run()


def test_partial_graphs(make: type[FakeExecutor]) -> None:
    @function
    def decides(s: Any) -> None:
        s += "a" + sgl.gen("answer")
        s += "b" if s["answer"] == "x" else "c"

    graph = decides.trace(partial=True)
    assert "== of s['answer']" in graph.stopped and repr(graph).endswith("stopped>")
    assert str(graph).splitlines()[-1] == f"# stopped: {graph.stopped}"
    with pytest.warns(UserWarning, match="decides is interpreted, not run as a graph"):
        compiled = decides.compile(partial=True)
    assert compiled.run().text() == decides.run().text()
    with pytest.raises(TraceError, match="is not the whole program"):
        CompiledProgram(graph)


# Running a graph.


@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_random_programs_as_graphs(program: list[Any]) -> None:
    @function
    def random_program(s: Any, steps: list[Any], word: str) -> None:
        s += f"{word}: "
        run_it(s, steps, names())

    executor = FakeExecutor()
    try:
        graph = random_program.trace(steps=program)
        again = Graph.from_json(graph.to_json())
        assert again == graph
        expected = random_program.run(program, "a", backend=executor)
        state = CompiledProgram(again).run("a", backend=executor)
        assert state.text() == expected.text()
        assert state._branch.variables == expected._branch.variables
    finally:
        executor.close()


def test_streams_that_wait_do_not_hold_up_others(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any) -> None:
        forks = s.fork(3)
        for fork in forks:
            fork += sgl.gen("first")
            fork += "<" + fork["first"] + ">" + sgl.gen("second")
        forks.join()

    together = make(together=3)
    program.compile().run(backend=together).sync()
    assert together.most_running == 3
    alone = make(delay=0.01)
    program.run(backend=alone).sync()
    assert alone.names()[:2] == ["first", "second"], "the interpreter reads one after the other"


def test_an_error_is_the_programs_at_its_line(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str) -> None:
        s += word
        s += sgl.gen("bad")
        s += "<" + s["bad"] + ">"
        s += sgl.gen("never")

    failing = make(answer=lambda call: RuntimeError("no model"))
    for one in (program, program.compile()):
        with pytest.raises(RuntimeError, match="no model") as raised:
            one.run("x", backend=failing)
        line = line_of(program, 'gen("bad")')
        assert raised.value.__notes__ == [f"in gen 'bad', at {__file__}:{line}"]


def test_an_error_of_a_called_program(make: type[FakeExecutor]) -> None:
    @function
    def outer(s: Any) -> None:
        other = part.run(word="x")
        s += other["end"]

    set_default_executor(make(answer=lambda call: RuntimeError("no model")))
    for one in (outer, outer.compile()):
        with pytest.raises(RuntimeError, match="no model"):
            one.run()


def test_a_called_program_is_a_run_of_its_own(fake: FakeExecutor) -> None:
    @function
    def outer(s: Any, word: str) -> None:
        other = part.run(word=f"the {word}", temperature=0.5, stop=["."])
        s += other["end"]

    def told() -> list[Any]:
        events = fake.events(RunStarted, ProgramCalled)
        return [
            event.arguments
            if isinstance(event, ProgramCalled)
            else (event.title, event.source, event.file, event.first_line)
            for event in events
        ]

    expected = outer.run("x").text()
    before = told()
    assert outer.compile().run("x").text() == expected
    assert told() == before * 2 and "word='the x'" in before
    first, second = fake.calls
    assert isinstance(first, Call) and isinstance(second, Call)
    assert first.params == second.params and first.params.temperature == 0.5


def test_special_tokens_are_data_where_the_program_has_them_so(make: type[FakeExecutor]) -> None:
    @function
    def inner(s: Any, text: str) -> None:
        s += f"({text})"

    @function
    def program(s: Any, given: str, word: str, own: str = "<|default|>") -> None:
        s += f"<|mark|>{word}<|mark|>{given}" + own
        inner(s, "<|inner|>")
        s += sgl.gen("answer")

    same(program, make, trace=["given"], given="<|given|>", word="<|word|>")


@pytest.mark.filterwarnings("ignore:.*used again")
def test_a_state_that_has_variables_already(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("a")
        first = s["a"]
        s += sgl.gen("a")
        s += "<" + first + "|" + s["a"] + ">"

    @function
    def around(s: Any, body: Any) -> None:
        s += sgl.gen("a") + ";"
        body(s)

    compiled = program.compile()
    held = part.bind(word="x").run()
    held["a"] = "before"
    executor = make()
    ways: list[Callable[[Any], Any]] = [
        lambda one: one.run(backend=executor),
        lambda one: one.run(backend=executor, continue_from=held),
        lambda one: around.run(one, backend=executor),
    ]
    for way in ways:
        state, expected = way(compiled), way(program)
        assert state.text() == expected.text()
        assert state.history("a") == expected.history("a")


def test_samples_and_reasoning(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any) -> None:
        s += sgl.gen("several", n=3)
        s += "<" + s["several"][2] + ">"
        s += sgl.separate_reasoning(sgl.gen("answer"))
        s += s["answer_reasoning_content"] + s["answer"]

    same(program, make)


def test_joins_and_copies(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any) -> None:
        with s.copy() as c:
            c += sgl.gen("aside")
        forks = s.fork(2)
        forks += sgl.gen("a")
        forks.join("concate_and_append")
        again = s.fork(2)
        again += "b" + sgl.gen("b")
        s.keep(again[1])
        s += "<" + s["aside"][0] + s["b"] + ">"

    same(program, make)


def test_other_models_and_functions_run_and_are_not_saved(make: type[FakeExecutor]) -> None:
    other = make()

    def longest(choices: Any) -> list[float]:
        return [float(len(choice.tokens)) for choice in choices]

    @function
    def on_another(s: Any) -> None:
        s += sgl.gen("a", backend=other)

    @function
    def by_function(s: Any) -> None:
        s += sgl.select("a", ["x", "long"], choices_method=longest)

    @function
    def with_tools(s: Any) -> None:
        s += sgl.use_tools([tool_of_tests]) + sgl.user("Go.")
        s += sgl.assistant(sgl.gen("a"))

    @function
    def assigns(s: Any) -> None:
        s["a"] = object()

    for program in (on_another, by_function, with_tools):
        compiled = program.compile()
        assert compiled.run().text() == program.run().text()
    for program in (on_another, by_function, with_tools, assigns):
        with pytest.raises(ProgramError, match=r"test_graph.py:\d+: .*cannot be saved"):
            program.trace().to_json()
    assert len(other.calls) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 3}', '{"format": 4, "x": 1}'])
def test_what_is_no_saved_graph(text: str) -> None:
    with pytest.raises(RecordError, match="the graph cannot be read"):
        Graph.from_json(text)


@function
def forking(s: Any, word: str) -> None:
    s += sgl.user("Say {" + word + "}") + sgl.gen("a", stop=word)
    for fork in (forks := s.fork(2)):
        fork += sgl.gen("tip", max_tokens=3)
    forks.join()
    s += s["a"]


def changed_graph(path: str, value: Any) -> str:
    """The saved graph with another value at `path`."""
    whole = json.loads(forking.trace().to_json())
    *above, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    parent = whole
    for key in above:
        parent = parent[key]
    parent[last] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", [2]), ("nodes", []), ("nodes", {"list": []}), ("nodes/1/Node/0", 0),
        ("nodes/1/Node/0", "1"), ("nodes/1/Node/0", [1]), ("nodes/1/Node/1", 77),
        ("nodes/1/Node/2", 5), ("nodes/1/Node/2", {"dict": [["text", "x"], ["y"]]}),
        ("nodes/1/Node/3", None), ("nodes/1/Node/4", {"Location": ["file"]}),
        ("nodes/1/Node/4", {"Location": [1, "file"]}), ("nodes/1/Node/5", [1]),
        ("nodes/1/Node/5", [[]]), ("nodes/1/Node/6", [5]), ("nodes/0/Node/2", None),
        ("nodes/2/Node", []), ("placeholders", [1]), ("parameters", ["class"]),
        ("parameters", ["word", "word"]), ("parameters", "word"), ("stopped", 1),
        ("defaults", [["word", 1]]), ("nodes/3/Node/2", {"Variable": [0, "b", 0, None, None]}),
        ("nodes/3/Node/2", {"Argument": [[], None]}), ("nodes/3/Node/2", {"Nothing": []}),
    ],
)  # fmt: skip
def test_a_changed_graph_is_refused(path: str, value: Any) -> None:
    with pytest.raises(RecordError, match="the graph cannot be read"):
        Graph.from_json(changed_graph(path, value))


def test_a_text_with_the_mark_of_another_placeholder_is_refused() -> None:
    text = forking.trace().to_json()
    mark = json.dumps(chr(0x100000))[1:-1]
    assert text.count(mark) == 1
    with pytest.raises(RecordError, match="the graph cannot be read"):
        Graph.from_json(text.replace(mark, json.dumps(chr(0x100007))[1:-1]))


def test_odd_names_of_a_graph_are_printed_and_drawn() -> None:
    graph = Graph.from_json(changed_graph("nodes/1/Node/3", "a\0\ud800\x1b[31m\u202e"))
    options = Graph.from_json(changed_graph("nodes/6/Node/2/Gen/1/0/0", "a\0\ud800\x1b"))
    labels = [node.label() for node in options.nodes]
    for text in (str(graph), graph.to_dot(), graph.to_svg(), repr(graph), *labels):
        assert "\0" not in text and "\x1b" not in text and text.encode()
    ElementTree.fromstring(graph.to_svg())


def test_a_graph_with_a_deep_value_is_saved_and_read_or_refused() -> None:
    deep: Any = "x"
    for levels in range(1, 400):
        deep = [deep]
        if levels in (50, 150, 399):

            @function
            def program(s: Any, value: Any = deep) -> None:
                s["a"] = value

            graph = program.trace()
            if levels == 50:
                assert Graph.from_json(graph.to_json()) == graph
            else:
                with pytest.raises(ProgramError, match="cannot be saved"):
                    graph.to_json()


def test_defaults_and_given_values(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str, kind: str = "city", times: int = 2, **more: Any) -> None:
        for _ in range(times):
            s += f"{kind}: {word}"

    graph = program.trace()
    assert graph.parameters == ("word", "kind") and graph.defaults == (("kind", "city"),)
    same(program, make, word="a")
    same(program, make, trace=["times"], word="a", kind="town", times=3)
    compiled = program.compile(word="fixed")
    assert compiled.run().text() == "city: fixedcity: fixed"
    with pytest.raises(OptionError, match="the graph of program has fixed 'word'"):
        compiled.run(word="other")


def test_a_graph_runs_as_all_programs_do(tmp_path: Any) -> None:
    compiled = part.compile()
    assert compiled.run("a", stream=True).text() == part.run("a").text()
    frame = compiled.run_batch(pandas.DataFrame({"word": ["a", "b"]}), as_frame=True)
    assert list(frame["end"]) == [part.run(word)["end"] for word in "ab"]
    for _ in range(2):
        states = compiled.run_batch([("a",)], save=tmp_path / "rows.jsonl")
        assert states[0].text() == part.run("a").text()
    assert isinstance(states[0], sgl.lang.SavedState)
    assert compiled.bind(word="a").run().text() == part.run("a").text()


def test_a_trace_leaves_nothing_behind(fake: FakeExecutor) -> None:
    started: list[Any] = []
    stop = sgl.lang.watch(started.append)
    try:
        every_kind.trace()
    finally:
        stop()
    assert not started and not fake.calls and not fake.events()


def test_a_compiled_program_in_another_one(make: type[FakeExecutor]) -> None:
    @function
    def inner(s: Any, word: str, end: str) -> str:
        s += word + sgl.gen("inner")
        s += "<" + s["inner"] + ">" + end
        return str(s["inner"])

    compiled = inner.compile(end="!")

    @function
    def outer(s: Any, word: str) -> None:
        s += compiled(s, word=word) + compiled.run(word)["inner"]

    state = same(outer, make, word="x")
    assert state.text().count("!") == 1


@pytest.mark.filterwarnings("ignore:.*has an effect outside of the program")
@pytest.mark.parametrize("check", [True, False])
def test_the_programs_code_runs_again_only_for_the_check(check: bool) -> None:
    ran: list[int] = []

    @function
    def program(s: Any, word: str) -> None:
        ran.append(1)
        s += word + sgl.gen("a")

    program.compile(check=check).run_batch([("a",), ("b",)])
    assert len(ran) == (3 if check else 1)


def test_what_a_node_costs() -> None:
    """20 microseconds beside what appending costs in any program, on an idle machine; the check
    runs the code once more."""

    @function
    def program(s: Any, word: str) -> None:
        for i in range(1000):
            s += f"{i}: {word}"
            s[f"x{i}"] = i

    compiled = program.compile()

    def seconds(one: Any) -> float:
        begun = time.perf_counter()
        one.run("a")
        return time.perf_counter() - begun

    unchecked = program.compile(check=False)
    own = min(seconds(unchecked) - seconds(program) for _ in range(7))
    check = min(seconds(compiled) - seconds(unchecked) for _ in range(7))
    assert check / len(compiled.graph.nodes) < 40e-6
    assert own / len(compiled.graph.nodes) < 20e-6


@pytest.mark.parametrize("stop", ["x", None, ["x", "yy"], ("x",)])
def test_an_option_may_be_of_any_kind(stop: Any, make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, word: str, stop: Any) -> None:
        s += word + sgl.gen("a", stop=stop, max_tokens=4)

    same(program, make, word="w", stop=stop)


def test_an_option_that_no_generation_takes(make: type[FakeExecutor]) -> None:
    @function
    def program(s: Any, stop: Any) -> None:
        s += "a" + sgl.gen("a", stop=stop)

    with pytest.raises(OptionError, match="stop=3 is not allowed"):
        program.compile().run(3, backend=make())


@pytest.mark.parametrize("read_back", [False, True], ids=["compiled", "from JSON"])
def test_a_graph_of_every_kind_in_another_one(read_back: bool, make: type[FakeExecutor]) -> None:
    compiled = every_kind.compile()
    if read_back:
        compiled = CompiledProgram(Graph.from_json(compiled.graph.to_json()))

    @function
    def outer(s: Any, word: str, program: Any = compiled) -> str:
        s += "(" + word + ")"
        first = program(s, question=word)
        s += "|" + s["answer"] + first
        other = program.run("b" + s["copy"])
        s += other["part"] + other.ret_value
        return str(first)

    graph = outer.trace()
    assert {node.program for node in graph.nodes} == {"outer", "every_kind", "part"}

    @function
    def as_code(s: Any, word: str) -> str:
        return str(outer.func(s, word, every_kind))

    mine, theirs = make(), make()
    state = CompiledProgram(graph).run("x", backend=mine)
    expected = as_code.run("x", backend=theirs)
    assert state.text() == expected.text()
    assert state.ret_value == expected.ret_value
    assert state._branch.variables == expected._branch.variables
    assert seen(mine) == seen(theirs)


def test_what_a_graph_returned_to_another_one_cannot_be_decided_on() -> None:
    @function
    def inner(s: Any, word: str) -> Any:
        s += word + sgl.gen("a")
        return {"a": s["a"], "all": [word]}

    compiled = CompiledProgram(Graph.from_json(inner.trace().to_json()))

    @function
    def outer(s: Any, word: str, key: str = "", program: Any = compiled) -> None:
        if program(s, word=word)[key or "a"] == "b":
            s += "c"

    with pytest.raises(TraceError, match=r"== of s\['a'\]"):
        outer.trace(key="a")
