"""States as plain text: for `print`, screen readers and the static picture. Knows no colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from ...sequences import common_length
from ..state.branch_text import BranchText, take
from ..state.comparison import Comparison
from ..state.copied_blocks import WHERE
from ..state.metrics import Row, duration, is_stop
from ..state.models import Model
from ..state.residency import with_copies, words_of_copies
from ..state.run_state import RunState
from ..state.token_table import visible
from ..state.tree import TreeNode, TreeState
from .chips import with_chips
from .joined_tree import joined_tree
from .static_view import StaticView
from .tree_rows import TREE_ROWS, rows

BATCH_ROWS = 60
ARGUMENTS, ANSWER = 24, 96  # maximum characters per cell
CHANGED_TEXT = 200  # maximum characters of a piece of changed text
BAR = 32  # width of the longest bar in characters
MEASURED = ("cached", "again", "time")  # columns that vary between equal runs
WRITTEN = ("sampled", "jumped")  # kinds of output text


Shown = RunState | TreeState | Comparison | StaticView


def plain_text(states: Sequence[Shown]) -> str:
    run = run_of(states)

    def text(state: Shown) -> str:
        if isinstance(state, RunState):
            return run_text(state)
        if isinstance(state, TreeState):
            return tree_text(state, run=run)
        return compare_text(state) if isinstance(state, Comparison) else state.text()

    return "\n\n".join(map(text, without_empty_trees(states)))


def without_empty_trees(states: Sequence[Shown]) -> list[Shown]:
    """Return the states without trees of logs that have no engine, if another tree has an engine:
    a fleet has a log without an engine."""
    is_known = any(isinstance(state, TreeState) and state.engine for state in states)
    return [
        state
        for state in states
        if not (is_known and isinstance(state, TreeState) and state.engine is None)
    ]


def run_of(states: Sequence[Shown]) -> RunState | None:
    """Return the last run state, or None. Views show the trees of this run."""
    return next((state for state in reversed(states) if isinstance(state, RunState)), None)


def cache_lines(state: RunState) -> tuple[str, ...]:
    """Return loads, orders of parts, images, approximate answers and workers; "" for each absent
    kind."""
    kinds = state.loads, state.orders, state.items, state.splices, state.fleet
    return tuple(kind.line() for kind in kinds)


def run_text(state: RunState, batch_rows: int = BATCH_ROWS) -> str:
    """Return a run as text: heading, cache savings, metrics and the text of all kept branches.

    Args:
        state: State of the run.
        batch_rows: Maximum number of table rows for a batch.
    """
    savings = state.metrics.gain(), *cache_lines(state)
    lines = [run_heading(state), *filter(None, savings), state.line()]
    lines += [*filter(None, [state.time.line()]), *state.stops.lines()]
    lines += [*model_lines(state), *losses(state)]
    lines += batch_lines(state, batch_rows, False) if state.is_batch else _branch_lines(state)
    return "\n".join(lines)


def _branch_lines(state: RunState) -> Iterator[str]:
    for branch, segments, last in state.passages():
        text = "".join(text for _, text in with_chips(state, segments))
        yield from ("", f"[{visible(branch.name)}]", visible(text))
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
    """Return a line per model, if the run called several models."""
    models = state.models.values() if len(state.models) > 1 else ()
    return [f"{model_title(model)}: {_did(model)}" for model in models]


def model_title(model: Model) -> str:
    return f"{model.letter} {visible(model.name)}".rstrip()


def _did(model: Model) -> str:
    cached = f" ({model.cached_tokens:,} found in the cache)" if model.cached_tokens else ""
    tokens = f"{model.prompt_tokens:,} prompt{cached} + {model.output_tokens:,} new tokens"
    counted = model.prompt_tokens or model.output_tokens
    return f"{tokens if counted else 'no tokens counted'} · {duration(model.seconds)}"


def batch_lines(state: RunState, limit: int, measured: bool = True) -> Iterator[str]:
    """Yield the table of a batch with at most `limit` rows, and the common prefix of the rows.

    Args:
        state: State of the run.
        limit: Maximum number of rows.
        measured: Show time and share of cached tokens of each row. The text of a saved notebook
            has only totals, because a rerun changes the figures of every row.
    """
    head = [name for name in row_head(state) if measured or name not in MEASURED]
    table = [dict(zip(head, head, strict=True)), *map(row_cells, shown_rows(state, limit))]
    lines = [[cells[name] for name in head] for cells in table]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield ""
    for cells in lines:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        yield "  ".join([*padded[:-2], cells[-2].ljust(widths[-2]), cells[-1]])

    if len(state.rows) > limit:
        yield f"and {counted(len(state.rows) - limit, 'more row')}"
    prefix = "".join(text for _, text in with_chips(state, shared_prefix(state)))
    if prefix:
        yield from ("", "every row begins with", visible(prefix))


def compare_heading(state: Comparison) -> str:
    """Return the heading: program and progress."""
    titles = [run.title for variant in state.variants.values() for run in variant.runs]
    remaining = f", {counted(state.left, 'run')} to come" if state.left else ""
    status = "" if state.lines else f" · measuring{remaining}"
    title = visible(titles[0]) if titles else "a program"
    if state.rerun is not None:
        return f"{title}: {visible(state.rerun.earlier)} and {visible(state.rerun.later)}"
    return f"{title} compared with itself{status}"


def compare_text(state: Comparison) -> str:
    """Return the comparison as text: a table of variants with time bars, and the findings."""
    rows = [COMPARE_HEAD, *compare_cells(state)]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(COMPARE_HEAD))]
    lines = [compare_heading(state), *losses(state)]
    longest = max((row["seconds"] for row in state.rows() if "seconds" in row), default=0.0)
    for cells, row in zip(rows, [{}, *state.rows()], strict=True):
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        share = row.get("seconds", 0.0) / longest if longest > 0 else 0.0
        bar = "█" * max(1, round(BAR * share)) if "seconds" in row else ""
        lines.append("  ".join([cells[0].ljust(widths[0]), *padded[1:], bar]).rstrip())
    return "\n".join([*lines, *map(visible, state.lines), *rerun_lines(state)])


def rerun_lines(state: Comparison) -> Iterator[str]:
    """Yield the changed lines and the changed text of two runs. "-" marks the earlier run, "+" the
    later run."""
    rerun = state.rerun
    if rerun is None:
        return
    lines = zip(rerun.line_marks, rerun.line_numbers, rerun.lines, strict=True)
    for i, (mark, number, line) in enumerate(lines):
        yield from () if i else ("", "changed lines")
        yield f"{mark.replace('=', ' ')} {number}: {visible(line)}"

    shown = ""
    changed = {
        branch
        for branch, mark in zip(rerun.text_branches, rerun.text_marks, strict=True)
        if mark != "="
    }
    pieces = zip(rerun.text_branches, rerun.text_marks, rerun.texts, strict=True)
    for branch, mark, text in pieces:
        if branch not in changed:
            continue
        yield from ("", f"changed text [{visible(branch)}]") if branch != shown else ()
        shown = branch
        yield f"{mark.replace('=', ' ')} {label(text, CHANGED_TEXT)}"


COMPARE_HEAD = ("", "time", "all runs", "computed", "found", "passes", "sampled", "forced", "text")


def compare_cells(state: Comparison) -> list[tuple[str, ...]]:
    """Return the table cells of each variant, in the order of `COMPARE_HEAD`."""
    return [_compare_cells(row, is_base=not i) for i, row in enumerate(state.rows())]


def _compare_cells(row: dict[str, Any], is_base: bool) -> tuple[str, ...]:
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
        "differs" if not row["same_text"] else "the same" * (not is_base),
    )


def spread(fastest: float, slowest: float) -> str:
    """Format the range of times, or "" for a single run."""
    return f"{duration(fastest)} – {duration(slowest)}" if fastest < slowest else ""


def row_head(state: RunState) -> list[str]:
    """Return the columns of a batch; "again" only if cached tokens were recomputed."""
    again = ["again"] if state.metrics.recomputed_tokens else []
    return ["#", "cached", *again, "prompt", "new", "time", "arguments", "answer"]


def row_cells(row: Row) -> dict[str, str]:
    """Return the cells of a row by column. A failed row shows the error instead of the answer."""
    error = f"error: {row.error}" if row.error else ""
    answer = f"{row.status}: {row.answer}" if row.status in ("stopped", "running") else row.answer
    return {
        "#": str(row.number),
        "cached": f"{row.cached / row.prompt:.0%}" if row.prompt else "",
        "again": f"{row.again / row.prompt:.0%}" if row.prompt else "",
        "prompt": str(row.prompt or ""),
        "new": str(row.output or ""),
        "time": duration(row.ended - row.began) if row.ended is not None else row.status,
        "arguments": label(row.arguments, ARGUMENTS),
        "answer": label((error or answer).strip(), ANSWER),
    }


def shown_rows(state: RunState, limit: int) -> list[Row]:
    """Return the first rows of a batch. Failed rows come first, for at most half of the rows."""
    rows = list(state.rows.values())
    failed = [index for index, row in enumerate(rows) if row.error][: limit // 2]
    others = [index for index, row in enumerate(rows) if not row.error or index not in failed]
    return [rows[index] for index in sorted([*failed, *others[: limit - len(failed)]])]


def shared_prefix(state: RunState) -> list[list[str]]:
    """Return the common prompt prefix of a batch's first rows, coloured like the first row."""
    branches = [branch for branch in state.branches.values() if not branch.parent]
    if len(branches) < 2:
        return []
    first = branches[0]
    length = min(_shared_length(first, branch) for branch in branches[1:])
    segments = take(first.segments, length)
    prompt = takewhile(lambda segment: segment[0].partition(" ")[0] not in WRITTEN, segments)
    return list(prompt)


