"""Kinds of appended texts, and executors of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import ProgramError
from ..executor import is_own
from ..ir import Expr, Gen, PartSet, Select, Text, UnreadMedia
from ..location import caller

if TYPE_CHECKING:
    from .program import Program


def with_kinds(program: Program, node: Expr, role: str | None) -> list[Expr]:
    """Return `node` with the kinds of its text resolved.

    Text in a role, arguments and generated texts are data; other text is raw.
    """
    if isinstance(node, UnreadMedia):
        hint = f"write {node.kind}(x) inside the program"
        raise ProgramError(f"{caller()}: {node.kind}() was called in a trace", hint)
    node = for_own_backend(program, node)
    if isinstance(node, Text):
        return list(_texts(program, node, role))
    if isinstance(node, PartSet):
        parts: Any = tuple(
            tuple(new for each in part for new in with_kinds(program, each, role))
            for part in node.parts
        )
        kind = node.separator.kind or ("raw" if role is None else "data")
        separator = replace(node.separator, kind=kind)
        return [replace(node, parts=parts, separator=separator)]
    if isinstance(node, Select):
        is_tainted = any(
            kind == "data" for c in node.choices for _, kind in program.tainted.split_by_taint(c)
        )
        return [replace(node, kind="data" if role or is_tainted else "raw")]
    return [node]


def _texts(program: Program, node: Text, role: str | None) -> list[Text]:
    if node.kind is not None:
        return [node]
    if role is not None:
        if not program.run.special_tokens:
            program.tainted.warn_of_special_tokens(node.text, role)
        return [replace(node, kind="data")]
    return [Text(text, kind) for text, kind in program.tainted.split_by_taint(node.text)]


def for_own_backend(program: Program, node: Expr) -> Expr:
    """Return `node` without a backend that is the run's own."""
    other = node.backend if isinstance(node, Gen | Select) else None
    if other is not None and is_own(program.executor, other):
        return replace(node, backend=None)  # type: ignore[type-var]
    return node
