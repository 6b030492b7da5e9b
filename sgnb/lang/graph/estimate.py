"""Estimated cost of a graph's run: upper bounds of the run, and prompt tokens, cache hits and model
passes per call.

A running request holds the slots of the request's tokens; tokens of finished requests are
evictable. A *part* is either a prefix shared by several requests or the private tokens of a call. A
shared part is held from the start of the first request to the end of the last request. Two parts
are never held together if the graph's edges order all calls of one part before all calls of the
other. Parts held at the same time therefore form an antichain, and the heaviest antichain is the
bound. By Dilworth's theorem, the bound equals the total weight minus the maximum matching along the
order.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...sequences import common_length
from ..location import Location
from .dry_execution import NodeRequests
from .graph import Graph

Parts = Mapping[int, int]
"""Bit set of the calls that need a part -> number of tokens of the part."""


class Bound(NamedTuple):
    """Upper bounds of a run."""

    slots: int  # KV-cache slots held at the same time, including `prefix`
    prefix: tuple[int, ...]  # token ids shared by the beginnings of all requests
    calls: int
    requests: int  # one per sample of a generation and per choice of a select
    new_tokens: int


def bound(graph: Graph, calls: Sequence[NodeRequests]) -> Bound:
    """Return the bound of a dry run of `graph` with these `calls`."""
    requests = [request for call in calls for request in call.requests]
    reusable = [request.prompt[: request.reusable] for request in requests]
    return Bound(
        slots=_heaviest(_parts(calls), earlier_calls(graph, calls)),
        prefix=_common_prefix(reusable),
        calls=len(calls),
        requests=len(requests),
        new_tokens=sum(request.new for request in requests),
    )


def earlier_calls(graph: Graph, calls: Sequence[NodeRequests]) -> list[int]:
    """Return, for each call, the bit set of calls that end before the call begins."""
    bit = {call.node.id: 1 << i for i, call in enumerate(calls)}
    earlier: dict[int, int] = {}
    for node in graph.nodes:
        earlier[node.id] = 0
        for id in node.dependency_ids:
            earlier[node.id] |= earlier[id] | bit.get(id, 0)
    return [earlier[call.node.id] for call in calls]


def _parts(calls: Sequence[NodeRequests]) -> Parts:
    """Return the private part of each call and the edges of the radix tree of reusable prompts."""
    parts: defaultdict[int, int] = defaultdict(int)
    # reusable prompt -> bit set of calls
    users_of: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for i, call in enumerate(calls):
        for request in call.requests:
            private = len(request.prompt) - request.reusable + request.new
            parts[1 << i] += private + request.recomputed
            users_of[request.prompt[: request.reusable]] |= 1 << i

    # path from the root to the last prompt: end of each edge and bit set of the edge's users
    path: list[tuple[int, int]] = [(0, 0)]
    last: tuple[int, ...] = ()
    for prompt in [*sorted(users_of), ()]:
        shared = common_length(last, prompt)
        while path[-1][0] > shared:
            end, users = path.pop()
            begin, parent_users = path[-1]
            if begin < shared:
                path.append((shared, users))
                begin = shared
            else:
                path[-1] = begin, parent_users | users
            parts[users] += end - begin
        if prompt:
            path.append((len(prompt), users_of[prompt]))
        last = prompt
    return parts


def _heaviest(parts: Parts, earlier: Sequence[int]) -> int:
    """Return the weight of the heaviest antichain. `earlier`: earlier calls of each call."""
    calls = [1 << i for i in range(len(earlier))]
    if all(done == (1 << i) - 1 for i, done in enumerate(earlier)):  # strictly sequential calls
        return max((sum(t for u, t in parts.items() if u & call) for call in calls), default=0)

    all_users = list(parts)
    done_before = []  # per part: calls that end before every call of the part begins
    for users in all_users:
        common = -1
        for call, done in zip(calls, earlier, strict=True):
            if users & call:
                common &= done
        done_before.append(common)
    later = [[j for j, done in enumerate(done_before) if not users & ~done] for users in all_users]
    weights = list(parts.values())
    return sum(weights) - _matched(weights, later)


def _matched(weights: Sequence[int], later: Sequence[Sequence[int]]) -> int:
    """Return the weight matched between parts and later parts: a maximum flow along shortest
    augmenting paths."""
    supply, demand = list(weights), list(weights)
    flow: list[dict[int, int]] = [{} for _ in weights]  # later part -> {earlier part: flow}
    for begin in range(len(weights)):
        while supply[begin] and (path := _augmenting_path(begin, later, demand, flow)):
            backward = [flow[j][i] for j, i in zip(path[1:-1:2], path[2::2], strict=True)]
            amount = min(supply[begin], demand[path[-1]], *backward)
            for i, j in zip(path[::2], path[1::2], strict=True):
                flow[j][i] = flow[j].get(i, 0) + amount
            for j, i in zip(path[1:-1:2], path[2::2], strict=True):
                flow[j][i] -= amount
            supply[begin] -= amount
            demand[path[-1]] -= amount
    return sum(weights) - sum(supply)


def _augmenting_path(
    begin: int,
    later: Sequence[Sequence[int]],
    demand: Sequence[int],
    flow: Sequence[Mapping[int, int]],
) -> list[int]:
    """Return the shortest augmenting path from `begin`, alternating between earlier and later
    parts; [] if no path exists."""
    previous: dict[int, int] = {}  # later part -> predecessor on the path
    previous_later = {begin: -1}  # earlier part -> predecessor on the path

    queue = deque([begin])
    while queue:
        i = queue.popleft()
        for j in later[i]:
            if j in previous:
                continue
            previous[j] = i
            if demand[j]:
                path = [j, i]
                while previous_later[i] >= 0:
                    j = previous_later[i]
                    i = previous[j]
                    path += [j, i]
                return path[::-1]
            for earlier, amount in flow[j].items():
                if amount and earlier not in previous_later:
                    previous_later[earlier] = j
                    queue.append(earlier)
    return []


def _common_prefix(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if not prompts:
        return ()
    first = min(prompts)
    return first[: common_length(first, max(prompts))]


class SimulatedCache:
    """Prefix cache during a dry run: an executor's cache and the tokens of earlier requests."""

    def __init__(self, cached: Callable[[Sequence[int]], int]) -> None:
        """`cached`: returns the number of leading tokens of a prompt in the executor's cache."""
        self._cached = cached
        self._earlier: list[tuple[int, ...]] = []  # sorted

    def hits(self, prompt: tuple[int, ...], reusable: int) -> tuple[int, int]:
        """Return the number of hits in the executor's cache, and of further hits in the tokens of
        earlier requests, among the first `reusable` tokens."""
        num_known = next((i for i, token in enumerate(prompt) if token < 0), len(prompt))
        cached = min(self._cached(prompt[:num_known]) if num_known else 0, reusable)

        # a neighbor in sorted order has the longest common prefix
        position = bisect(self._earlier, prompt)
        neighbors = self._earlier[max(0, position - 1) : position + 1]
        shared = max((common_length(prompt, tokens) for tokens in neighbors), default=0)
        return cached, max(0, min(shared, reusable) - cached)

    def add(self, tokens: tuple[int, ...]) -> None:
        """Add the tokens of a request."""
        insort(self._earlier, tokens)


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """Estimate of a call: sums over the requests. Assumes generations of maximum length."""

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

    @property
    def ends(self) -> int:
        """Passes on the longest chain up to the end of the call."""
        return self.begins + self.passes


