"""Programs without decisions: code that appends the same operations for all argument texts.

The graph of such a program holds for any texts, without a trace for each run, as long as the names
that the code reads still mean the same objects. Accepted code consists of a few statements and
expressions; all other code is traced before each run.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn

from .graph import Graph
from .watched_code import source_tree

_SCALARS = str, int, float, bool, bytes, type(None)
_BUILTINS = range, len, str
_ROLES = {"system", "user", "assistant"}
_REFUSED_OPTIONS = {"n", "tools", "backend"}  # values that are no texts, or another executor
_MISSING = object()  # value of a deleted name, which must differ from None
_MAX_POSITIONAL = 2  # the name, then a token limit or the choices


class KnownFunctions(NamedTuple):
    """Functions without decisions on texts.

    Attributes:
        of_constants: Functions that must not receive texts of arguments.
        of_texts: Functions that append their arguments.
        setting: Returns the setting on which the results depend.
    """

    of_constants: frozenset[Any]
    of_texts: frozenset[Any]
    setting: Callable[[], Any]


class _Kind(IntEnum):
    """Dependence of an expression on texts of arguments and on generated texts."""

    CONSTANT = 0  # no dependence
    TEXT = 1  # a text that contains these texts
    EXPRESSION = 2  # an expression to append that contains these texts


class PlainCode:
    """The objects that the code of a plain program reads.

    Args:
        func: The program's function.
        parameters: The parameters with texts.
        reads: Pairs of a function that reads an object again, and the object.
    """

    def __init__(
        self,
        func: FunctionType,
        parameters: frozenset[str],
        reads: list[tuple[Callable[[], Any], Any]],
    ) -> None:
        self._func, self._code, self._defaults = func, func.__code__, func.__defaults__
        self._parameters, self._reads = parameters, reads

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the graph is the program's trace for argument `values`."""
        func = self._func
        return (
            func.__code__ is self._code
            and func.__defaults__ is self._defaults
            and not func.__kwdefaults__
            and self._parameters.issuperset(values)
            and {str}.issuperset(map(type, values.values()))
            and all([read() is known for read, known in self._reads])  # noqa: C419
        )


def plain_code(
    func: Any, graph: Graph, bound: Mapping[str, Any], functions: KnownFunctions
) -> PlainCode | None:
    """Return the reads of a program without decisions, or None for any other program.

    Args:
        func: The program's function.
        graph: The graph of the program's trace, with the parameters that have placeholders.
        bound: The arguments that the trace was given.
        functions: The functions that the code may call.
    """
    if type(func) is not FunctionType or func.__kwdefaults__ or not _has_simple_parameters(func):
        return None

    tree = source_tree(func.__code__)
    if tree is None:
        return None

    try:
        reader = _Reader(func, frozenset(graph.parameters), bound, functions)
        reader.read(tree)
    except _NotPlainError:
        return None
    return PlainCode(func, frozenset(graph.parameters), list(reader.reads.values()))


def _has_simple_parameters(func: FunctionType) -> bool:
    code: CodeType = func.__code__
    open_ended = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS
    return not (code.co_flags & open_ended or code.co_kwonlyargcount or code.co_cellvars)


class _NotPlainError(Exception):
    """The code contains something that this module does not accept."""


def _refuse() -> NoReturn:
    raise _NotPlainError


