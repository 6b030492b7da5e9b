"""Lint of program sources: expressions that the program creates but never appends. The source is
parsed, not executed."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from ...errors import ProgramError, shown
from ..location import Location, warn_once
from ..source import parse
from . import expressions, roles

_MODULES = expressions.__name__, roles.__name__
"""Modules whose functions return expressions."""


def check(func: Callable[..., Any], source: str, first_line: int) -> None:
    """Check the source of a program.

    Warns about an expression that is a statement of its own. Source that cannot be parsed is
    skipped.

    Args:
        func: The program's function.
        source: Source of the function or of its body.
        first_line: Line number of `source` in the file.

    Raises:
        ProgramError: An assignment to `s` replaces the state by an expression or a literal.
    """
    func = inspect.unwrap(func)
    if not isinstance(func, FunctionType):
        return
    source = textwrap.dedent(source)
    finder = _Finder(func, source.splitlines(), first_line)
    for statement in statements(source):
        finder.visit(statement)


def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a function or of its body; none if `source` is not valid Python."""
    try:
        body = parse(textwrap.dedent(source)).body
    except SyntaxError:
        return []
    match body:
        case [ast.FunctionDef(body=inner) | ast.AsyncFunctionDef(body=inner)]:
            return inner
    return body


class _Finder(ast.NodeVisitor):
    """Visitor of the function's own statements; nested functions are skipped."""

    def __init__(self, func: FunctionType, lines: list[str], first_line: int) -> None:
        code = func.__code__
        self._file, self._lines, self._offset = code.co_filename, lines, first_line - 1
        self._locals, self._globals = code.co_varnames, func.__globals__
        self._closure = dict(zip(code.co_freevars, func.__closure__ or (), strict=True))

    def visit_Expr(self, node: ast.Expr) -> None:
        if self._is_expression(node.value):
            message = f"{shown(ast.unparse(node.value))[1:-1]} is not appended and does nothing"
            warn_once(f"{message}; write s += ...", self._location(node))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
        is_value = isinstance(node.value, (ast.Constant, ast.JoinedStr))
        if "s" in targets and (is_value or self._is_expression(node.value)):
            reason = "s = ... replaces the state and appends nothing"
            message = f"{self._location(node)}: {reason}"
            raise ProgramError(message, "append it: s += ...") from self._caret_error(node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.AST) -> None:
        pass

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef

    def _is_expression(self, node: ast.expr) -> bool:
        """Return whether the node creates an expression of the language, as far as names show."""
        match node:
            case ast.Call(func=func):
                return getattr(self._value(func), "__module__", "") in _MODULES
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._is_expression(left) or self._is_expression(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_expression(body) or self._is_expression(orelse)
            case ast.Tuple(elts=items) | ast.BoolOp(values=items):
                return any(map(self._is_expression, items))
        return False

    def _value(self, node: ast.expr) -> Any:
        """Return the value of a name or of a module attribute; None if unknown."""
        match node:
            case ast.Name(id=name) if name in self._closure:
                try:
                    return self._closure[name].cell_contents
                except ValueError:  # the cell is empty so far
                    return None
            case ast.Name(id=name) if name not in self._locals:
                return self._globals.get(name)
            case ast.Attribute(value=owner, attr=name):
                module = self._value(owner)
                return getattr(module, name, None) if isinstance(module, ModuleType) else None
        return None

    def _location(self, node: ast.stmt) -> Location:
        return Location(self._file, self._offset + node.lineno)

    def _caret_error(self, node: ast.stmt) -> SyntaxError:
        """Return an error that shows the line with a caret, as the cause of another error."""
        begin, line = self._location(node).line, self._lines[node.lineno - 1]
        last = node.end_col_offset if node.end_lineno == node.lineno else len(line)
        position = self._file, begin, node.col_offset + 1, line, begin, (last or 0) + 1
        return SyntaxError("nothing is appended here", position)
