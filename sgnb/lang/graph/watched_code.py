"""The code of a traced program, rewritten so that hidden decisions and effects become visible.

An f-string is an ordinary string, and a function in C reads a string without calling a method of a
subclass. The rewritten code returns a `PlaceholderText` for each such text, and passes each call,
each `in` and each assignment to outside data through a function of this module. Functions that the
program calls are rewritten too, except for libraries and functions without source.
"""

from __future__ import annotations

import ast
import dis
import textwrap
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from ..location import is_library
from ..source import file_source, parse, source_of

_UNCHANGED = {"super", "locals", "globals", "vars", "dir", "eval", "exec"}
"""Functions that read the frame of the caller."""

_FUTURE_FLAGS = 0x1FF0000
"""Flags of `__future__` imports in `co_flags`."""

_codes: dict[int, tuple[CodeType, CodeType | None]] = {}  # by id; the tuple keeps the key's code
_functions: WeakKeyDictionary[FunctionType, tuple[CodeType, FunctionType]] = WeakKeyDictionary()


def watched(func: Any, watchers: dict[str, Callable[..., Any]]) -> Any:
    """Return `func` with rewritten code, or `func` if the code cannot be rewritten.

    Args:
        func: A function.
        watchers: The functions `_text`, `_call`, `_contains` and `_store` by name.
    """
    if type(func) is not FunctionType or not is_program_code(func):
        return func
    known, copy = _functions.get(func, (None, func))
    if known is not func.__code__:
        code = _rewritten(func.__code__)
        if code is None:
            return func
        copy = _with_code(func, code, watchers)
        _functions[func] = func.__code__, copy
    copy.__defaults__, copy.__kwdefaults__ = func.__defaults__, func.__kwdefaults__
    return copy


def is_program_code(func: FunctionType) -> bool:
    """Return whether a function belongs to neither sgnb nor a library."""
    is_own = str(func.__globals__.get("__name__", "")).startswith("sgnb.")
    return not (is_own or is_library(func.__code__.co_filename))


def _with_code(
    func: FunctionType, code: CodeType, watchers: dict[str, Callable[..., Any]]
) -> FunctionType:
    cells = dict(zip(func.__code__.co_freevars, func.__closure__ or (), strict=True))
    closure = tuple(cells.get(name) or CellType(watchers[name]) for name in code.co_freevars)
    copy = FunctionType(code, func.__globals__, func.__name__, closure=closure)
    copy.__qualname__ = func.__qualname__
    return copy


def _rewritten(code: CodeType) -> CodeType | None:
    """Return the rewritten code, or None for code without source or with another source."""
    if id(code) not in _codes:
        _codes[id(code)] = code, _rewrite(code)
    return _codes[id(code)][1]


def _rewrite(code: CodeType) -> CodeType | None:
    function = source_tree(code)
    if function is None:
        return None
    rewriter = _Rewriter(_outside_names(code))
    function.body = [rewriter.visit(statement) for statement in function.body]
    return _compiled(function, code, _WATCHER_NAMES)


def source_tree(code: CodeType) -> ast.FunctionDef | None:
    """Return the syntax tree of the code, without decorators. None for code without source or with
    another source."""
    if "__class__" in code.co_freevars:  # `super()` needs the class
        return None
    try:
        tree = parse(textwrap.dedent(source_of(code)))
    except SyntaxError:  # a lambda in the middle of a statement
        return None
    match tree.body:
        case [ast.FunctionDef() as function]:
            pass
        case _:
            return None
    ast.increment_lineno(tree, max(code.co_firstlineno, 1) - 1)
    function.decorator_list = []
    if not _is_same(_compiled(function, code, ()), code):
        return None  # the file has changed, or another tool has rewritten the code
    return function


_WATCHER_NAMES = "_sgnb_text", "_sgnb_call", "_sgnb_contains", "_sgnb_store"


