"""Explains a program before it runs: by its graph, or where it has none by a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import TraceError
from .core.state import ProgramState
from .executor import Executor
from .graph.bounds import bound
from .graph.explanation import Explanation
from .graph.forecast import Forecast, forecast
from .graph.graph import Graph
from .graph.rehearsal import Rehearsal


def explain_graph(
    graph: Graph, executor: Executor, arguments: Mapping[str, Any], defaults: Any
) -> Explanation:
    """Of a run with these arguments; ProgramError for a graph whose calls nobody knows."""
    calls = Rehearsal(graph, executor).run(arguments, defaults)
    cached: Callable[[Sequence[int]], int] = getattr(executor, "cached_length", lambda _: 0)
    return Explanation(graph.title, forecast(graph, calls, cached), bound(graph, calls))


def explain_dry(
    title: str, executor: Executor, run: Callable[[Executor], ProgramState], why: TraceError
) -> Explanation:
    """Of a program that has no graph, and `why` not: its code runs on a dry executor, up to an
    error. TraceError for an `executor` that has none."""
    make = getattr(executor, "dry_executor", None)
    if make is None:
        raise why
    dry, note = make(), f"no graph, so no bound: {why.message}"
    try:
        run(dry).sync()
    except Exception as error:
        note += f"; its code ended on a stand-in: {type(error).__name__}: {error}"
    finally:
        dry.close()
    calls: list[Forecast] = []
    for one in dry.calls:
        made = Forecast(
            one.name,
            one.location,
            0,
            one.requests,
            one.prompt_tokens,
            one.cached_tokens + one.shared_tokens,
            one.new_tokens * one.samples,
            0,
            max(1, one.new_tokens),
            sum(call.passes for call in calls),
        )
        calls.append(made)
    return Explanation(title, calls, None, note=note)
