"""What a run takes at most, as known before it: against what the programs of the zoo used, and
against all that calls of made-up graphs could hold at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.errors import ProgramError
from sgnb.lang import function
from sgnb.lang.graph.dry_execution import DryRequest, NodeRequests
from sgnb.lang.graph.estimate import bound
from sgnb.segment import Segment

from . import test_zoo as zoo
from .bounded import measure
from .fake import FakeExecutor
from .test_graph_zoo import NOT_TRACED

engine = zoo.engine  # the fixture


LONG = {
    "batch", "skeleton of thought", "roles as blocks", "multi-turn chat", "chain of thought",
    "map and reduce", "few-shot", "streaming",
}  # fmt: skip
"""Programs of a third of a second or more, next to shorter ones with the same primitives."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
        for name in zoo.ZOO
        if name not in NOT_TRACED
    ],
)
def test_a_run_uses_no_more_than_its_bound_and_not_much_less(name: str, engine: Any) -> None:
    found = list(measure(name, engine))
    assert found
    for most, used in found:
        assert used <= most.slots <= 1.5 * used


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Any, list[NodeRequests]]:
    """A graph of calls alone, of which each comes after some of those before, and asks for some
    requests."""
    nodes, calls = [], []
    for id in range(draw(st.integers(1, 6))):
        after = tuple(draw(st.sets(st.integers(0, id - 1), max_size=2))) if id else ()
        node: Any = SimpleNamespace(id=id, dependency_ids=after)
        requests = []
        for _ in range(draw(st.integers(1, 3))):
            prompt = tuple(draw(st.lists(st.integers(-1, 1), min_size=1, max_size=6)))
            reusable = draw(st.integers(0, len(prompt) - 1))
            requests.append(DryRequest(prompt, reusable, draw(st.integers(0, 4))))
        nodes.append(node)
        calls.append(NodeRequests(node, tuple(requests)))
    return SimpleNamespace(nodes=nodes), calls


def held_at_once(calls: list[NodeRequests]) -> int:
    """Slots of calls that all run: what is shared counts once."""
    requests = [request for call in calls for request in call.requests]
    shared = {r.prompt[:end] for r in requests for end in range(1, r.reusable + 1)}
    return len(shared) + sum(len(r.prompt) - r.reusable + r.new for r in requests)


@settings(max_examples=300)
@given(graphs())
def test_no_order_of_the_calls_holds_more(made: tuple[Any, list[NodeRequests]]) -> None:
    graph, calls = made
    earlier: list[set[int]] = []
    for node in graph.nodes:
        earlier.append({*node.dependency_ids}.union(*(earlier[id] for id in node.dependency_ids)))
    most = 0
    for size in range(1, len(calls) + 1):
        for chosen in combinations(range(len(calls)), size):
            if not any(i in earlier[j] for i in chosen for j in chosen):
                most = max(most, held_at_once([calls[i] for i in chosen]))
    found = bound(graph, calls)
    assert found.slots >= most
    alone = all(len(before) == i for i, before in enumerate(earlier))
    if alone or not any(earlier):  # one after the other, or all at once
        assert found.slots == most


class Bytes(FakeExecutor):
    """An executor whose tokens are bytes, but for those of answers."""

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        made = (one.tokens if one.kind == "output" else one.text.encode() for one in segments)
        return [*chain.from_iterable(made)]


def test_what_is_counted() -> None:

    @function
    def program(s: Any, text: str) -> None:
        s += "AB" + text
        s += sgl.gen("a", max_tokens=10)
        forks = s.fork(2)
        forks += lambda i: f"{i}" + sgl.gen("b", max_tokens=5, n=2)
        forks.join()
        s += sgl.select("c", ["x", "yyy"])

    compiled = program.compile()
    executor = Bytes()
    found = compiled.bounds(text="cd", backend=executor)
    assert executor.calls == []
    assert found.prefix == tuple(b"ABc")  # the last token of a prompt is computed by each request
    assert (found.calls, found.requests, found.new_tokens) == (4, 1 + 4 + 2, 10 + 4 * 5)
    assert found.slots == 4 + 10 + 4 * (1 + 5)


def test_a_long_text_that_comes_again_counts_again() -> None:
    @function
    def program(s: Any) -> None:
        s += "A" + sgl.gen("a", max_tokens=80)
        s += "B" + s["a"] + sgl.gen("b", max_tokens=1)

    found = program.compile().bounds(backend=Bytes())
    assert 1 + 80 + 1 + 80 + 1 <= found.slots <= 1 + 80 + 1 + 95 + 1


def test_calls_of_tools_have_no_bound() -> None:
    def weather(city: str) -> str:
        """The weather.

        city: where
        """
        return "fine"

    @function
    def program(s: Any) -> None:
        s += sgl.user("How is the weather?")
        s += sgl.assistant(sgl.gen("answer", tools=[weather]))

    with pytest.raises(ProgramError, match="how often tools are called"):
        program.compile().bounds(backend=Bytes())
