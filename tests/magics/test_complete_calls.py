"""Completion inside the call of a program."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

import sgnb as sgl
from sgnb.magics.complete_calls import UnfinishedCall, parameters_of, unfinished_call


@sgl.function
def answer(s: Any, question: str, tone: str = "kind") -> None:
    s += question + tone


NAMESPACE: dict[str, Any] = {"answer": answer, "compiled": answer.compile(), "number": 5}


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("answer.run(", UnfinishedCall("answer", "run", set())),
        ("answer(", UnfinishedCall("answer", "", set())),
        ("x = [answer.run ( ", UnfinishedCall("answer", "run", set())),
        ("answer.run(question='a)(', ", UnfinishedCall("answer", "run", {"question"})),
        ("answer.run(f(a=1), tone=g(2),", UnfinishedCall("answer", "run", {"tone"}, 1)),
        ("answer.run(\n    question=1,\n", UnfinishedCall("answer", "run", {"question"})),
        ("f(answer.run(1), ", UnfinishedCall("f", "", set(), 1)),
        ("answer.run(tone == 1, f(2, 3), ", UnfinishedCall("answer", "run", set(), 2)),
        ("answer.run()", None),
        ("answer.run(question=", None),
        ("answer.run(qu", None),
        ("a.b.run(", None),
        ("f()(", None),
        ("answer.run[", None),
        ("answer.run({'a',", None),
        ("(", None),
        ("a,", None),
        ("", None),
        ("'", None),
        (")(", None),
    ],
)
def test_unfinished_calls(text: str, call: UnfinishedCall | None) -> None:
    assert unfinished_call(text) == call


@pytest.mark.parametrize(
    ("call", "first"),
    [
        (UnfinishedCall("answer", "run", set()), ["question", "tone", "stream"]),
        (UnfinishedCall("answer", "", {"question"}), ["tone", "stream"]),
        (UnfinishedCall("answer", "run", set(), 1), ["tone", "stream"]),
        (UnfinishedCall("answer", "bind", set()), ["question", "tone"]),
        (UnfinishedCall("compiled", "bounds", set()), ["question", "tone", "backend"]),
        (UnfinishedCall("answer", "func", set()), []),
        (UnfinishedCall("answer", "nothing", set()), []),
        (UnfinishedCall("number", "run", set()), []),
        (UnfinishedCall("unknown", "run", set()), []),
    ],
)
def test_parameters(call: UnfinishedCall, first: list[str]) -> None:
    names = parameters_of(call, NAMESPACE)
    assert names[: len(first)] == first and bool(names) == bool(first)


@pytest.mark.parametrize("use_jedi", [True, False])
def test_the_parameters_are_the_first_names(shell: Any, use_jedi: bool) -> None:
    ip = shell.ipython
    ip.user_ns["answer"] = answer
    ip.Completer.use_jedi = use_jedi
    for code in ("answer.run(", "x = answer.run(\n    "):
        with provisionalcompleter():
            found = [c.text for c in ip.Completer.completions(code, len(code))]
        assert found[:2] == ["question=", "tone="] and len(found) < 10
    with provisionalcompleter():
        found = [c.text for c in ip.Completer.completions("answer.run(question=an", 22)]
    assert "answer" in found, "a value completes as usual"
