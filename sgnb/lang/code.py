"""The Python function behind a program: its text, where it stands, and what it reads."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Set
from inspect import Parameter, Signature
from types import CellType
from typing import Any

from ..errors import ProgramError
from .location import Location, caller
from .primitives import lint
from .source import source_of


class Code:
    """The text of `func`, and its place.

    source: all of the text, "" where it is not known. body: the part of it that is the program,
    from `first_line` of its file.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        source: str | None = None,
        body: str | None = None,
        first_line: int | None = None,
    ) -> None:
        self.func = func
        code = getattr(inspect.unwrap(func), "__code__", None)
        self._file: str | None = getattr(code, "co_filename", None)
        self._source = source
        self._body = body
        self.first_line: int = first_line or (1 if code is None else code.co_firstlineno)
        self._checked = False

    @functools.cached_property
    def source(self) -> str:
        return source_of(self.func) if self._source is None else self._source

    @property
    def body(self) -> str:
        return self.source if self._body is None else self._body

    @functools.cached_property
    def location(self) -> Location | None:
        """Of `source`."""
        before = self.source.count("\n") - self.body.count("\n")
        return None if self._file is None else Location(self._file, self.first_line - before)

    def check(self) -> None:
        """See `lint.check`; once."""
        if not self._checked:
            lint.check(self.func, self.body, self.first_line)
            self._checked = True

    def constants(self) -> dict[str, str]:
        """The texts, numbers and tuples outside of `func` that its code reads and does not set."""
        return _constants(self.func)


class GraphCode(Code):
    """Of a program that runs a graph: the text and place are those of the code that was traced, and
    `listing`, the graph's lines, tells two graphs of it apart."""

    def __init__(
        self, func: Callable[..., Any], source: str, listing: str, location: Location | None
    ) -> None:
        super().__init__(func, source, f"{source}\n{listing}")
        self.location = location

    def check(self) -> None:
        """Nothing: the code was checked when it was traced."""


def signature_without_state(func: Callable[..., Any], taken: Set[str]) -> Signature:
    """The signature of `func` less its first argument, which must be `s`. ProgramError for what is
    no program, or has an argument of a name that is `taken`."""
    if isinstance(func, functools.partial):
        hint = "make a program of the function, and fix its arguments: program.bind(name=value)"
        raise ProgramError(f"{caller()}: {func!r} cannot be a program", hint)
    if (
        not callable(func)
        or not hasattr(func, "__name__")
        or inspect.isgeneratorfunction(func)
        or inspect.isasyncgenfunction(func)
    ):
        hint = "a program is a function: def name(s, ...)"
        raise ProgramError(f"{caller()}: {func!r} cannot be a program", hint)
    signature = inspect.signature(func)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].name != "s":
        first = f"is {parameters[0].name!r}" if parameters else "is missing"
        message = f"{caller()}: the first argument of {func.__name__} {first}"
        raise ProgramError(message, "name it s, for the state")
    if wrong := [one.name for one in parameters if one.name in taken]:
        what = f"{func.__name__} cannot have an argument {wrong[0]!r}"
        hint = "call it by another name: run() has an argument of that name"
        raise ProgramError(f"{caller()}: {what}", hint)
    return signature.replace(parameters=parameters[1:])


def arguments_of(method: Callable[..., Any]) -> Set[str]:
    """The names by which a method takes arguments."""
    kinds = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    parameters = inspect.signature(method).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind in kinds}


def _constants(func: Callable[..., Any]) -> dict[str, str]:
    func = inspect.unwrap(func)
    if not inspect.isfunction(func):
        return {}
    cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=True)
    around = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    codes = [func.__code__]
    for code in codes:
        codes += filter(inspect.iscode, code.co_consts)
    steps = {(step.opname, step.argval) for code in codes for step in dis.get_instructions(code)}
    outside = func.__globals__ | around
    read = around.keys() | {name for what, name in steps if what == "LOAD_GLOBAL"}
    written = {name for what, name in steps if what in ("STORE_GLOBAL", "STORE_DEREF")}
    values = {name: outside.get(name) for name in read - written}
    return {k: repr(v) for k, v in values.items() if isinstance(v, str | int | float | tuple)}
