"""Source, location, signature and constants of a program's Python function."""

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
    """Source and location of `func`.

    Args:
        func: The program's function.
        source: The whole source, for example of a cell; the source of `func` if None.
        body: The part of `source` with the program; all of `source` if None.
        first_line: The line of `body` in the file; the first line of `func` if None.
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
        """Location of `source`."""
        offset = self.source.count("\n") - self.body.count("\n")
        return None if self._file is None else Location(self._file, self.first_line - offset)

    def check(self) -> None:
        """Run `lint.check` once."""
        if not self._checked:
            lint.check(self.func, self.body, self.first_line)
            self._checked = True

    def constants(self) -> dict[str, str]:
        """Return the representations of strings, numbers and tuples that the code reads from
        outside of `func` and does not set, by name."""
        return _constants(self.func)


class GraphCode(Code):
    """Source and location of a graph's program. The lines of the graph (`listing`) distinguish
    several graphs of a program.

    Args:
        constants: Returns the constants of the traced program; None for none.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        source: str,
        listing: str,
        location: Location | None,
        constants: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        super().__init__(func, source, f"{source}\n{listing}")
        self.location = location
        self._constants = constants

    def check(self) -> None:
        """Do nothing: the trace checked the code."""

    def constants(self) -> dict[str, str]:
        """Return the constants of the traced program, if the code of the program runs."""
        return {} if self._constants is None else self._constants()


def signature_without_state(func: Callable[..., Any], reserved: Set[str]) -> Signature:
    """Return the signature of `func` without the first argument `s`.

    Raises:
        ProgramError: `func` is not a function of a state, or has an argument with a `reserved`
            name.
    """
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
    if clashes := [p.name for p in parameters if p.name in reserved]:
        reason = f"{func.__name__} cannot have an argument {clashes[0]!r}"
        hint = "call it by another name: run() has an argument of that name"
        raise ProgramError(f"{caller()}: {reason}", hint)
    return signature.replace(parameters=parameters[1:])


def arguments_of(method: Callable[..., Any]) -> Set[str]:
    """Return the names of a method's arguments."""
    kinds = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    parameters = inspect.signature(method).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind in kinds}


def _constants(func: Callable[..., Any]) -> dict[str, str]:
    func = inspect.unwrap(func)
    if not inspect.isfunction(func):
        return {}
    cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=True)
    closure = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    codes = [func.__code__]
    for code in codes:
        codes += filter(inspect.iscode, code.co_consts)

    steps = {(step.opname, step.argval) for code in codes for step in dis.get_instructions(code)}
    read = closure.keys() | {name for opname, name in steps if opname == "LOAD_GLOBAL"}
    written = {name for opname, name in steps if opname in ("STORE_GLOBAL", "STORE_DEREF")}
    outside = func.__globals__ | closure
    values = {name: outside.get(name) for name in read - written}
    return {k: repr(v) for k, v in values.items() if isinstance(v, str | int | float | tuple)}
