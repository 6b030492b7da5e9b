"""Methods with the parameters of a program, so that Python's tools complete `f.run(` with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from types import CodeType
from typing import Any


class ProgramMethod:
    """A method of a program that takes the arguments of the program's function.

    `inspect.signature`, `help` and completion show the parameters of the function, then the
    keyword parameters of the method.

    Args:
        method: The function of the method, with `*args` or `**kwargs` for the program's arguments.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, program: Any, owner: type) -> Any:
        return self.method if program is None else BoundProgramMethod(self.method, program)


class BoundProgramMethod:
    """A `ProgramMethod` of one program."""

    def __init__(self, method: Callable[..., Any], program: Any) -> None:
        self.__func__, self.__self__ = method, program
        self.__name__, self.__qualname__ = method.__name__, method.__qualname__
        self.__doc__, self.__module__ = method.__doc__, method.__module__
        # The attributes of a function, for `inspect.iscoroutinefunction`
        self.__code__: CodeType = method.__code__
        self.__defaults__, self.__kwdefaults__ = method.__defaults__, method.__kwdefaults__
        self.__annotations__ = method.__annotations__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        return with_program_parameters(inspect.signature(self.__func__), self.__self__)

    def __repr__(self) -> str:
        return f"<method {self.__name__} of {self.__self__!r}>"


def _described_batch(batch: Parameter, program: Any) -> Parameter:
    """Return the parameter for rows, annotated with the parameters of `program`."""
    names = [name for name in program.signature.parameters if name not in program.bound]
    return batch.replace(annotation=f"rows of ({', '.join(names)})")


def with_program_parameters(method: Signature, program: Any) -> Signature:
    """Return the signature of a method with the parameters of `program` instead of `*args` and
    `**kwargs`. Bound arguments are optional, and keyword-only without `*args`."""
    own = [*method.parameters.values()][1:]
    if own and own[0].name == "batch":
        return method.replace(parameters=[_described_batch(own[0], program), *own[1:]])
    takes_positional = any(p.kind is Parameter.VAR_POSITIONAL for p in own)
    positional, by_keyword = [], []
    for parameter in program.signature.parameters.values():
        if parameter.name in program.bound:
            default = program.bound[parameter.name]
            parameter = parameter.replace(default=default, kind=Parameter.KEYWORD_ONLY)
        if takes_positional and parameter.kind <= Parameter.VAR_POSITIONAL:
            positional.append(parameter)
        elif parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            by_keyword.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    options = [p for p in own if p.kind is Parameter.KEYWORD_ONLY]
    open_ended = [p for p in own if p.kind is Parameter.VAR_KEYWORD]
    return method.replace(parameters=[*positional, *by_keyword, *options, *open_ended])
