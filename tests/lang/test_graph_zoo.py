"""The programs of the zoo as graphs, on the bundled model: each that can be traced gives the same
texts and variables as its code does; of each other it is known why it cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sgnb.errors import TraceError
from sgnb.lang import SglFunction
from sgnb.lang.core.program import inside

from . import test_zoo as zoo

engine = zoo.engine  # the fixture

NOT_TRACED = {
    "select in three methods": "s.get_meta_info()",
    "router": "== of s['kind']",
    "self-consistency": "int() of s['sum']",
    "best of n": "len() of s['story']",
    "judge": "s.get_meta_info()",
    "tree of thought": "s.text()",
    "tree of thought judged by the model": "s.text()",
    "retry until valid": "int() of s['n']",
    "a loop that the model ends": "== of s['n0']",
    "async": "an async def",
}
"""Program of the zoo -> on what its trace ends."""

WITH_VALUES = {
    "answers from documents": ("question", "`in`"),
    "map and reduce": ("pages", "a loop"),
}
"""Program of the zoo -> the argument that a trace must be given, and what needs it."""


class AsGraph(SglFunction):
    """A program that runs as a graph where it can be traced, beside its code."""

    checked: ClassVar[list[str]]  # the names of those that could
    failed: ClassVar[list[TraceError]]
    given: ClassVar[set[str]]  # the arguments whose values a trace is given

    def run(self, *args: Any, **kwargs: Any) -> Any:
        expected = super().run(*args, **kwargs)
        if inside.get() is not None or kwargs.get("stream"):
            return expected
        values = dict(zip(self.arg_names, args, strict=False)) | kwargs
        known = {name: values.pop(name) for name in self.given & values.keys()}
        try:
            graph = self.compile(**known)
        except TraceError as error:
            self.failed.append(error)
            return expected
        state = graph.run(**values)
        assert state.text() == expected.text()
        assert state.token_ids() == expected.token_ids()
        assert state.messages() == expected.messages()
        assert state._branch.variables == expected._branch.variables
        assert state.ret_value == expected.ret_value
        self.checked.append(self.func.__name__)
        return state

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        with pytest.raises(TraceError) as refused:
            self.compile()
        self.failed.append(refused.value)
        return await super().arun(*args, **kwargs)

    def run_batch(self, batch: Any, **options: Any) -> Any:
        states = super().run_batch(batch, **options)
        if options.get("generator_style"):  # the others have shown it
            return states
        again = self.compile().run_batch(batch, **options)
        if options.get("as_frame"):
            assert list(again["city"]) == list(states["city"])
        else:
            assert [state.text() for state in again] == [state.text() for state in states]
        self.checked.append(self.func.__name__)
        return states

    def bind(self, **kwargs: Any) -> AsGraph:
        return type(self)(self.func, {**self.bound, **kwargs})


@pytest.fixture
def as_graphs(monkeypatch: pytest.MonkeyPatch) -> type[AsGraph]:
    monkeypatch.setattr(zoo, "function", AsGraph)
    AsGraph.checked, AsGraph.failed, AsGraph.given = [], [], set()
    return AsGraph


@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name not in NOT_TRACED])
def test_a_graph_gives_what_the_program_gives(name: str, as_graphs: type[AsGraph]) -> None:
    as_graphs.given = {WITH_VALUES[name][0]} if name in WITH_VALUES else set()
    zoo.ZOO[name]()
    assert not as_graphs.failed, as_graphs.failed
    assert as_graphs.checked


@pytest.mark.parametrize("name", NOT_TRACED)
def test_what_cannot_be_a_graph_says_why(name: str, as_graphs: type[AsGraph]) -> None:
    zoo.ZOO[name]()
    assert not as_graphs.checked
    assert NOT_TRACED[name] in as_graphs.failed[0].message
    assert "test_zoo.py:" in as_graphs.failed[0].message


@pytest.mark.parametrize("name", WITH_VALUES)
def test_an_argument_that_decides_needs_a_value(name: str, as_graphs: type[AsGraph]) -> None:
    zoo.ZOO[name]()
    argument, what = WITH_VALUES[name]
    assert f"{what} needs the value of the argument {argument!r}" in as_graphs.failed[0].message


def test_the_page_says_of_each_program_whether_it_has_a_graph() -> None:
    page = (Path(__file__).parents[2] / "docs/COMPILER.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE))
    said = {name: what for names, what in table.items() for name in names.split(", ")}
    expected = dict.fromkeys(zoo.ZOO, "same tokens")
    expected |= {name: f"needs a value for `{value}`" for name, (value, _) in WITH_VALUES.items()}
    expected |= dict.fromkeys(NOT_TRACED, "no graph: ")
    assert [name for name in zoo.ZOO if not said.get(name, "").startswith(expected[name])] == []
