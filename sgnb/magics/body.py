"""The body of a `%%sglang` cell as a Python function, `def NAME(s, PARAM ...)`. Knows no shell.

Its globals are the notebook's own namespace, so that names resolve when the body runs; the
primitives of the language are variables of an enclosing function: no import, nothing polluted.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from ..errors import ProgramError
from ..lang.source import parse
from .line import Param

CELL_LINES_BEFORE_BODY = 1


class BodySyntaxError(ProgramError):
    """The body is no Python. Its SyntaxError, which IPython would show in its way, is the cause."""


def compile_body(
    body: str,
    name: str,
    params: Sequence[Param],
    filename: str,
    namespace: dict[str, Any],
    primitives: Mapping[str, Any],
) -> Callable[..., Any]:
    """The body as a function of `s` and the parameters, with the cell's line numbers."""
    try:
        code = _compiled(body, name, params, filename, primitives)
    except SyntaxError as error:
        raise BodySyntaxError(error.msg) from error
    made: dict[str, Any] = {}
    exec(code, namespace, made)
    function: Callable[..., Any] = made["enclosing"](**primitives)
    if inspect.isgeneratorfunction(function):
        raise ProgramError("a program cannot `yield`", "use return; the value is state.ret_value")
    return function


def _compiled(
    body: str, name: str, params: Sequence[Param], filename: str, primitives: Iterable[str]
) -> CodeType:
    statements = parse("\n" * CELL_LINES_BEFORE_BODY + body, filename).body
    signature = ", ".join(["s", *map(str, params)])
    module = parse(
        f"def enclosing({', '.join(primitives)}):\n def {name}({signature}): pass\n return {name}"
    )
    enclosing: Any = module.body[0]
    enclosing.body[0].body = statements or [ast.Pass(lineno=1, col_offset=0)]
    code: CodeType = compile(ast.fix_missing_locations(module), filename, "exec", dont_inherit=True)
    return code
