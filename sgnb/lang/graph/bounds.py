"""What a run of a graph takes at most, known before it runs: KV slots at any one time, calls, new
tokens.

A slot is held while a request that needs its token runs: what has ended stays in the cache as long
as there is room for it. Tokens that several requests begin with are one *part*, held from the
beginning of the first of these to the end of the last; what a request has for itself is another. Of
two parts that are never held at once, all calls of the one end before any of the other begins: the
graph's edges say so. What is held at a time is therefore an antichain of parts, and the heaviest is
the bound. By Dilworth's theorem that is the weight of all parts less what can be matched along the
order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .graph import Graph
from .rehearsal import Rehearsed
from .tokens import as_bytes, common, common_tokens

Parts = Mapping[int, int]
"""The calls that need a part, as bits -> its tokens."""


class Bound(NamedTuple):
    """The most that a run takes."""

    slots: int  # of the KV cache at one time, the `prefix` among them
    prefix: tuple[int, ...]  # the tokens that all of its requests begin with
    calls: int
    requests: int  # one for each sample of a generation, and for each choice of a select
    new_tokens: int


def bound(graph: Graph, calls: Sequence[Rehearsed]) -> Bound:
    """Of a run of the graph that was rehearsed."""
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
    """For each call those that end before it begins, as bits."""
    bit = {call.node.id: 1 << i for i, call in enumerate(calls)}
    known: dict[int, int] = {}
    for node in graph.nodes:
        known[node.id] = 0
        for id in node.after:
            known[node.id] |= known[id] | bit.get(id, 0)
    return [known[call.node.id] for call in calls]


def _parts(calls: Sequence[Rehearsed]) -> Parts:
    """What each call computes for itself, and the edges of the tree of what the cache may give."""
    parts: defaultdict[int, int] = defaultdict(int)
    paths: defaultdict[bytes, int] = defaultdict(int)
    for i, call in enumerate(calls):
        for request in call.requests:
            own = len(request.prompt) - request.reusable + request.new
            parts[1 << i] += own + request.again
            paths[as_bytes(request.prompt[: request.reusable])] |= 1 << i

    way: list[tuple[int, int]] = [(0, 0)]  # to the last path: ends of edges, and who needs them
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
    """The weight of the heaviest antichain."""
    calls = [1 << i for i in range(len(before))]
    if all(done == (1 << i) - 1 for i, done in enumerate(before)):  # one after the other
        return max((sum(t for u, t in parts.items() if u & call) for call in calls), default=0)
    users = list(parts)
    earlier = []  # for each part the calls that end before any of its own begins
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
    """How much of the weights can be matched, each to as much of a later one's: a maximal flow,
    along shortest ways."""
    left, right = list(weights), list(weights)
    flow: list[dict[int, int]] = [{} for _ in weights]  # to a part, from which others
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
    """From a part to a later one, back to one that is matched to that, and so on to one of which
    something is left; [] where there is none."""
    came: dict[int, int] = {}  # to a part as a later one, from which
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
