"""Programs without decisions: accepted code, and changes that end the acceptance."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.lang import CompiledProgram, SglFunction, function, gen, select, system, user
from sgnb.lang.compiled import _FUNCTIONS
from sgnb.lang.graph.graph import Graph
from sgnb.lang.graph.plain_code import plain_code
from sgnb.lang.graph.run_graphs import CheckedGraph
from sgnb.lang.primitives.config import global_config

from .fake import FakeExecutor

RULE = "Be brief."
LEVELS = 2
PAIR = ("yes", "no")
WORDS = ["a", "b"]
NOTHING = None
module = types.ModuleType("module")
module.RULE = "Be kind."  # type: ignore[attr-defined]


def twice(text: str) -> str:
    return text + text


@function
def plain(s: Any, question: str, tone: str = "kind") -> str:
    s += system(RULE + module.RULE) + user(f"{question} ({tone})")
    for level in range(LEVELS):
        s += sgl.assistant(gen(f"answer{level}", max_tokens=4 + level))
        s += f"Is {s['answer0']} right?" + select(f"right{level}", PAIR)
    line = "The end of " + question
    line += "."
    if LEVELS > 1:
        s += line
    return question


@function
def bound(s: Any, question: str, count: int = 2) -> None:
    s += question
    for i in range(count):
        s += f"{i:>3}." + gen(f"tip{i}", max_tokens=count)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(globals())
    yield
    for name in globals().keys() - before.keys():
        del globals()[name]
    globals().update(before)
    module.RULE = "Be kind."  # type: ignore[attr-defined]
    global_config.skip_special_tokens_in_output = True


def checked(compiled: CompiledProgram) -> CheckedGraph:
    assert compiled._checked is not None
    return compiled._checked


def is_compared_before_a_run(compiled: CompiledProgram, **values: Any) -> bool:
    """Return whether the code of the program runs before the graph."""
    plain = checked(compiled)._plain
    return plain is None or not plain.holds(values)


@pytest.mark.parametrize("program", [plain, bound])
def test_plain_programs_are_compared_once(program: SglFunction, fake: FakeExecutor) -> None:
    compiled = program.compile()
    assert is_compared_before_a_run(compiled, question="a"), "the graph may be an old graph"
    texts = []
    for question in ("a", "", "?{}\n%s"):
        texts.append(compiled.run(question, backend=fake).text())
        assert not is_compared_before_a_run(compiled, question=question)
        assert texts[-1] == program.run(question, backend=fake).text()
    assert len(set(texts)) == 3


def _reads_text(s: Any, q: str) -> None:
    s += str(q)


def _measures(s: Any, q: str) -> None:
    s += q + str(len(q) if False else 0)


def _helper(s: Any, q: str) -> None:
    s += twice(q)


def _decides(s: Any, q: str) -> None:
    s += "a" if q == "a" else "b"


def _list(s: Any, q: str) -> None:
    s += select("x", WORDS)


def _option(s: Any, q: str) -> None:
    s += gen("x", stop=q)


def _several(s: Any, q: str) -> None:
    s += gen("x", n=2)


def _format(s: Any, q: str) -> None:
    s += f"{q:>10}"


def _repr(s: Any, q: str) -> None:
    s += f"{q!r}"


def _method(s: Any, q: str) -> None:
    s += q.upper() if False else q


def _loop(s: Any, q: str) -> None:
    for word in WORDS:
        s += word


def _inner(s: Any, q: str) -> None:
    s += (lambda: q)()


def _walrus(s: Any, q: str) -> None:
    s += (x := "a") + x + q


def _keyword(s: Any, *, q: str) -> None:
    s += q


def _rest(s: Any, q: str, *rest: str) -> None:
    s += q


def _global(s: Any, q: str) -> None:
    global RULE
    RULE = "changed"
    s += q


def _prints(s: Any, q: str) -> None:
    print("x")
    s += q


def _reads_state(s: Any, q: str) -> None:
    s += q + s.text()


def _catches(s: Any, q: str) -> None:
    try:
        s += q
    finally:
        s += "."


def _fork(s: Any, q: str) -> None:
    a, _ = s.fork(2)
    a += q


def _deletes(s: Any, q: str) -> None:
    x = q
    del x


def _while(s: Any, q: str) -> None:
    while LEVELS > 3:
        s += q


def _imports(s: Any, q: str) -> None:
    import random

    s += q + random.__name__


REFUSED = [
    value
    for name, value in globals().items()
    if name.startswith("_") and name != "_restored" and type(value) is types.FunctionType
]


@pytest.mark.parametrize("func", REFUSED, ids=lambda func: func.__name__)
def test_other_code_is_compared_before_each_run(func: Callable[..., Any]) -> None:
    graph = bound.trace()
    named = Graph(graph.nodes, graph.placeholders, ("q",), (), "", (), ())
    assert plain_code(func, named, {}, _FUNCTIONS) is None


def test_the_refusals_refuse_for_their_own_reason() -> None:
    graph = bound.trace()
    named = Graph(graph.nodes, graph.placeholders, ("q",), (), "", (), ())

    def control(s: Any, q: str) -> None:
        s += q

    assert len(REFUSED) >= 20
    assert plain_code(control, named, {}, _FUNCTIONS) is not None


def set_global(name: str, value: Any) -> Callable[[], None]:
    return lambda: globals().update({name: value})


def other_code(s: Any, question: str, tone: str = "kind") -> str:
    s += "another text" + question
    return tone


EDITS: dict[str, Callable[[], None]] = {
    "a global": set_global("RULE", "Be long."),
    "a number": set_global("LEVELS", 1),
    "a tuple": set_global("PAIR", ("yes", "maybe")),
    "an imported function": set_global("gen", lambda name, **_: sgl.gen(name, max_tokens=9)),
    "a role": set_global("system", user),
    "a builtin": set_global("range", lambda n: [0]),
    "a module": set_global("module", types.SimpleNamespace(RULE="other")),
    "an attribute": lambda: setattr(module, "RULE", "Be rude."),
    "the configuration": lambda: setattr(global_config, "skip_special_tokens_in_output", False),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edit_is_seen(edit: Callable[[], None], fake: FakeExecutor) -> None:
    compiled = plain.compile()
    before = compiled.run("a", backend=fake).text()
    assert not is_compared_before_a_run(compiled, question="a")
    edit()
    assert is_compared_before_a_run(compiled, question="a")
    fake.calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = compiled.run("a", backend=fake).text()
        calls = [call.params for call in fake.calls if hasattr(call, "params")]
        fake.calls.clear()
        assert text == plain.run("a", backend=fake).text()
    assert calls == [call.params for call in fake.calls if hasattr(call, "params")]
    assert text != before or edit is EDITS["the configuration"] or calls


@pytest.mark.parametrize("attribute", ["__code__", "__defaults__", "__kwdefaults__"])
def test_a_change_of_the_function_is_seen(attribute: str, fake: FakeExecutor) -> None:
    func = plain.func
    known = getattr(func, attribute)
    compiled = plain.compile()
    compiled.run("a", backend=fake)
    changed = {
        "__code__": other_code.__code__, "__defaults__": ("rude",), "__kwdefaults__": {"x": 1},
    }[attribute]  # fmt: skip
    setattr(func, attribute, changed)
    try:
        assert is_compared_before_a_run(compiled, question="a")
    finally:
        setattr(func, attribute, known)


def test_a_closure_is_read_again(fake: FakeExecutor) -> None:
    rule = "first"

    def change(value: str) -> None:
        nonlocal rule
        rule = value

    @function
    def program(s: Any, q: str) -> None:
        s += rule + q

    compiled = program.compile()
    assert compiled.run("a", backend=fake).text() == "firsta"
    assert not is_compared_before_a_run(compiled, q="a")
    change("second")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled.run("a", backend=fake).text() == "seconda"


def test_a_deleted_name_differs_from_none(fake: FakeExecutor) -> None:
    cell = None

    def delete() -> None:
        nonlocal cell
        del cell

    @function
    def of_cell(s: Any, q: str) -> None:
        s += f"{q}{cell}"

    @function
    def of_global(s: Any, q: str) -> None:
        s += f"{q}{NOTHING}"

    @function
    def of_module(s: Any, q: str) -> None:
        s += f"{q}{module.NOTHING}"  # type: ignore[attr-defined]

    module.NOTHING = None  # type: ignore[attr-defined]
    programs = [program.compile() for program in (of_cell, of_global, of_module)]
    for compiled in programs:
        assert compiled.run("a", backend=fake).text() == "aNone"
        assert not is_compared_before_a_run(compiled, q="a")

    delete()
    del globals()["NOTHING"], module.NOTHING  # type: ignore[attr-defined]
    for compiled in programs:
        assert is_compared_before_a_run(compiled, q="a")
        with pytest.raises((NameError, AttributeError)):
            compiled.run("a", backend=fake).text()


def test_only_texts_and_parameters_with_placeholders_are_accepted(fake: FakeExecutor) -> None:
    class Text(str):
        pass

    compiled = bound.compile()
    compiled.run("a", backend=fake)
    assert not is_compared_before_a_run(compiled, question="a")
    for values in ({"question": Text("a")}, {"question": 1}, {"question": "a", "count": 2}):
        assert is_compared_before_a_run(compiled, **values)
    assert compiled.run("a", count=1, backend=fake).text().count(".") == 1


def test_a_graph_of_an_older_program_is_compared(fake: FakeExecutor) -> None:
    graph = Graph.from_json(plain.trace().to_json())
    globals()["RULE"] = "Be long."
    compiled = CompiledProgram(graph, plain)
    with pytest.warns(UserWarning, match="differs from the compiled graph"):
        text = compiled.run("a", backend=fake).text()
    assert "Be long." in text
    assert is_compared_before_a_run(compiled, question="a")


@given(question=st.text(max_size=20), tone=st.text(max_size=5))
def test_the_trace_of_any_texts_equals_the_graph(question: str, tone: str) -> None:
    """The slow twin of `PlainCode.holds`: the comparison with the code."""
    compiled = plain.compile()
    twin = checked(compiled)
    assert twin.graph_for({"question": question, "tone": tone}, None).plan is twin.plan
