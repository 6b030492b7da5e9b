"""Constant prefix of a graph: the beginning shared by all runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Any, NoReturn

from ...segment import Segment
from ..core.run import Run
from ..executor import Executor
from ..ir import RoleBegin, RoleEnd, UseTools
from .graph import Graph
from .no_executor import NoExecutor
from .nodes import Called, Constant, Node
from .replay import Plan


def constant_prefix(graph: Graph, executor: Executor) -> tuple[Segment, ...]:
    """Return the prompt of `executor` before the graph's first argument, generation or fork."""
    quiet = NoExecutor()
    quiet.chat, quiet.special_tokens = executor.chat, executor.special_tokens
    quiet.tokenizer_id = executor.tokenizer_id
    own = graph.called.run
    assert own is not None
    state = Run(quiet, graph.title, special_tokens=own.special_tokens, traced=True).state()
    head, *nodes = [node for node in graph.nodes if node.stream == 0]
    first = [one for one in takewhile(_is_constant, nodes) if not isinstance(one.what, Called)]
    Plan(replace(graph, nodes=(head, *first))).run(state, {}, _none)
    return state._branch.prompt()[1]


def cache_prefix(graph: Graph, executor: Executor) -> int:
    """Prefill the constant prefix of `graph`. Returns the number of tokens; 0 without a prefix or
    without a cache in `executor`."""
    prefix, fill = constant_prefix(graph, executor), getattr(executor, "fill_cache", None)
    if not prefix or fill is None:
        return 0
    tokens = executor.encode(prefix)
    fill([tokens])
    return len(tokens)


def _is_constant(node: Node) -> bool:
    return isinstance(node.what, Constant | RoleBegin | RoleEnd | UseTools | Called)


def _none(backend: Any) -> NoReturn:
    raise AssertionError("a prefix runs no other program")