def _shared_length(first: BranchText, second: BranchText) -> int:
    """Return the length of the common prefix. Different images may have the same text."""
    length, items, others = common_length(first.text, second.text), first.items(), second.items()
    differing = [at for at in items | others if items.get(at) != others.get(at)]
    return min([length, *differing])


def run_heading(state: RunState) -> str:
    named = visible(state.title or f"run {state.run}")
    if state.edit is not None:
        change = repr(state.edit.text) if state.edit.text else "chosen again"
        named += visible(f", edit of {state.edit.edited}: {change} in {state.edit.name}")
    message = "" if state.reported or is_stop(state.message) else state.message
    parts = [named, visible(state.status), _first_line(message)]
    if state.failed and state.is_batch:
        counted_there = message.startswith(f"{state.failed} of ")
        parts += [] if counted_there else [f"{state.failed} failed"]
    elif state.failed and not state.message:
        first = "" if state.failed == 1 else ", the first with"
        parts.append(f"{state.failed} failed{first}: {_first_line(state.first_error)}")
    if state.stopped and state.is_batch:
        parts.append(f"{state.stopped} stopped, with partial texts")
    return " · ".join(part for part in parts if part)


def own_error(state: RunState, branch: BranchText) -> str:
    """Return the error of a branch, unless the heading has the error."""
    return "" if branch.error == (state.message or state.first_error) else branch.error


