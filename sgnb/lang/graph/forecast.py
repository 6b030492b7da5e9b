"""What each call of a graph will take: prompt tokens, those of them that the cache will have,
passes of the model; and which calls the run's end waits for."""

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
    """Of one call, over its requests, with generations that go on to their limits."""

    name: str
    location: Location | None
    stream: int
    requests: int
    prompt_tokens: int
    hit_tokens: int  # of those, in the cache when the request begins
    new_tokens: int
    forced_tokens: int  # of those, about as many as a grammar writes without a pass
    passes: int  # of the model, one after the other
    begins: int  # passes of the longest chain of calls before it
    critical: bool = False  # it is one of the longest chain


def forecast(
    graph: Graph, calls: Sequence[Rehearsed], cached: Callable[[Sequence[int]], int]
) -> list[Forecast]:
    """Of calls that were rehearsed. cached: how many leading tokens of a prompt the cache has now;
    the requests are taken to begin in the order of their nodes, and none to be evicted."""
    before = calls_before(graph, calls)
    left: list[tuple[int, ...]] = []  # what earlier requests leave in the cache
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
    """With the calls of the longest chain, from its end."""
    last = max(range(len(made)), key=lambda i: made[i].begins + made[i].passes, default=None)
    while last is not None:
        made[last] = one = replace(made[last], critical=True)
        ends = (i for i, other in enumerate(made) if before[last] >> i & 1
                and other.begins + other.passes == one.begins)  # fmt: skip
        last = next(ends, None) if one.begins else None
    return made
