"""Constant prefix of a graph, equal in all runs: computed ahead, and extended by code motion.

Code motion moves constant paragraphs of a prompt before paragraphs with arguments (arXiv
2312.07104). The user names the paragraphs, or a model chooses the order. The text of a paragraph
never changes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple, NoReturn

from ...errors import TraceError, shown
from ...segment import Segment
from ..core.run import Run
from ..executor import Executor, check_modalities
from ..ir import Gen, MediaExpr, RoleBegin, RoleEnd, UseTools, role
from ..location import Location
from .dry_execution import NoExecutor
from .graph import Graph
from .nodes import CallNode, Constant, Node
from .placeholders import Argument, Variable
from .replay import Plan

_QUESTION = """\
Here is the template of a prompt, cut into numbered blocks. Names in braces are arguments. Each run
has different values for the arguments. Put blocks without arguments before blocks with arguments if
the meaning of the prompt stays the same. Keep a block next to the block that it refers to.

{blocks}

Answer with the numbers of all blocks in the new order, separated by spaces, and nothing else."""
_TOKENS_PER_NUMBER = 6

_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n|\s*\Z))*")
_FIRST_PLACEHOLDER = 0x100000
"""First of the private characters that stand for placeholders in a text."""
_PLACEHOLDER = re.compile(f"[{chr(_FIRST_PLACEHOLDER)}-{chr(0x10FFEF)}]")


@dataclass(frozen=True)
class Motion:
    """A graph with a longer constant prefix, and a description of the change."""

    graph: Graph
    before: str  # text in the old order, with {placeholders}
    after: str  # text in the new order
    tokens_before: int  # length of the constant prefix
    tokens_after: int

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
        return f"{self.diff}\n{counts}"


def move_constants(graph: Graph, executor: Executor, by: Executor | Sequence[str]) -> Motion:
    """Move constant paragraphs of `graph` ahead.

    Args:
        graph: The graph of a program.
        executor: Counts the tokens of the constant prefix.
        by: The first words of the paragraphs to move, or the executor of a model that chooses the
            order of all paragraphs.

    Raises:
        TraceError: The order is not valid, or the constant prefix does not grow.
    """
    prompt = _PromptText(graph)
    order = _marked_order(prompt, by) if isinstance(by, Sequence) else _model_order(prompt, by)
    spans = prompt.reordered(order)
    nodes = [node for span in spans for node in prompt.cut(*span)]
    reordered = _with_nodes(graph, prompt.nodes, nodes)

    prefixes = [constant_prefix(version, executor) for version in (graph, reordered)]
    old_tokens, new_tokens = (len(executor.encode(prefix)) for prefix in prefixes)
    if new_tokens <= old_tokens:
        raise prompt.refusal("the constant prefix would not become longer")
    return Motion(
        graph=reordered,
        before=prompt.readable(),
        after="".join([prompt.readable(*span) for span in spans]),
        tokens_before=old_tokens,
        tokens_after=new_tokens,
    )


def constant_prefix(graph: Graph, executor: Executor) -> tuple[Segment, ...]:
    """Return the prompt of `executor` before the graph's first argument, generation or fork."""
    quiet = NoExecutor()
    quiet.chat, quiet.special_tokens = executor.chat, executor.special_tokens
    quiet.tokenizer_id = executor.tokenizer_id
    state = Run(
        quiet, graph.title, special_tokens=graph.settings.special_tokens, traced=True
    ).state()
    call, *nodes = [node for node in graph.nodes if node.stream == 0]
    constants = takewhile(_is_constant, nodes)
    prefix = [node for node in constants if not isinstance(node.op, CallNode)]
    Plan(replace(graph, nodes=(call, *prefix))).run(state, {}, _no_executor)
    return state._branch.prompt()[1]


def cache_prefix(graph: Graph, executor: Executor) -> int:
    """Prefill the constant prefix of `graph`. Returns the number of tokens; 0 without a prefix or
    without a cache in `executor`."""
    prefix, fill = constant_prefix(graph, executor), getattr(executor, "fill_cache", None)
    if not prefix or fill is None:
        return 0
    kinds = {segment.item.kind for segment in prefix if segment.kind == "media"}
    check_modalities(executor, kinds, f"the prefix of {graph.title}")
    tokens = executor.encode(prefix)
    fill([tokens])
    return len(tokens)


class _Paragraph(NamedTuple):
    begin: int
    end: int
    is_constant: bool