class _Reader:
    """Determines the kinds of a function's expressions, and the objects outside of the function.

    A local variable has the highest kind of all its assignments.
    """

    def __init__(
        self,
        func: FunctionType,
        parameters: frozenset[str],
        bound: Mapping[str, Any],
        functions: KnownFunctions,
    ) -> None:
        setting = functions.setting
        self.reads: dict[tuple[str, str], tuple[Callable[[], Any], Any]] = {
            ("", ""): (setting, setting())
        }
        self._functions = functions
        self._func, code = func, func.__code__
        self._locals = set(code.co_varnames)
        self._state, *names = code.co_varnames[: code.co_argcount]

        self._kinds = {name: _Kind.TEXT for name in names if name in parameters}
        defaults = dict(zip(reversed(names), reversed(func.__defaults__ or ()), strict=False))
        for name in names:
            if name not in parameters:
                value = {**defaults, **bound}.get(name)
                if not _is_immutable(value):
                    _refuse()
                self._kinds[name] = _Kind.CONSTANT
        self._cells = dict(zip(code.co_freevars, func.__closure__ or (), strict=True))

    def read(self, function: ast.FunctionDef) -> None:
        """Read the whole function until no kind changes.

        Raises:
            _NotPlainError: The function is not plain.
        """
        before: dict[str, _Kind] | None = None
        while before != self._kinds:
            before = dict(self._kinds)
            self._statements(function.body)

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None):
                pass
            case ast.Return(ast.expr() as value):
                self._at_most(value, _Kind.TEXT)
            case ast.AugAssign(ast.Name(name), ast.Add(), value):
                kind = self._kind(value)
                if name != self._state:
                    self._assign(name, kind)
            case ast.Assign([ast.Name(name)], value):
                self._assign(name, self._kind(value))
            case ast.For(ast.Name(name), iterated, body, []):
                self._at_most(iterated, _Kind.CONSTANT)
                self._assign(name, _Kind.CONSTANT)
                self._statements(body)
            case ast.If(test, body, orelse):
                self._at_most(test, _Kind.CONSTANT)
                self._statements(body)
                self._statements(orelse)
            case ast.With(
                [ast.withitem(ast.Call(ast.Attribute(ast.Name(name), role), [], []), None)]
            ):
                if name != self._state or role not in _ROLES:
                    _refuse()
                self._statements(statement.body)
            case _:
                _refuse()

    def _assign(self, name: str, kind: _Kind) -> None:
        if name == self._state or name not in self._locals:
            _refuse()
        self._kinds[name] = max(self._kinds.get(name, _Kind.CONSTANT), kind)

    def _at_most(self, node: ast.expr, kind: _Kind) -> None:
        if self._kind(node) > kind:
            _refuse()

    def _kind(self, node: ast.expr) -> _Kind:
        match node:
            case ast.Constant():
                return _Kind.CONSTANT
            case ast.Name(name):
                return self._kind_of_name(name)
            case ast.Attribute(ast.Name(name), attribute):
                return self._kind_of_object(self._attribute(name, attribute))
            case ast.JoinedStr(values):
                return max(map(self._kind_in_text, values), default=_Kind.CONSTANT)
            case ast.BinOp(left, ast.Add(), right):
                return max(self._kind(left), self._kind(right))
            case ast.Subscript(ast.Name(name), ast.Constant(str())) if name == self._state:
                return _Kind.TEXT
            case ast.Call():
                return self._kind_of_call(node)
        self._check_constant(node)
        return _Kind.CONSTANT

    def _check_constant(self, node: ast.expr) -> None:
        """Accept operators and displays of constants."""
        match node:
            case ast.BinOp(left, _, right):
                parts = [left, right]
            case ast.UnaryOp(_, operand):
                parts = [operand]
            case ast.BoolOp(_, parts) | ast.Tuple(parts) | ast.List(parts):
                pass
            case ast.Compare(left, _, rest):
                parts = [left, *rest]
            case ast.IfExp(test, body, orelse):
                parts = [test, body, orelse]
            case _:
                _refuse()
        for part in parts:
            self._at_most(part, _Kind.CONSTANT)

    def _kind_in_text(self, value: ast.expr) -> _Kind:
        """Return the kind of a part of an f-string. A conversion or a format needs a constant."""
        match value:
            case ast.Constant():
                return _Kind.CONSTANT
            case ast.FormattedValue(inner, conversion, spec):
                kind = self._kind(inner)
                if kind is _Kind.EXPRESSION or (kind and (conversion != -1 or spec is not None)):
                    _refuse()
                if spec is not None:
                    self._at_most(spec, _Kind.CONSTANT)
                return kind
        _refuse()

    def _kind_of_name(self, name: str) -> _Kind:
        if name == self._state:
            _refuse()
        if name in self._locals:
            return self._kinds.get(name, _Kind.CONSTANT)
        return self._kind_of_object(self._outside(name))

    def _kind_of_object(self, value: Any) -> _Kind:
        return _Kind.CONSTANT if _is_immutable(value) else _refuse()

    def _kind_of_call(self, call: ast.Call) -> _Kind:
        function = self._function(call.func)
        options = {keyword.arg for keyword in call.keywords}
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if None in options or any(isinstance(argument, ast.Starred) for argument in arguments):
            _refuse()

        if any(function is known for known in _BUILTINS):
            kind, accepted = _Kind.CONSTANT, _Kind.CONSTANT
        elif type(function) is not FunctionType:
            _refuse()
        elif function in self._functions.of_texts:
            kind = accepted = _Kind.EXPRESSION
        elif function in self._functions.of_constants:
            kind, accepted = _Kind.EXPRESSION, _Kind.CONSTANT
            if options & _REFUSED_OPTIONS or len(call.args) > _MAX_POSITIONAL:
                _refuse()
        else:
            _refuse()

        for argument in arguments:
            self._at_most(argument, accepted)
        return kind

    def _function(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(name) if name not in self._locals:
                return self._outside(name)
            case ast.Attribute(ast.Name(name), attribute):
                return self._attribute(name, attribute)
        _refuse()

    def _outside(self, name: str) -> Any:
        """Return the object of a global or free name, and record the read."""
        known, names = vars(builtins), self._func.__globals__
        if name in self._cells:
            cell = self._cells[name]

            def read() -> Any:
                try:
                    return cell.cell_contents
                except ValueError:  # an empty cell
                    return _MISSING

        else:

            def read() -> Any:
                return names[name] if name in names else known.get(name, _MISSING)

        return self._record(("", name), read)

    def _attribute(self, name: str, attribute: str) -> Any:
        """Return an attribute of a module, and record the reads."""
        if name in self._locals:
            _refuse()
        module = self._outside(name)
        if type(module) is not ModuleType:
            _refuse()
        return self._record((name, attribute), lambda: getattr(module, attribute, _MISSING))

    def _record(self, key: tuple[str, str], read: Callable[[], Any]) -> Any:
        value = read()
        self.reads[key] = read, value
        return value


def _is_immutable(value: Any) -> bool:
    return type(value) in _SCALARS or (type(value) is tuple and all(map(_is_immutable, value)))
