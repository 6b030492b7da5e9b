"""Typed values of variables: a generated text as an instance of a type, and the probabilities of a
select. Knows no state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from ...errors import AnswerError, OptionError, ProgramError, shown
from ..location import caller


def typed(name: str, value: Any, type_: Any) -> Any:
    """Return the value of the variable `name` as an instance of a type.

    Args:
        name: The variable, for messages.
        value: A text or an instance of the type; a list for several samples.
        type_: A pydantic model, a dataclass, a TypedDict, or a type such as `int` or `list[str]`.

    Raises:
        AnswerError: A text is not a value of the type.
        OptionError: `type_` is not a type that pydantic can validate.
    """
    adapter = _adapter(type_)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [_validated(name, item, type_, adapter) for item in value]
    return _validated(name, value, type_, adapter)


def _validated(name: str, value: Any, type_: Any, adapter: TypeAdapter[Any]) -> Any:
    if type_ is str and isinstance(value, str):
        return value
    try:
        if not isinstance(value, str):
            return adapter.validate_python(value)
        if type_ in (int, float, bool):  # the text of a `dtype` is a Python literal
            return adapter.validate_python(value.strip())
        return adapter.validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        kind = f"s[{name!r}] is {shown(value)}, which is not a valid {_type_name(type_)}"
        hint = f"use gen({name!r}, json_schema={_type_name(type_)}) with enough max_tokens"
        raise AnswerError(f"{caller()}: {kind}: {reason}", hint) from None


def _adapter(type_: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(type_) if isinstance(type_, Hashable) else TypeAdapter(type_)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        message = f"{caller()}: {shown(type_)} is not a type of values"
        raise OptionError(message, "pass a pydantic model, a dataclass or a type") from None


_cached_adapter = lru_cache(maxsize=256)(TypeAdapter)


def _type_name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)


def probabilities_of(name: str, meta: Any) -> dict[str, float]:
    """Return the probability of each choice from the meta information of a select.

    Raises:
        ProgramError: The variable is not of a select, or the model reported no scores.
    """
    if not isinstance(meta, Mapping) or "probabilities" not in meta:
        message = f"{caller()}: s[{name!r}] has no probabilities"
        raise ProgramError(message, "only a select has them, on a model that reports scores")
    return dict(meta["probabilities"])