def estimate_calls(
    graph: Graph, calls: Sequence[NodeRequests], cached: Callable[[Sequence[int]], int]
) -> list[CallEstimate]:
    """Estimate the cost of each call.

    Args:
        graph: The graph of the dry run.
        calls: The calls; requests are assumed to start in node order, without eviction.
        cached: Returns the number of leading tokens of a prompt in the cache.
    """
    earlier = earlier_calls(graph, calls)
    cache = SimulatedCache(cached)
    estimates: list[CallEstimate] = []
    for call, done in zip(calls, earlier, strict=True):
        ends = [estimate.ends for i, estimate in enumerate(estimates) if done >> i & 1]
        hits = 0
        for request in call.requests:
            hits += sum(cache.hits(request.prompt, request.reusable))
            cache.add((*request.prompt, *request.answer[:-1]))

        requests, node = call.requests, call.node
        estimate = CallEstimate(
            name=node.assignments[0][0] if node.assignments else "",
            location=node.location,
            stream=node.stream,
            requests=len(requests),
            prompt_tokens=sum(len(request.prompt) for request in requests),
            hit_tokens=hits,
            new_tokens=sum(request.new for request in requests),
            forced_tokens=sum(request.forced for request in requests),
            passes=max((max(1, r.new - r.forced) for r in requests), default=0),
            begins=max(ends, default=0),
        )
        estimates.append(estimate)
    return _with_critical_path(estimates, earlier)


def _with_critical_path(
    estimates: list[CallEstimate], earlier: Sequence[int]
) -> list[CallEstimate]:
    """Mark the calls of the critical path, starting with the last call."""
    last = max(range(len(estimates)), key=lambda i: estimates[i].ends, default=None)
    while last is not None:
        estimates[last] = call = replace(estimates[last], critical=True)
        candidates = (
            i
            for i, other in enumerate(estimates)
            if earlier[last] >> i & 1 and other.ends == call.begins
        )
        last = next(candidates, None) if call.begins else None
    return estimates
