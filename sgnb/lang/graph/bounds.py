"""Upper bounds of a graph's run, computed before the run: KV slots, calls and new tokens.

A running request holds the slots of its tokens; tokens of finished requests are evictable. A *part*
is either a prefix shared by several requests or the private tokens of a call. A shared part is held
from the start of its first request to the end of its last request. Two parts are never held
together if the graph's edges order all calls of one part before all calls of the other. Parts held
at the same time therefore form an antichain, and the heaviest antichain is the bound. By Dilworth's
theorem, the bound equals the total weight minus the maximum matching along the order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .graph import Graph
from .rehearsal import Rehearsed
from .tokens import as_bytes, common, common_tokens

Parts = Mapping[int, int]
"""Bit set of the calls that need a part -> number of tokens of the part."""


class Bound(NamedTuple):
    """Upper bounds of a run."""

    slots: int  # KV-cache slots held at the same time, including `prefix`
    prefix: tuple[int, ...]  # token ids shared by the beginnings of all requests
    calls: int
    requests: int  # one per sample of a generation and per choice of a select
    new_tokens: int


def bound(graph: Graph, calls: Sequence[Rehearsed]) -> Bound:
    """Return the bound of a rehearsed run of `graph` with these `calls`."""
    requests = [request for call in calls for request in call.requests]
    common = [request.prompt[: request.reusable] for request in requests]
    return Bound(
        _heaviest(_parts(calls), calls_before(graph, calls)),
        _common_prefix(common),
        len(calls),
        len(requests),
        sum(request.new for request in requests),
    )


def calls_before(graph: Graph, calls: Sequence[Rehearsed]) -> list[int]:
    """Return, for each call, the bit set of calls that end before the call begins."""
    bit = {call.node.id: 1 << i for i, call in enumerate(calls)}
    known: dict[int, int] = {}
    for node in graph.nodes:
        known[node.id] = 0
        for id in node.after:
            known[node.id] |= known[id] | bit.get(id, 0)
    return [known[call.node.id] for call in calls]


def _parts(calls: Sequence[Rehearsed]) -> Parts:
    """Return the private part of each call and the edges of the radix tree of reusable prompts."""
    parts: defaultdict[int, int] = defaultdict(int)
    paths: defaultdict[bytes, int] = defaultdict(int)
    for i, call in enumerate(calls):
        for request in call.requests:
            own = len(request.prompt) - request.reusable + request.new
            parts[1 << i] += own + request.again
            paths[as_bytes(request.prompt[: request.reusable])] |= 1 << i

    # path to the last prompt: end of each edge and bit set of its users
    way: list[tuple[int, int]] = [(0, 0)]
    last = b""
    for path in [*sorted(paths), b""]:
        shared = common(last, path)
        while way[-1][0] > shared:
            end, users = way.pop()
            begin, above = way[-1]
            if begin < shared:
                way.append((shared, users))
                begin = shared
            else:
                way[-1] = begin, above | users
            parts[users] += end - begin
        if path:
            way.append((len(path) // 4, paths[path]))
        last = path
    return parts


def _heaviest(parts: Parts, before: Sequence[int]) -> int:
    """Return the weight of the heaviest antichain."""
    calls = [1 << i for i in range(len(before))]
    if all(done == (1 << i) - 1 for i, done in enumerate(before)):  # strictly sequential calls
        return max((sum(t for u, t in parts.items() if u & call) for call in calls), default=0)
    users = list(parts)
    earlier = []  # per part: calls that end before every call of the part begins
    for own in users:
        common = -1
        for call, done in zip(calls, before, strict=True):
            if own & call:
                common &= done
        earlier.append(common)
    later = [[j for j, done in enumerate(earlier) if not own & ~done] for own in users]
    weights = list(parts.values())
    return sum(weights) - _matched(weights, later)


def _matched(weights: Sequence[int], later: Sequence[Sequence[int]]) -> int:
    """Return the weight matched between parts and later parts: a maximum flow along shortest
    augmenting paths."""
    left, right = list(weights), list(weights)
    flow: list[dict[int, int]] = [{} for _ in weights]  # later part -> {earlier part: flow}
    for begin in range(len(weights)):
        while left[begin] and (way := _way(begin, later, right, flow)):
            ends = [flow[j][i] for j, i in zip(way[1:-1:2], way[2::2], strict=True)]
            amount = min(left[begin], right[way[-1]], *ends)
            for i, j in zip(way[::2], way[1::2], strict=True):
                flow[j][i] = flow[j].get(i, 0) + amount
            for j, i in zip(way[1:-1:2], way[2::2], strict=True):
                flow[j][i] -= amount
            left[begin] -= amount
            right[way[-1]] -= amount
    return sum(weights) - sum(left)


def _way(
    begin: int,
    later: Sequence[Sequence[int]],
    right: Sequence[int],
    flow: Sequence[Mapping[int, int]],
) -> list[int]:
    """Return the shortest augmenting path from `begin`, alternating between earlier and later
    parts; [] if no path exists."""
    came: dict[int, int] = {}  # later part -> predecessor on the path
    back = {begin: -1}
    todo = deque([begin])
    while todo:
        i = todo.popleft()
        for j in later[i]:
            if j in came:
                continue
            came[j] = i
            if right[j]:
                way = [j, i]
                while back[i] >= 0:
                    j = back[i]
                    i = came[j]
                    way += [j, i]
                return way[::-1]
            for other, amount in flow[j].items():
                if amount and other not in back:
                    back[other] = j
                    todo.append(other)
    return []


def _common_prefix(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if not prompts:
        return ()
    first = min(prompts)
    return first[: common_tokens(first, max(prompts))]
