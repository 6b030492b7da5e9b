"""The lines of a program inside `try` and `contextlib.suppress`. Knows no trace."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType

from ..location import is_ours
from ..source import parse, source_of


def is_caught(outermost: CodeType) -> bool:
    """Return whether the user's code would catch an exception raised here.

    Args:
        outermost: The code below whose frame the traced program runs.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code is not outermost:
        if not is_ours(frame):
            line = frame.f_lineno
            if any(line in lines for lines in _guarded_lines(frame.f_code)):
                return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=256)
def _guarded_lines(code: CodeType) -> tuple[range, ...]:
    """Return the line numbers inside `try` statements of a function."""
    try:
        tree = parse(textwrap.dedent(source_of(code)))
    except SyntaxError:  # a lambda in the middle of a statement
        return ()
    offset = max(code.co_firstlineno, 1) - 1
    bodies = [body for node in ast.walk(tree) if (body := _guarded_body(node))]
    return tuple(
        range(offset + body[0].lineno, offset + (body[-1].end_lineno or 0) + 1) for body in bodies
    )


def _guarded_body(node: ast.AST) -> Sequence[ast.stmt]:
    match node:
        case ast.Try(body=body, handlers=[_, *_]) | ast.TryStar(body=body):
            return body
        case ast.With(body=body, items=items) if any(map(_suppresses, items)):
            return body
    return ()


def _suppresses(item: ast.withitem) -> bool:
    """Return whether a context manager is `contextlib.suppress`, by its name."""
    match item.context_expr:
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
            return True
    return False
