"""States as plain text: for `print`, for screen readers, and as the static twin's text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from ..state.branch import Branch, common_length, take
from ..state.comparison import AS_IS, Comparison
from ..state.metrics import Row, duration
from ..state.models import Model
from ..state.run import RunState
from ..state.tokens import visible
from ..state.tree import ROOT, Node, TreeState

TREE_ROWS = 40
BATCH_ROWS = 60
ARGUMENTS, ANSWER = 24, 96  # characters of a row
BAR = 32  # characters of the longest time of a comparison
WRITTEN = ("sampled", "jumped")  # kinds of text that are no prompt
MAX_CHILDREN = 8
"""Children shown of each node of a tree that has to be cut."""

Shown = RunState | TreeState | Comparison


class Line(NamedTuple):
    """One line of a printed tree."""

    stem: str  # the branches drawn left of it
    node: Node | None  # None: the line stands for `hidden` others
    hidden: int = 0


def plain_text(states: Sequence[Shown]) -> str:
    run = run_of(states)

    def text(state: Shown) -> str:
        if isinstance(state, RunState):
            return run_text(state)
        if isinstance(state, TreeState):
            return tree_text(state, run=run)
        return compare_text(state)

    return "\n\n".join(map(text, states))


def run_of(states: Sequence[Shown]) -> RunState | None:
    """The last run among them, whose trees are shown."""
    return next((state for state in reversed(states) if isinstance(state, RunState)), None)


def run_text(state: RunState, batch_rows: int = BATCH_ROWS) -> str:
    """The run's heading, what the cache saved, its figures, and the text of every branch that is
    kept; of a batch a line for each row."""
    lines = [run_heading(state), *([state.gain()] if state.gain() else []), state.line()]
    lines += [*model_lines(state), *losses(state)]
    lines += batch_lines(state, batch_rows) if state.is_batch else _branch_lines(state)
    return "\n".join(lines)


def _branch_lines(state: RunState) -> Iterator[str]:
    for branch, segments, last in state.passages():
        yield from ("", f"[{visible(branch.name)}]", visible("".join(text for _, text in segments)))
        if last:
            for name, value in branch.variables.items():
                by = f"  (by {branch.makers[name]})" if branch.makers[name] else ""
                yield f"{visible(name)} = {visible(value)!r}{by}"
            error = own_error(state, branch)
            if error:
                yield f"error: {visible(error)}"
    if state.hidden:
        yield from ("", f"and {state.hidden} more branches, counted but not shown")


def model_lines(state: RunState) -> list[str]:
    """What each model did, where the run has asked more than its own."""
    models = state.models.values() if len(state.models) > 1 else ()
    return [f"{model_title(model)}: {_did(model)}" for model in models]


def model_title(model: Model) -> str:
    return f"{model.letter} {visible(model.name)}".rstrip()


def _did(model: Model) -> str:
    found = f" ({model.cached_tokens:,} found in its cache)" if model.cached_tokens else ""
    tokens = f"{model.prompt_tokens:,} prompt{found} + {model.output_tokens:,} new tokens"
    counted = model.prompt_tokens or model.output_tokens
    return f"{tokens if counted else 'no tokens counted'} · {duration(model.seconds)}"


def batch_lines(state: RunState, most: int) -> Iterator[str]:
    """The table of a batch with at most `most` rows, and the text with which its rows begin."""
    head = row_head(state)
    table = [dict(zip(head, head, strict=True)), *map(row_cells, shown_rows(state, most))]
    lines = [[cells[name] for name in head] for cells in table]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield ""
    for cells in lines:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        yield "  ".join([*padded[:-2], cells[-2].ljust(widths[-2]), cells[-1]])
    if len(state.rows) > most:
        yield f"and {counted(len(state.rows) - most, 'more row')}"
    prefix = "".join(text for _, text in shared_prefix(state))
    if prefix:
        yield from ("", "every row begins with", visible(prefix))


def compare_heading(state: Comparison) -> str:
    """Of which program, and whether that is all."""
    titles = [run.title for variant in state.variants.values() for run in variant.runs]
    left = f", {counted(state.left, 'run')} to come" if state.left else ""
    status = "" if state.lines else f" · measuring{left}"
    return f"{visible(titles[0]) if titles else 'a program'} compared with itself{status}"


def compare_text(state: Comparison) -> str:
    """The figures of each variant as a table, each with a bar as long as its time, and what was
    found."""
    rows = [COMPARE_HEAD, *compare_cells(state)]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(COMPARE_HEAD))]
    lines = [compare_heading(state), *losses(state)]
    longest = max((row["seconds"] for row in state.rows() if "seconds" in row), default=0.0)
    for cells, row in zip(rows, [{}, *state.rows()], strict=True):
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        share = row.get("seconds", 0.0) / longest if longest > 0 else 0.0
        bar = "█" * max(1, round(BAR * share)) if "seconds" in row else ""
        lines.append("  ".join([cells[0].ljust(widths[0]), *padded[1:], bar]).rstrip())
    return "\n".join([*lines, *map(visible, state.lines)])


COMPARE_HEAD = ("", "time", "all runs", "computed", "found", "passes", "sampled", "forced", "text")


def compare_cells(state: Comparison) -> list[tuple[str, ...]]:
    """What a variant's row says, as `COMPARE_HEAD` names it."""
    return [_compare_cells(row) for row in state.rows()]