class _PromptText:
    """Text around a graph's first placeholder, within a role and before the first generation."""

    def __init__(self, graph: Graph) -> None:
        self.title = graph.title
        nodes = [node for node in graph.nodes if node.stream == 0]
        begin = end = next((i for i, node in enumerate(nodes) if _is_placeholder(node)), 0)
        if not end:
            raise _refusal(nodes[1].location, self.title, "it appends no argument itself")
        while _is_text(nodes[begin - 1]):
            begin -= 1
        while end < len(nodes) and _is_text(nodes[end]):
            end += 1
        for node in nodes[:begin]:
            if not _is_constant(node):
                reason = f"{node.label()} comes before the first argument"
                raise _refusal(node.location, self.title, reason)

        self.nodes = nodes[begin:end]
        self._texts = [
            node.op.text if isinstance(node.op, Constant) else chr(_FIRST_PLACEHOLDER + i)
            for i, node in enumerate(self.nodes)
        ]
        self._text = "".join(self._texts)
        matches = _PARAGRAPH.finditer(self._text)
        self.paragraphs = [
            _Paragraph(m.start(), m.start() + len(m[0].rstrip()), not _PLACEHOLDER.search(m[0]))
            for m in matches
        ]
        # The model continues the last paragraph, unless the paragraph ends a role.
        ends_role = end < len(nodes) and isinstance(nodes[end].op, RoleEnd)
        self.last_is_fixed = not ends_role or self._text.rstrip().endswith(":")

    def refusal(self, reason: str) -> TraceError:
        """Return an error with the location of the text."""
        return _refusal(self.nodes[0].location, self.title, reason)

    def readable(self, begin: int = 0, end: int | None = None) -> str:
        """Return a part of the text, with {placeholders}."""
        pairs = zip(self._texts, self.nodes, strict=True)
        names = {ord(text): str(node.op) for text, node in pairs if _is_placeholder(node)}
        return self._text[begin:end].translate(names)

    def reordered(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return the spans of the text with the paragraphs in `order`. Two neighbors keep the
        separator before the later paragraph of the old order."""
        count = len(self.paragraphs)
        if sorted(order) != list(range(count)):
            numbers = " ".join(str(i + 1) for i in order)
            reason = f"the order {shown(numbers)} does not have each of {count} blocks once"
            raise self.refusal(reason)
        if self.last_is_fixed and order[-1] != count - 1:
            raise self.refusal("the last block must stay last: the model continues its text")

        ends = [0, *(paragraph.end for paragraph in self.paragraphs)]
        begins = [*(paragraph.begin for paragraph in self.paragraphs), len(self._text)]
        separators = list(zip(ends, begins, strict=True))
        spans = [separators[0]]
        for position, i in enumerate(order):
            if position:
                spans.append(separators[max(order[position - 1], i)])
            spans.append((self.paragraphs[i].begin, self.paragraphs[i].end))
        return [*spans, separators[-1]]

    def cut(self, begin: int, end: int) -> Iterator[Node]:
        """Yield the nodes of a span; nodes at the ends are truncated."""
        offset = 0
        for node, text in zip(self.nodes, self._texts, strict=True):
            inside = text[max(begin - offset, 0) : max(end - offset, 0)]
            if inside:
                yield node if inside == text else replace(node, op=Constant(inside))
            offset += len(text)


def _marked_order(prompt: _PromptText, marks: Sequence[str]) -> list[int]:
    """Return the order with the paragraphs that begin with `marks` before the first argument."""
    paragraphs = prompt.paragraphs
    texts = [prompt.readable(paragraph.begin, paragraph.end) for paragraph in paragraphs]
    moved = set()
    for mark in [marks] if isinstance(marks, str) else marks:
        matches = [i for i, text in enumerate(texts) if text.startswith(mark)]
        if len(matches) != 1 or not paragraphs[matches[0]].is_constant:
            raise prompt.refusal(
                f"{shown(mark)} does not begin exactly one block without arguments"
            )
        moved.add(matches[0])
    first = next(i for i, paragraph in enumerate(paragraphs) if not paragraph.is_constant)
    return sorted(range(len(paragraphs)), key=lambda i: (i >= first and i not in moved, i))


def _model_order(prompt: _PromptText, executor: Executor) -> list[int]:
    """Ask a model for the order of the paragraphs."""
    texts = [prompt.readable(paragraph.begin, paragraph.end) for paragraph in prompt.paragraphs]
    blocks = "\n\n".join(f"Block {i}:\n{text}" for i, text in enumerate(texts, 1))
    question = _QUESTION.replace("{blocks}", blocks)
    options = ("max_new_tokens", _TOKENS_PER_NUMBER * len(texts)), ("temperature", 0.0)
    location = prompt.nodes[0].location
    with Run(executor, "the order of a prompt's blocks", location=location) as run:
        state = run.state()
        state += role("user", question)
        state += role("assistant", Gen("order", options, location))
    return [int(number) - 1 for number in re.findall(r"\d{1,6}", str(state["order"]))]


def _with_nodes(graph: Graph, old: Sequence[Node], new: Sequence[Node]) -> Graph:
    """Replace the `old` text nodes of a stream by `new` nodes."""
    nodes: list[Node] = []
    replacements: dict[int, Node] = {}  # old id -> new node
    for node in graph.nodes:
        if node not in old:
            dependencies = [replacements[id] for id in node.dependency_ids]
            replacements[node.id] = _append_copy(nodes, node, dependencies)
        elif node is old[-1]:
            last = replacements[old[0].dependency_ids[0]]
            for text_node in new:
                needed = [replacements[id] for id in text_node.dependency_ids[1:]]
                same_place = (last.kind, last.location) == (text_node.kind, text_node.location)
                text_node = replace(text_node, continues_text=same_place and _is_text(last))
                last = _append_copy(nodes, text_node, [last, *needed])
            replacements |= dict.fromkeys([text_node.id for text_node in old], last)
    return replace(graph, nodes=tuple(nodes))


def _append_copy(nodes: list[Node], node: Node, dependencies: Sequence[Node]) -> Node:
    ids = tuple(dependency.id for dependency in dependencies)
    nodes.append(replace(node, id=len(nodes), dependency_ids=ids, dependencies=tuple(dependencies)))
    return nodes[-1]


def _is_constant(node: Node) -> bool:
    return isinstance(node.op, Constant | MediaExpr | RoleBegin | RoleEnd | UseTools | CallNode)


def _no_executor(backend: Any) -> NoReturn:
    raise AssertionError("a prefix runs no other program")


def _is_placeholder(node: Node) -> bool:
    return isinstance(node.op, Argument | Variable)


def _is_text(node: Node) -> bool:
    return isinstance(node.op, Constant | Argument | Variable)


def _refusal(location: Location, title: str, reason: str) -> TraceError:
    message = f"{location}: {title} stays as it is: {reason}"
    return TraceError(message, "Change the prompt, or leave out the motion.")
