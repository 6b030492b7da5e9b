"""Compilation of a `%%sglang` cell body to a Python function, `def NAME(s, PARAM ...)`. Knows no
shell.

The function's globals are the notebook's namespace, for name lookup at run time. The primitives of
the language are closure variables. Hence the namespace needs no imports and stays clean.
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
    """The body is not valid Python. The cause is the SyntaxError, hidden from IPython's own display
    of syntax errors."""


def compile_body(
    body: str,
    name: str,
    params: Sequence[Param],
    filename: str,
    namespace: dict[str, Any],
    primitives: Mapping[str, Any],
) -> Callable[..., Any]:
    """Compile the body to a function of `s` and the parameters. Line numbers match the cell.

    Args:
        body: Source code of the cell below the magic line.
        name: Name of the function.
        params: Parameters after `s`.
        filename: File name of the cell in tracebacks.
        namespace: Globals of the function.
        primitives: Language names by identifier.

    Raises:
        BodySyntaxError: The body is not valid Python.
    """
    try:
        code = _compiled(body, name, params, filename, primitives)
    except SyntaxError as error:
        if not error.text and error.lineno:  # the compiler knows no source, only the parser does
            error.text = ("\n" * CELL_LINES_BEFORE_BODY + body).splitlines()[error.lineno - 1]
        raise BodySyntaxError(error.msg) from error
    scope: dict[str, Any] = {}
    exec(code, namespace, scope)
    function: Callable[..., Any] = scope["enclosing"](**primitives)
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
