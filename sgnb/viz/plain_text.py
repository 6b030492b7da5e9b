"""States as plain text: for `print`, for screen readers, and as the static twin's text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .branch import Branch
from .run import RunState
from .tokens import visible
from .tree import ROOT, Node, TreeState

TREE_ROWS = 40
MAX_CHILDREN = 8
"""Children shown of each node of a tree that has to be cut."""

Shown = RunState | TreeState


class Row(NamedTuple):
    """One line of a printed tree."""

    stem: str  # the branches drawn left of it
    node: Node | None  # None: the line stands for `hidden` others
    hidden: int = 0


def plain_text(states: Sequence[Shown]) -> str:
    return "\n\n".join(
        run_text(state) if isinstance(state, RunState) else tree_text(state) for state in states
    )


def run_text(state: RunState) -> str:
    """The run's heading, its figures, and the text of every branch that is kept."""
    lines = [run_heading(state), state.line(), *losses(state)]
    for branch, segments, last in state.passages():
        lines += ["", f"[{branch.name}]", visible("".join(text for _, text in segments))]
        if last:
            pairs = branch.variables.items()
            lines += [f"{visible(name)} = {visible(value)!r}" for name, value in pairs]
            error = own_error(state, branch)
            lines += [f"error: {visible(error)}"] if error else []
    if state.hidden:
        lines += ["", f"and {state.hidden} more branches, counted but not shown"]
    return "\n".join(lines)


def run_heading(state: RunState) -> str:
    parts = [visible(state.title) or f"run {state.run}", state.status, _first_line(state.message)]
    if state.failed and not state.message:
        parts.append(f"{state.failed} failed, the first with: {_first_line(state.first_error)}")
    return " · ".join(part for part in parts if part)


def own_error(state: RunState, branch: Branch) -> str:
    """The error of a branch, unless it is the run's, which the heading says."""
    return "" if branch.error == state.message else branch.error


def _first_line(message: str) -> str:
    return visible(message.partition("\n")[0])


def losses(state: Shown) -> list[str]:
    """A line that says so when records were lost, so that no one trusts an incomplete picture."""
    return [f"incomplete: {state.lost} records were lost"] if state.lost else []


def tree_heading(tree: TreeState) -> str:
    nodes = counted(len(tree.nodes) - 1, "node")
    parts = [f"radix tree: {nodes}", counted(tree.tokens, "token"), f"{tree.locked} locked"]
    if tree.evicted:
        parts.append(f"{tree.evicted} evicted")
    if tree.engine:
        parts.append(f"pool of {tree.engine.pool_tokens}")
    return " · ".join(parts)


def tree_text(tree: TreeState, budget: int = TREE_ROWS) -> str:
    lines = [tree_heading(tree), *losses(tree)]
    for stem, node, hidden in rows(tree, budget):
        if node is None:
            lines.append(f"{stem}… {hidden} more nodes")
        else:
            counts = counted(len(node.tokens), "token")
            counts += f", {counted(node.locks, 'lock')}" if node.locks else ""
            lines.append(f"{stem}{label(tree.text(node), 48)!r} ({counts})")
    return "\n".join(lines)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)


def label(text: str, width: int) -> str:
    """The beginning of a text on one line of at most `width` characters."""
    flat = visible(text[: width + 1]).replace("\n", "⏎").replace("\t", " ")
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def shown(tree: TreeState, budget: int) -> tuple[set[int], Counter[int]]:
    """The `budget` most recently used nodes, and how many are hidden below each of them.

    A parent is at least as recent as its children and comes first among equals, so it is met first.
    """
    most = MAX_CHILDREN if len(tree.nodes) - 1 > budget else len(tree.nodes)
    kept, hidden, taken = {ROOT}, Counter[int](), Counter[int]()
    for node in sorted(walk(tree), key=lambda node: -node.tick):
        if len(kept) <= budget and node.parent in kept and taken[node.parent] < most:
            kept.add(node.id)
            taken[node.parent] += 1
            continue
        above = node.parent
        while above not in kept:
            above = tree.nodes[above].parent
        hidden[above] += 1
    return kept, hidden


def walk(tree: TreeState) -> Iterator[Node]:
    """Every node but the root, parents first, siblings in order."""
    stack = tree.children(tree.root)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack += tree.children(node)[::-1]


def rows(tree: TreeState, budget: int = TREE_ROWS) -> Iterator[Row]:
    """The lines of a printed tree with the `budget` most recently used nodes."""
    kept, hidden = shown(tree, budget)

    stack: list[tuple[str, Node | int, bool]] = []

    def push(stem: str, node: Node) -> None:
        items: list[Node | int] = [child for child in tree.children(node) if child.id in kept]
        items += [hidden[node.id]] if hidden[node.id] else []
        stack.extend((stem, item, i == 0) for i, item in enumerate(reversed(items)))

    push("", tree.root)
    while stack:
        stem, item, last = stack.pop()
        branch = stem + ("└─ " if last else "├─ ")
        if isinstance(item, int):
            yield Row(branch, None, item)
        else:
            yield Row(branch, item)
            push(stem + ("   " if last else "│  "), item)
