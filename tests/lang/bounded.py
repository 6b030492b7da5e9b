"""What the programs of the zoo use of the cache, and what they use at most as known before.

What a run used is the largest number of slots that nobody else could have had: those of its
requests in flight, and those of the cache that they had locked. It runs alone, from an empty cache,
with generations that go on to their limit: without stops and with `ignore_eos`. The limit of one
that its grammar ends is what it had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

from sgnb.lang import CompiledProgram, SglFunction
from sgnb.lang.core.program import inside
from sgnb.lang.graph.estimate import Bound
from sgnb.lang.graph.explanation import Explanation
from sgnb.lang.graph.graph import Graph
from sgnb.lang.ir import Gen

from . import test_zoo as zoo
from .test_graph_zoo import WITH_VALUES

GRAMMARS = {"regex", "json_schema", "ebnf"}


class Noted(SglFunction):
    """A program whose runs are noted: with which arguments and defaults."""

    runs: ClassVar[list[Any]]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        if inside.get() is None:
            own = {name: value for name, value in kwargs.items() if name != "stream"}
            arguments, defaults = self._split(args, own)
            self.runs.append((self, dict(arguments.arguments), defaults))
        return super().run(*args, **kwargs)

    def run_batch(self, batch: Any, **options: Any) -> Any:
        if isinstance(batch, list):
            self.runs += [(self, dict(self._arguments(row, {}).arguments), {}) for row in batch]
        elif hasattr(batch, "columns"):
            self.runs += [(self, {"country": country}, {}) for country in batch["country"]]
        return super().run_batch(batch, **options)


@contextmanager
def slots_used(engine: Any) -> Iterator[list[int]]:
    """The slots that requests held or had locked, after each step was chosen."""
    scheduler, cache, used = engine._scheduler, engine._scheduler.cache, [0]
    schedule = scheduler.schedule

    def watched() -> Any:
        batch = schedule()
        used.append(cache.slots.total - cache.slots.available - cache.tree.evictable)
        return batch

    scheduler.schedule = watched
    try:
        yield used
    finally:
        scheduler.schedule = schedule


def to_the_limit(graph: Graph, made: Mapping[str, list[int]]) -> Graph:
    """With generations that use all tokens that they may. made: how many those of each name made,
    in a run as it was written."""

    def longest(node: Any) -> Any:
        if not isinstance(node.op, Gen):
            return node
        options = dict(node.op.options)
        if GRAMMARS & options.keys():
            options["max_new_tokens"] = max(made[node.assignments[0][0]])
        else:
            options |= {"ignore_eos": True, "stop": ()}
        return replace(node, op=replace(node.op, options=tuple(options.items())))

    return replace(graph, nodes=tuple(map(longest, graph.nodes)))


def tokens_made(state: Any) -> Mapping[str, list[int]]:
    """By the generation's name, over all branches."""
    made = defaultdict(list)
    for branch in state.program.branches:
        for name, meta in branch.meta.items():
            each = meta if isinstance(meta, list) else [meta]
            made[name] += [one.get("completion_tokens", 0) for one in each if isinstance(one, dict)]
    return made


class Measured(NamedTuple):
    """A run's bound, and the slots that it used."""

    bound: Bound
    used: int


NotedRun = tuple[SglFunction, dict[str, Any], dict[str, Any]]


def runs_of(name: str) -> list[NotedRun]:
    """Of a program of the zoo: the program, arguments and defaults of each of its runs."""
    Noted.runs = []
    with patch.object(zoo, "function", Noted):
        zoo.ZOO[name]()
    return [(SglFunction(program.func), *how) for program, *how in Noted.runs]


def limited(name: str) -> Iterator[tuple[CompiledProgram, dict[str, Any]]]:
    """Each run of a program of the zoo that can be traced, as a program that goes on to its limits,
    and what it is run with. An engine is the default one."""
    for program, arguments, defaults in runs_of(name):
        known = {key: arguments.pop(key) for key in WITH_VALUES.get(name, ())[:1]}
        graph = program.trace(**known)
        state = CompiledProgram(graph).run(**arguments, **defaults)
        state.sync()
        yield CompiledProgram(to_the_limit(graph, tokens_made(state))), {**arguments, **defaults}


def measure(name: str, engine: Any) -> Iterator[Measured]:
    """Each run of a program of the zoo that can be traced. The engine is the default one."""
    for program, how in limited(name):
        engine.flush_cache()
        with slots_used(engine) as used:
            program.run(**how).sync()
        yield Measured(program.bounds(**how), max(used))


def explain(name: str, engine: Any, limits: bool = False) -> Iterator[Explanation]:
    """Each run of a program of the zoo, as it was explained and with what it took, from an empty
    cache. limits: of one that can be traced, with generations that go on to theirs."""
    written = ((program, {**given, **how}) for program, given, how in runs_of(name))
    for program, how in limited(name) if limits else written:
        engine.flush_cache()
        before = program.explain(**how)
        engine.flush_cache()
        yield before.after(program.run(**how))