def _compare_cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "seconds" not in row:
        empty = [""] * (len(COMPARE_HEAD) - 2)
        return visible(row["variant"]), *empty, "not run" * bool(row["note"])
    counts = ("cached_tokens", "passes", "sampled_tokens", "jumped_tokens")
    again = f" ({row['recomputed_tokens']:,} again)" if row["recomputed_tokens"] else ""
    return (
        visible(row["variant"]),
        duration(row["seconds"]),
        spread(row["fastest"], row["slowest"]),
        f"{row['computed_tokens']:,}{again}",
        *(f"{row[name]:,}" for name in counts),
        "differs" if not row["same_text"] else "the same" * (row["variant"] != AS_IS),
    )


def spread(fastest: float, slowest: float) -> str:
    """ "" for one run."""
    return f"{duration(fastest)} – {duration(slowest)}" if fastest < slowest else ""


def row_head(state: RunState) -> list[str]:
    """The columns of a batch; "again" where tokens of the tree were computed again."""
    again = ["again"] if state.figures.recomputed_tokens else []
    return ["#", "cached", *again, "prompt", "new", "time", "arguments", "answer"]


def row_cells(row: Row) -> dict[str, str]:
    """What a row says, by column; of a failed one the error in the answer's place."""
    error = f"error: {row.error}" if row.error else ""
    return {
        "#": visible(row.branch),
        "cached": f"{row.cached / row.prompt:.0%}" if row.prompt else "",
        "again": f"{row.again / row.prompt:.0%}" if row.prompt else "",
        "prompt": str(row.prompt or ""),
        "new": str(row.output or ""),
        "time": duration(row.ended - row.began) if row.ended is not None else row.status,
        "arguments": label(row.arguments, ARGUMENTS),
        "answer": label((error or row.answer).strip(), ANSWER),
    }