def _first_line(message: str) -> str:
    return visible(message.partition("\n")[0])


def losses(state: RunState | TreeState | Comparison) -> list[str]:
    """Return a warning line if records were lost, because the view is then incomplete."""
    return [f"incomplete: {state.lost} records were lost"] if state.lost else []


def tree_heading(tree: TreeState, run: RunState | None = None) -> str:
    """Return the heading of a tree.

    Args:
        tree: State of the tree.
        run: Run with the names of models and workers, if the run called several.
    """
    nodes = counted(len(tree.nodes) - 1, "node")
    model = run.model_of(tree) if run is not None else None
    whose = f" of {model_title(model)}" if model is not None else ""
    worker = run.fleet.worker_of(tree) if run is not None else None
    whose += f" of worker {worker}" if worker is not None else ""
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


def copy_lines(tree: TreeState) -> list[str]:
    """Return a line about the copies of the cache, if there are copies."""
    counts = tree.copies.counts()
    parts = [f"{count:,} tokens {WHERE[name]}" for name, count in counts.items()]
    return [f"copies: {', '.join(parts)}"] if parts else []


def tree_text(tree: TreeState, budget: int = TREE_ROWS, run: RunState | None = None) -> str:
    """Return the tree as text, with chains of nodes on one line."""
    lines = [tree_heading(tree, run), *losses(tree), *copy_lines(tree)]
    tree = with_copies(joined_tree(tree))
    for stem, node, hidden in rows(tree, budget):
        if node is None:
            lines.append(f"{stem}… {hidden} more nodes")
        else:
            counts = [counted(len(node.tokens), "token"), *node_marks(tree, node)]
            lines.append(f"{stem}{in_line(tree.label(node, 48), 48)} ({', '.join(counts)})")
    return "\n".join(lines)


def node_marks(tree: TreeState, node: TreeNode) -> list[str]:
    """Return the marks of a node as text: pins, locks, checkpoint and copies."""
    owners = ", ".join(map(visible, tree.pins.get(node.id, ())))
    marks = [counted(node.locks, "lock")] if node.locks else []
    marks += [f"pinned by {owners}"] if owners else []
    copies = words_of_copies(node)
    return marks + ["checkpoint"] * node.checkpoint + [copies] * bool(copies)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)


def label(text: str, width: int) -> str:
    """Shorten a text to one line of at most `width` characters."""
    flat = visible(text[: width + 1]).replace("\n", "⏎").replace("\t", " ")
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def in_line(text: str, width: int) -> str:
    """Shorten a text to one line of at most `width` characters, with visible white space."""
    flat = label(text[: width + 1].replace("\t", "⇥"), width)
    after = len(flat) - len(flat.rstrip(" "))
    indent = len(flat) - len(flat.lstrip(" ")) if after < len(flat) else 0
    return "␣" * indent + flat[indent : len(flat) - after] + "␣" * after
