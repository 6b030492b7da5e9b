"""How fast a workload could be: counted bytes and operations over the speed of memory and of the
tensor cores, as a large copy and a large product reach them. Weights that are only read can be some
percent faster.

Every step takes the longer of the two times. A prefix that calls share is computed once and, while
they decode, read once a step, as far back as a layer's window goes. Calls that need nothing of each
other run in the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sgnb.sequences import common_length

from .shapes import LLAMA_8B, Shape
from .workloads import Call, Workload

H200_BYTES, H200_OPERATIONS = 4.3e12, 670e12
"""A second, on one H200, measured: a large copy (read and written), and large bf16 products for
seconds on end, with the clock that the chip's power allows."""


class Edge(NamedTuple):
    """Tokens of a tree of sequences that the same sequences go through."""

    begin: int  # position of the first token
    end: int  # position after the last
    shortest: int  # length of the shortest of the sequences


def limit_seconds(
    workload: Workload,
    shape: Shape = LLAMA_8B,
    speed: float = H200_BYTES,
    operations: float = H200_OPERATIONS,
) -> float | None:
    """Return the seconds of the workload at these speeds; None if a schema makes the length
    unknown."""
    if workload.constrained:
        return None
    total, done = 0.0, []
    sequences = _sequences(workload.calls)
    for level in _levels(workload):
        calls = [workload.calls[number] for number in level]
        prompts = [
            sequences[number][: len(sequences[number]) - workload.calls[number].new]
            for number in level
        ]
        tokens_before, pairs_before = _count(_edges(done), shape)
        tokens, pairs = _count(_edges(done + prompts), shape)
        scored = [
            len(p) - c.score_from
            for p, c in zip(prompts, calls, strict=True)
            if c.score_from is not None
        ]
        logits = sum(scored) + len(calls) - len(scored)
        new = tokens - tokens_before
        work = shape.operations(new, pairs - pairs_before, logits)
        total += max(work / operations, shape.step_bytes(new) / speed)
        total += _decoding(calls, prompts, shape, speed, operations)
        done += [
            sequences[number][:-1] if workload.calls[number].new else sequences[number]
            for number in level
        ]
    return total


def _decoding(
    calls: Sequence[Call],
    prompts: Sequence[list[int]],
    shape: Shape,
    speed: float,
    operations: float,
) -> float:
    """Return the seconds of all steps after the step of the first tokens."""
    total = 0.0
    for new in sorted({call.new for call in calls if call.new > 1}):
        shorter = max((call.new for call in calls if call.new < new), default=1)
        rows = [prompt for call, prompt in zip(calls, prompts, strict=True) if call.new >= new]
        edges = _edges(rows)
        weights = shape.step_bytes(len(rows))
        for step in range(max(shorter, 1), new):
            read = _tokens_read(edges, len(rows), step, shape) * shape.kv_bytes
            pairs = sum(shape.pairs(len(row) + step - 1, len(row) + step) for row in rows)
            work = shape.operations(len(rows), pairs, len(rows))
            total += max((weights + read) / speed, work / operations)
    return total


def _tokens_read(edges: Sequence[Edge], rows: int, step: int, shape: Shape) -> float:
    """Tokens whose keys and values are read, summed over layers, when `step` tokens follow each of
    the rows' prompts: those of the prompts' tree that any row's window reaches, and each
    row's own."""
    total = 0.0
    for layers, window in shape.windows:
        firsts = (max(edge.begin, edge.shortest + step - window) for edge in edges)
        prompts = sum(max(0, edge.end - first) for edge, first in zip(edges, firsts, strict=True))
        total += layers * (prompts + rows * min(step, window))
    return total


def _levels(workload: Workload) -> list[list[int]]:
    """Calls that can run at the same time, in order."""
    if workload.one_at_a_time:
        return [[number] for number in range(len(workload.calls))]
    depths: list[int] = []
    for call in workload.calls:
        depths.append(1 + max((depths[need] for need in call.needs), default=-1))
    return [
        [n for n, depth in enumerate(depths) if depth == level] for level in range(max(depths) + 1)
    ]


def _sequences(calls: Sequence[Call]) -> list[list[int]]:
    """Prompt and output of every call; what is not known before has negative names of its own."""
    outputs: list[list[int]] = []
    sequences: list[list[int]] = []
    used = 0
    for call in calls:
        begin = [] if call.context is None else sequences[call.context]
        prompt = begin + [name for other in call.joins for name in outputs[other]] + call.tokens
        outputs.append([-1 - used - i for i in range(call.new)])
        used += call.new
        sequences.append(prompt + outputs[-1])
    return sequences


def _count(edges: Sequence[Edge], shape: Shape) -> tuple[int, float]:
    """Tokens of the tree, and the keys that they see."""
    tokens = sum(edge.end - edge.begin for edge in edges)
    return tokens, sum(shape.pairs(edge.begin, edge.end) for edge in edges)


def _edges(sequences: Iterable[list[int]]) -> list[Edge]:
    """The tree of all sequences: each in turn, sorted, leaves the path of the one before where they
    differ."""
    edges: list[Edge] = []
    path: list[Edge] = []
    before: list[int] = []
    for sequence in sorted(sequences):
        common = common_length(sequence, before)
        edges += _cut(path, common)
        path.append(Edge(common, len(sequence), len(sequence)))
        before = sequence
    return edges + _cut(path, 0)


def _cut(path: list[Edge], depth: int) -> list[Edge]:
    """Remove and return the path from `depth` on. The new last edge keeps the length of the
    shortest continued sequence."""
    taken: list[Edge] = []
    while path and path[-1].end > depth:
        begin, end, shortest = path.pop()
        taken.append(Edge(max(begin, depth), end, shortest))
        if begin < depth:
            path.append(Edge(begin, depth, shortest))
        elif path:
            path[-1] = path[-1]._replace(shortest=min(path[-1].shortest, shortest))
    return taken