def shown_rows(state: RunState, most: int) -> list[Row]:
    """The first rows of a batch; those that failed come before others, for half of the places."""
    rows = list(state.rows.values())
    failed = [place for place, row in enumerate(rows) if row.error][: most // 2]
    others = [place for place, row in enumerate(rows) if not row.error or place not in failed]
    return [rows[place] for place in sorted([*failed, *others[: most - len(failed)]])]


def shared_prefix(state: RunState) -> list[list[str]]:
    """The coloured text of the prompt with which the first rows of a batch begin, as the first of
    them shows it."""
    branches = [branch for branch in state.branches.values() if not branch.parent]
    if len(branches) < 2:
        return []
    first = branches[0]
    length = min(common_length(first.text, branch.text) for branch in branches[1:])
    segments = take(first.segments, length)
    prompt = takewhile(lambda segment: segment[0].partition(" ")[0] not in WRITTEN, segments)
    return list(prompt)


def run_heading(state: RunState) -> str:
    named = visible(state.title or f"run {state.run}")
    parts = [named, visible(state.status), _first_line(state.message)]
    if state.failed and not state.message:
        first = "" if state.failed == 1 else ", the first with"
        parts.append(f"{state.failed} failed{first}: {_first_line(state.first_error)}")
    return " · ".join(part for part in parts if part)


def own_error(state: RunState, branch: Branch) -> str:
    """The error of a branch, unless the heading says it."""
    return "" if branch.error == (state.message or state.first_error) else branch.error


def _first_line(message: str) -> str:
    return visible(message.partition("\n")[0])


def losses(state: Shown) -> list[str]:
    """A line that says so when records were lost, so that no one trusts an incomplete picture."""
    return [f"incomplete: {state.lost} records were lost"] if state.lost else []


def tree_heading(tree: TreeState, run: RunState | None = None) -> str:
    """run: says whose tree it is, if it has asked several models."""
    nodes = counted(len(tree.nodes) - 1, "node")
    model = run.model_of(tree) if run is not None else None
    whose = f" of {model_title(model)}" if model is not None else ""
    parts = [f"radix tree{whose}: {nodes}", counted(tree.tokens, "token"), f"{tree.locked} locked"]
    if tree.pins:
        parts.append(f"{len(tree.pins)} pinned")
    if tree.evicted:
        parts.append(f"{tree.evicted} evicted")
    if tree.engine and tree.engine.states:
        parts.append(f"{tree.checkpoints} of {counted(tree.engine.states, 'state')} kept")
    if tree.engine:
        parts.append(f"pool of {tree.engine.pool_tokens}")
    return " · ".join(parts)


def tree_text(tree: TreeState, budget: int = TREE_ROWS, run: RunState | None = None) -> str:
    lines = [tree_heading(tree, run), *losses(tree)]
    for stem, node, hidden in rows(tree, budget):
        if node is None:
            lines.append(f"{stem}… {hidden} more nodes")
        else:
            counts = [counted(len(node.tokens), "token"), *node_marks(tree, node)]
            lines.append(f"{stem}{in_line(tree.text(node), 48)} ({', '.join(counts)})")
    return "\n".join(lines)


def node_marks(tree: TreeState, node: Node) -> list[str]:
    """Who keeps a node from eviction, and whether a request can go on from it, in words."""
    owners = ", ".join(map(visible, tree.pins.get(node.id, ())))
    marks = [counted(node.locks, "lock")] if node.locks else []
    marks += [f"pinned by {owners}"] if owners else []
    return marks + ["checkpoint"] * node.checkpoint


def counted(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)


def label(text: str, width: int) -> str:
    """The beginning of a text on one line of at most `width` characters."""
    flat = visible(text[: width + 1]).replace("\n", "⏎").replace("\t", " ")
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def in_line(text: str, width: int) -> str:
    """The beginning of a text on one line of at most `width` characters, with its white space
    seen."""
    flat = label(text[: width + 1].replace("\t", "⇥"), width)
    after = len(flat) - len(flat.rstrip(" "))
    before = len(flat) - len(flat.lstrip(" ")) if after < len(flat) else 0
    return "␣" * before + flat[before : len(flat) - after] + "␣" * after


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


def rows(tree: TreeState, budget: int = TREE_ROWS) -> Iterator[Line]:
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
            yield Line(branch, None, item)
        else:
            yield Line(branch, item)
            push(stem + ("   " if last else "│  "), item)
