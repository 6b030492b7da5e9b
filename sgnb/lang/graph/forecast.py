"""Forecast of each call of a graph: prompt tokens, cache hits, model passes, critical path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..location import Location
from .bounds import calls_before
from .graph import Graph
from .rehearsal import Rehearsed, Requested
from .tokens import common_tokens


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a call: sums over its requests. Assumes generations of maximum length."""

    name: str
    location: Location | None
    stream: int
    requests: int
    prompt_tokens: int
    hit_tokens: int  # prompt tokens in the cache when the request begins
    new_tokens: int
    forced_tokens: int  # estimated new tokens that a grammar forces without a model pass
    passes: int  # sequential model passes
    begins: int  # passes on the longest chain of earlier calls
    critical: bool = False  # on the critical path


def forecast(
    graph: Graph, calls: Sequence[Rehearsed], cached: Callable[[Sequence[int]], int]
) -> list[Forecast]:
    """Forecast the cost of rehearsed calls.

    Args:
        graph: The rehearsed graph.
        calls: The calls; requests are assumed to start in node order, without eviction.
        cached: Returns the number of leading tokens of a prompt in the cache.
    """
    before = calls_before(graph, calls)
    left: list[tuple[int, ...]] = []  # prompts left in the cache by earlier requests
    made: list[Forecast] = []
    for call, earlier in zip(calls, before, strict=True):
        begins = [one.begins + one.passes for i, one in enumerate(made) if earlier >> i & 1]
        hits = 0
        for request in call.requests:
            hits += _hits(request, left, cached)
            left.append((*request.prompt, *request.made[:-1]))
        requests, node = call.requests, call.node
        made.append(
            Forecast(
                node.sets[0][0] if node.sets else "",
                node.location,
                node.stream,
                len(requests),
                sum(len(request.prompt) for request in requests),
                hits,
                sum(request.new for request in requests),
                sum(request.forced for request in requests),
                max((max(1, r.new - r.forced) for r in requests), default=0),
                max(begins, default=0),
            )
        )
    return _with_critical(made, before)


def _hits(
    request: Requested,
    left: Sequence[tuple[int, ...]],
    cached: Callable[[Sequence[int]], int],
) -> int:
    prompt = request.prompt
    known = next((i for i, token in enumerate(prompt) if token < 0), len(prompt))
    found = cached(prompt[:known]) if known else 0
    return min(request.reusable, max([found, *(common_tokens(prompt, one) for one in left)]))


def _with_critical(made: list[Forecast], before: Sequence[int]) -> list[Forecast]:
    """Mark the calls of the critical path, starting from its end."""
    last = max(range(len(made)), key=lambda i: made[i].begins + made[i].passes, default=None)
    while last is not None:
        made[last] = one = replace(made[last], critical=True)
        ends = (i for i, other in enumerate(made) if before[last] >> i & 1
                and other.begins + other.passes == one.begins)  # fmt: skip
        last = next(ends, None) if one.begins else None
    return made