def _compiled(function: ast.FunctionDef, code: CodeType, names: tuple[str, ...]) -> CodeType:
    """Compile `function` with `names` and the free variables of `code` as free variables."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=name) for name in (*code.co_freevars, *names)],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    outer = ast.FunctionDef("outer", arguments, [function], [])
    imports = [ast.Import([ast.alias(name)]) for name in _imported_names(code.co_filename)]
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    flags = code.co_flags & _FUTURE_FLAGS
    compiled = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    outer_code = _inner_codes(compiled)[-1]
    return next(c for c in _inner_codes(outer_code) if c.co_name == code.co_name)


@lru_cache(maxsize=256)
def _imported_names(file: str) -> tuple[str, ...]:
    """Return the names that a file imports outside of functions; CPython compiles calls of their
    attributes in another way."""
    try:
        todo = [parse(file_source(file))]
    except SyntaxError:  # a cell with magics
        return ()
    names = []
    for node in todo:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return tuple(name for name in dict.fromkeys(names) if name != "*")


def _inner_codes(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Return whether two codes have the same instructions."""
    mine, theirs = _inner_codes(code), _inner_codes(other)
    return (
        code.co_code == other.co_code
        and code.co_names == other.co_names
        and code.co_varnames == other.co_varnames
        and _constants(code) == _constants(other)
        and len(mine) == len(theirs)
        and all(map(_is_same, mine, theirs))
    )


def _constants(code: CodeType) -> list[str]:
    """Return the representations of the constants, without codes and qualified names."""
    inner = {name for c in _inner_codes(code) for name in (c.co_qualname,)}
    return [
        "" if isinstance(const, CodeType) or const in inner or _is_qualified(const) else repr(const)
        for const in code.co_consts
    ]


def _is_qualified(const: Any) -> bool:
    return isinstance(const, str) and "<locals>" in const


def _outside_names(code: CodeType) -> set[str]:
    """Return the global and free names that the code reads or sets, and the parameters after the
    state of a program."""
    names = set(code.co_freevars)
    codes = [code]
    for inner in codes:
        codes += _inner_codes(inner)
        opnames = "LOAD_GLOBAL", "STORE_GLOBAL"
        names |= {i.argval for i in dis.get_instructions(inner) if i.opname in opnames}
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if parameters[:1] == ("s",):
        names |= set(parameters[1:])
    return names


class _Rewriter(ast.NodeTransformer):
    """Passes texts, calls, `in` and assignments to outside data through the watchers."""

    def __init__(self, outside: set[str]) -> None:
        self._outside = outside
        self._declared: set[str] = set()  # names in `global` and `nonlocal` statements

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for value in node.values:
            self._visit_formatted(value)
        return _watcher_call("_sgnb_text", node)

    def _visit_formatted(self, value: ast.expr) -> None:
        if isinstance(value, ast.FormattedValue):
            value.value = self.visit(value.value)
            if isinstance(value.format_spec, ast.JoinedStr):  # must stay a plain f-string
                for inner in value.format_spec.values:
                    self._visit_formatted(inner)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _watcher_call("_sgnb_text", node) if isinstance(node.op, ast.Mod) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
                return _watcher_call("_sgnb_contains", left, right)
            case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[right]):
                contains = _watcher_call("_sgnb_contains", left, right)
                return ast.copy_location(ast.UnaryOp(ast.Not(), contains), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        outside = self._outside_root(node.func) if isinstance(node.func, ast.Attribute) else None
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _UNCHANGED:
            return node
        name = ast.copy_location(ast.Constant(outside), node.func)
        watcher = ast.copy_location(ast.Name("_sgnb_call", ast.Load()), node.func)
        return ast.copy_location(
            ast.Call(watcher, [name, node.func, *node.args], node.keywords), node
        )

    def visit_Global(self, node: ast.Global) -> ast.AST:
        self._declared.update(node.names)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        self._declared.update(node.names)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._visit_assignment(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._visit_assignment(node, [node.target])

    def _visit_assignment(self, node: Any, targets: list[Any]) -> ast.AST:
        outside = next(filter(None, map(self._stored_outside, targets)), None)
        self.generic_visit(node)
        if outside is not None:
            name = ast.copy_location(ast.Constant(outside), node)
            node.value = _watcher_call("_sgnb_store", name, node.value)
        return node

    def _stored_outside(self, target: ast.expr) -> str | None:
        if isinstance(target, ast.Name):
            return target.id if target.id in self._declared else None
        return self._outside_root(target)

    def _outside_root(self, node: ast.expr) -> str | None:
        """Return the name at the root of an attribute or item, if the name is outside."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return node.id if isinstance(node, ast.Name) and node.id in self._outside else None


def _watcher_call(name: str, *arguments: ast.expr) -> ast.Call:
    watcher = ast.copy_location(ast.Name(name, ast.Load()), arguments[0])
    return ast.copy_location(ast.Call(watcher, list(arguments), []), arguments[0])
