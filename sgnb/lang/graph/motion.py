"""Code motion: move constant blocks of a prompt before blocks with arguments. A longer constant
prefix is computed once for all runs (arXiv 2312.07104).

The rule moves only blocks independent by their words (`blocks.py`, `wording.py`); alternatively a
model chooses the order (`asked.py`). The texts of the blocks never change.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...errors import TraceError, shown
from ..executor import Executor
from ..ir import RoleBegin, RoleEnd, UseTools
from ..location import Location
from .asked import ask_for_order, read_order
from .blocks import FIRST_HOLE, Block, blocks
from .graph import Graph
from .holes import Argument, Variable
from .nodes import Called, Constant, Node
from .prefix import constant_prefix
from .wording import why_it_stays


@dataclass(frozen=True)
class Motion:
    """A graph with a longer constant prefix, and a description of the change."""

    graph: Graph
    before: str  # reordered text in the old order, with {holes}
    after: str
    tokens_before: int  # length of the constant prefix
    tokens_after: int
    stays: tuple[str, ...]  # unmoved blocks with reasons

    @property
    def gained(self) -> int:
        """Number of tokens gained by the constant prefix."""
        return self.tokens_after - self.tokens_before

    @property
    def diff(self) -> str:
        """Unified diff of `before` and `after`."""
        texts = self.before.splitlines(), self.after.splitlines()
        return "\n".join(difflib.unified_diff(*texts, "before", "after", lineterm=""))

    def __str__(self) -> str:
        counts = f"constant prefix: {self.tokens_before} -> {self.tokens_after} tokens"
        return "\n".join([self.diff, counts, *self.stays])


def moved(graph: Graph, executor: Executor, by: Executor | None = None) -> Motion:
    """Move constant blocks of `graph` ahead, by rule or in the order chosen by the model of `by`.

    Counts tokens with `executor`. Raises TraceError with the line if no block moves.
    """
    stretch = _Stretch(graph)
    order, stays = _by_rule(stretch) if by is None else (_by_model(stretch, by), {})
    spans = stretch.in_order(order)
    made = _rebuilt(graph, stretch.nodes, [node for span in spans for node in stretch.cut(*span)])
    before, after = (len(executor.encode(constant_prefix(one, executor))) for one in (graph, made))
    told = tuple(f"{stretch.quoted(block)} stays: {why}" for block, why in stays.items())
    if after <= before:
        why = "; ".join(told or stretch.bonds())
        raise stretch.refusal(why, next(iter(stays), stretch.blocks[0]))
    text = "".join([stretch.shown(*span) for span in spans])
    return Motion(made, stretch.shown(), text, before, after, told)


class _Stretch:
    """The text around a graph's first hole, within a role and before the first generation."""

    def __init__(self, graph: Graph) -> None:
        self.title = graph.title
        own = [node for node in graph.nodes if node.stream == 0]
        first = next((i for i, node in enumerate(own) if _is_hole(node)), 0)
        begin = end = first
        while _is_text(own[begin - 1]):
            begin -= 1
        while end < len(own) and _is_text(own[end]):
            end += 1
        self.nodes = own[begin:end]
        if not first:
            raise _refusal(own[1].location, self.title, "it appends no argument itself")
        for node in own[:begin]:
            if not isinstance(node.what, Constant | RoleBegin | RoleEnd | UseTools | Called):
                why = f"{node.label()} comes before the first argument"
                raise _refusal(node.location, self.title, why)
        self.texts = [
            node.what.text if isinstance(node.what, Constant) else chr(FIRST_HOLE + i)
            for i, node in enumerate(self.nodes)
        ]
        self.text = "".join(self.texts)
        self.blocks = blocks(self.text)
        in_role = end < len(own) and isinstance(own[end].what, RoleEnd)
        self.has_cue = not in_role or self.blocks[-1].text.endswith(":")

    def refusal(self, why: str, place: Block) -> TraceError:
        return _refusal(next(self.cut(place.begin, place.end)).location, self.title, why)

    def bonds(self) -> list[str]:
        """Return the reasons for keeping constant text next to arguments."""
        told = [f"{self.quoted(block)}: {block.why}" for block in self.blocks if block.why]
        return told or ["no constant text would come before an argument"]

    def quoted(self, block: Block) -> str:
        return shown(self.shown(block.begin, block.end))

    def shown(self, begin: int = 0, end: int | None = None) -> str:
        """Return a part of the text, with {holes}."""
        pairs = zip(self.texts, self.nodes, strict=True)
        names = {ord(text): str(node.what) for text, node in pairs if _is_hole(node)}
        return self.text[begin:end].translate(names)

    def in_order(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return the spans of the text with the blocks in `order`. The separator of two blocks is
        the text before the later block of the old order."""
        ends = [0, *(block.end for block in self.blocks)]
        begins = [*(block.begin for block in self.blocks), len(self.text)]
        before = list(zip(ends, begins, strict=True))
        spans = [before[0]]
        for at, i in enumerate(order):
            spans += [before[max(order[at - 1], i)]] * (at > 0)
            spans.append((self.blocks[i].begin, self.blocks[i].end))
        return [*spans, before[-1]]

    def cut(self, begin: int, end: int) -> Iterator[Node]:
        """Yield the nodes of a span; nodes at the ends are truncated."""
        at = 0
        for node, text in zip(self.nodes, self.texts, strict=True):
            inside = text[max(begin - at, 0) : max(end - at, 0)]
            if inside:
                yield node if inside == text else replace(node, what=Constant(inside))
            at += len(text)


def _by_rule(stretch: _Stretch) -> tuple[list[int], dict[Block, str]]:
    """Return the order of blocks and the reasons for unmoved blocks. Stops at the first immovable
    block."""
    all_blocks = stretch.blocks
    first = next(i for i, block in enumerate(all_blocks) if not block.is_constant)
    ahead: list[int] = []
    stays: dict[Block, str] = {}
    for i, block in enumerate(all_blocks):
        if i < first or not block.is_constant:
            continue
        if i == len(all_blocks) - 1 and stretch.has_cue:
            why = "it leads to what the model writes"
        elif stays:
            why = "it comes after what stays"
        else:
            why = why_it_stays(all_blocks, i, stretch.has_cue)
        if why:
            stays[block] = why
        else:
            ahead.append(i)
    rest = [i for i in range(first, len(all_blocks)) if i not in ahead]
    return [*range(first), *ahead, *rest], stays


def _by_model(stretch: _Stretch, by: Executor) -> list[int]:
    """Return the order chosen by a model. Raises TraceError if the order loses a block or moves the
    cue."""
    texts = [stretch.shown(block.begin, block.end) for block in stretch.blocks]
    answer = ask_for_order(by, texts, stretch.nodes[0].location)
    order, why = read_order(answer, len(texts), stretch.has_cue)
    if not why and order == sorted(order):
        why = "the model keeps the order"
    if why:
        raise stretch.refusal(why, stretch.blocks[0])
    return order


def _rebuilt(graph: Graph, old: Sequence[Node], new: Sequence[Node]) -> Graph:
    """Replace the `old` text nodes of a stream by `new` nodes."""
    made: list[Node] = []
    now: dict[int, Node] = {}  # old id -> new node
    for node in graph.nodes:
        if node not in old:
            now[node.id] = _added(made, node, [now[id] for id in node.after])
        elif node is old[-1]:
            last = now[old[0].after[0]]
            for one in new:
                needed = [now[id] for id in one.after[1:]]
                goes_on = last.kind == one.kind and last.location == one.location
                joined = goes_on and _is_text(last)
                last = _added(made, replace(one, joined=joined), [last, *needed])
            now |= dict.fromkeys([one.id for one in old], last)
    return replace(graph, nodes=tuple(made))


def _added(made: list[Node], node: Node, before: Sequence[Node]) -> Node:
    """Append a copy of `node` to `made`."""
    after = tuple(one.id for one in before)
    made.append(replace(node, id=len(made), after=after, before=tuple(before)))
    return made[-1]


def _is_hole(node: Node) -> bool:
    return isinstance(node.what, Argument | Variable)


def _is_text(node: Node) -> bool:
    return isinstance(node.what, Constant | Argument | Variable)


def _refusal(location: Location, title: str, why: str) -> TraceError:
    message = f"{location}: {title} stays as it is: {why}"
    return TraceError(message, "change the prompt by hand, or leave out the motion")
