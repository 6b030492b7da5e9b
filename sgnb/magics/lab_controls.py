"""Controls of a prompt lab: one per parameter of a program, typed by annotation and default."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Literal, Union

from ..errors import OptionError, shown
from ..lang.source import literal

EMPTY = Parameter.empty
_BY_NAME = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict}
LONG_TEXT = 60
"""Texts from this number of characters have several lines."""


@dataclass(frozen=True)
class Control:
    """Control of a value.

    Attributes:
        name: Name of the parameter.
        kind: "text", "long text", "integer", "number", "checkbox", "choice", "literal", or
            "optional number" (an empty text is None).
        value: Initial value, of the type that the control shows.
        choices: Label and value of each option of a "choice".
    """

    name: str
    kind: str
    value: Any
    choices: tuple[tuple[str, Any], ...] = ()

    def read(self, value: Any) -> Any:
        """Return the argument for a value of the control.

        Raises:
            OptionError: The text of a "literal" or "optional number" is invalid.
        """
        if self.kind == "optional number" and not value.strip():
            return None

        if self.kind not in ("literal", "optional number"):
            return value
        try:
            read = literal(value)
        except (ValueError, SyntaxError):
            message = f"{self.name}: {shown(value)} is not a Python literal"
            raise OptionError(message, 'for example 3, "text" or [1, 2]') from None

        if self.kind == "optional number" and type(read) not in (int, float):
            raise OptionError(f"{self.name}: {shown(value)} is not a number", "for example 0.7")
        return read


def controls_of(program: Any) -> list[Control]:
    """Return a control for each parameter of a program that is not bound."""
    bound = getattr(program, "bind_arguments", {})
    hints = _hints(getattr(program, "func", None))
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [
        _control(name, hints.get(name, parameter.annotation), parameter.default)
        for name, parameter in program.signature.parameters.items()
        if name not in bound and parameter.kind not in kinds
    ]


def setting_controls(names: Iterable[str], engines: list[str]) -> list[Control]:
    """Return controls for sampling parameters, and for the model if several engines are loaded."""
    controls = [Control(name, "optional number", "") for name in names]
    if len(engines) > 1:
        choices = (("current", ""), *((name, name) for name in engines))
        controls.append(Control("model", "choice", "", choices))

    return controls


def _hints(func: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(func)
    except Exception:  # a name that only a type checker knows
        return {}


def _control(name: str, annotation: Any, default: Any) -> Control:
    if isinstance(annotation, str):
        annotation = _BY_NAME.get(annotation, EMPTY)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        members = [one for one in typing.get_args(annotation) if one is not type(None)]
        annotation = members[0] if len(members) == 1 and default is not None else EMPTY

    if annotation is EMPTY and default is not EMPTY:
        annotation = type(default)

    if typing.get_origin(annotation) is Literal:
        choices = tuple((str(value), value) for value in typing.get_args(annotation))
        return _choice(name, choices, default)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _choice(name, tuple((member.name, member) for member in annotation), default)

    if annotation is bool:
        return Control(name, "checkbox", default is True)
    if annotation is int:
        return Control(name, "integer", 0 if default is EMPTY else default)

    if annotation is float:
        return Control(name, "number", 0.0 if default is EMPTY else default)
    if annotation in (str, EMPTY):
        text = "" if default is EMPTY else str(default)
        is_long = len(text) >= LONG_TEXT or "\n" in text
        return Control(name, "long text" if is_long else "text", text)

    return Control(name, "literal", "" if default is EMPTY else repr(default))


def _choice(name: str, choices: tuple[tuple[str, Any], ...], default: Any) -> Control:
    return Control(name, "choice", choices[0][1] if default is EMPTY else default, choices)
