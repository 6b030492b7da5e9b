"""Decisions on a text that an f-string, `%`, `format` or `join` has put together of an argument or
of generated data: Python makes it an ordinary text, so that a trace decides once and for all.

Reads the source, and finds what stands in one expression or behind a name.
"""

from __future__ import annotations

import ast
from collections.abc import Set

from ..location import Location, warn_once
from .mistakes import statements

_KEPT = {"format", "join"}
"""Methods of such a text that only put it into another one."""


def check(file: str, source: str, first_line: int, arguments: Set[str]) -> None:
    """Warn of decisions that a graph repeats. source: of a function or its body, from `first_line`
    of its `file`. arguments: those that the trace has no values for."""
    finder = _Finder(file, first_line - 1, arguments)
    for statement in statements(source):
        finder.visit(statement)


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, before: int, arguments: Set[str]) -> None:
        self._file, self._before, self._arguments = file, before, arguments
        self._made: set[str] = set()  # names of such texts

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        self._made = self._made | names if self._is_made(node.value) else self._made - names

    def visit_Compare(self, node: ast.Compare) -> None:
        self._look_at(node, [node.left, *node.comparators], "a comparison")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=of, attr=name) if name not in _KEPT:
                self._look_at(node, [of], f"{name}()")
            case ast.Name(id="len"):
                self._look_at(node, node.args, "len()")
        self.generic_visit(node)

    def _look_at(self, node: ast.expr, of: list[ast.expr], what: str) -> None:
        if any(map(self._is_made, of)):
            location = Location(self._file, self._before + node.lineno)
            told = f"{what} of a text made of an argument or of generated data"
            warn_once(f"{told} gives in every run of the graph what it gave the trace", location)

    def _is_made(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._made
            case ast.JoinedStr():
                return self._is_open(node)
            case ast.BinOp(
                left=ast.Constant(value=str()), op=ast.Mod(), right=ast.Tuple() as right
            ):
                return self._is_open(right)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr=name)):
                return name in _KEPT and self._is_open(node)
        return False

    def _is_open(self, node: ast.AST) -> bool:
        """Whether a value that the trace does not have stands in it."""
        for one in ast.walk(node):
            match one:
                case ast.Name(id=name) if name in self._arguments or name in self._made:
                    return True
                case ast.Subscript(value=ast.Name(id="s")):
                    return True
        return False
