"""The Python function of a program: source, location, constants, signature, and bound arguments."""

from __future__ import annotations

import copy
import dis
import functools
import inspect
from collections.abc import Callable, Mapping, Set
from inspect import BoundArguments, Parameter, Signature
from types import CellType
from typing import Any, Self

from ..errors import OptionError, ProgramError, nearest
from ..sampling import SHORT_NAMES, SamplingParams, with_long_names
from .location import Location, caller
from .primitives import lint
from .primitives.program_method import ProgramMethod
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


_OF_ONE_CALL = ("regex", "json_schema", "ebnf", "json_whitespace", "json_strict", "thinking")
DEFAULTS = tuple(name for name in SamplingParams.names() if name not in _OF_ONE_CALL)
"""Sampling parameters that a run may set for all generations."""

_INTERNAL = {
    "func", "bound", "is_async", "special_tokens", "keep_tokens", "num_api_spec_tokens",
    "explain_graph", "graph_for", "signature",
}  # fmt: skip
"""Public names that other modules of sgnb use, and that completion leaves out."""


class BoundFunction:
    """Base class of programs: a function with some arguments bound.

    Args:
        func: Function with the state `s` as the first parameter.
        bound: Values of bound arguments.
        reserved: Names that no parameter may have.
    """

    def __init__(
        self, func: Callable[..., Any], bound: Mapping[str, Any] | None, reserved: Set[str]
    ) -> None:
        self.func = func
        self.bound = dict(bound or {})
        self._signature = signature_without_state(func, reserved)
        self._names = tuple(self._signature.parameters)
        kinds = [parameter.kind for parameter in self._signature.parameters.values()]
        self._open_ended = Parameter.VAR_KEYWORD in kinds
        self._fixed_names: frozenset[str] = frozenset()  # parameters that a graph has fixed

    @ProgramMethod
    def bind(self, **kwargs: Any) -> Self:
        """Return a copy of the program with fixed arguments.

        Args:
            **kwargs: Arguments of the function by name.

        Raises:
            OptionError: The function has no argument of this name.
        """
        self._refuse_unknown(kwargs, self._names)
        fixed = copy.copy(self)
        fixed.bound = {**self.bound, **kwargs}
        return fixed

    @property
    def signature(self) -> Signature:
        """The parameters of the function after the state."""
        return self._signature

    @property
    def arg_names(self) -> list[str]:
        """Names of the function's arguments, without `s`."""
        return list(self._names)

    @property
    def bind_arguments(self) -> dict[str, Any]:
        """Arguments fixed by `bind`."""
        return dict(self.bound)

    def __dir__(self) -> list[str]:
        """Return the names for completion: methods and properties, without internal attributes."""
        return [name for name in object.__dir__(self) if name not in _INTERNAL]

    def __repr__(self) -> str:
        return f"<sgnb program {self.__name__}{self._signature}>"  # type: ignore[attr-defined]

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[BoundArguments, dict[str, Any]]:
        """Split `kwargs` into arguments of the function and sampling defaults."""
        if fixed := sorted(self._fixed_names & kwargs.keys()):
            message = f"{caller()}: the graph of {self.func.__name__} has fixed {fixed[0]!r}"
            raise OptionError(message, f"give the value to the trace: compile({fixed[0]}=...)")
        known = {*DEFAULTS, *SHORT_NAMES}
        keys = [key for key in kwargs if key in known and key not in self._names]
        arguments = {key: value for key, value in kwargs.items() if key not in keys}
        defaults = with_long_names({key: kwargs[key] for key in keys})
        return self._arguments(args, arguments, DEFAULTS), defaults

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], extra_names: tuple[str, ...] = ()
    ) -> BoundArguments:
        self._refuse_unknown(kwargs, (*self._names, *extra_names))
        try:
            return self._signature.bind(*args, **{**self.bound, **kwargs})
        except TypeError as error:
            message = f"{caller()}: {self.func.__name__}: {error}"
            raise OptionError(message, f"its arguments are {self._signature}") from None

    def _refuse_unknown(self, arguments: Mapping[str, Any], names: tuple[str, ...]) -> None:
        for name in arguments:
            if name not in names and not self._open_ended:
                advice = f"it belongs to one generation: gen(..., {name}=...)"
                hint = advice if name in _OF_ONE_CALL else nearest(name, names)
                message = f"{caller()}: {self.func.__name__} has no argument {name!r}"
                raise OptionError(message, hint)
