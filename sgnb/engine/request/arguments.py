"""Readers of the arguments of an engine's public methods.

Each reader returns plain Python values in new containers, or raises an OptionError that names the
argument. The engine's thread compares and hashes the values: a caller's subclass, an unhashable
value or a list that changes later must not reach the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...errors import OptionError, shown
from ...reservation import Reservation
from ...sampling import SamplingParams, integer, read_option, text
from ...sampling import switch as read_switch
from ..cache.sequence import SHARED, CacheScope
from .request_state import NO_ORIGIN, OnOutput, Origin


class Submission(NamedTuple):
    """The arguments of `Engine.submit`, in lists of one length."""

    prompts: list[Any]
    params: list[SamplingParams]
    on_outputs: list[OnOutput]
    origins: list[Origin]
    cache_scopes: list[CacheScope]


_count = integer(0)
_ORIGIN_TYPES = tuple(map(type, NO_ORIGIN))


def number(name: str, value: Any) -> int:
    """Return an integer of 0 or more. Accepts scalars of numpy and torch."""
    return read_option(name, value, "an integer of 0 or more", _count)


def optional_number(name: str, value: Any) -> int | None:
    """Return None, or an integer of 0 or more."""
    return None if value is None else number(name, value)


def optional_string(name: str, value: Any) -> str | None:
    """Return None, or a string."""
    return None if value is None else string(name, value)


def string(name: str, value: Any) -> str:
    """Return a string."""
    return read_option(name, value, "a string", text)


def switch(name: str, value: Any) -> bool:
    """Return True or False."""
    return read_option(name, value, "True or False", read_switch)


def ids(value: Any) -> list[int]:
    """Return the ids in a request id or a list of ids; `Output.id` holds an id as digits."""

    def read(value: Any) -> list[int]:
        if isinstance(value, str) or not isinstance(value, Iterable) or _is_scalar(value):
            return [_id(value)]
        return [_id(item) for item in value]

    return read_option("request", value, "the id of a request, or a list of ids", read)


def _id(value: Any) -> int:
    return int(text(value)) if isinstance(value, str) else _count(value)


def _is_scalar(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0


def reservation(value: Any) -> Reservation:
    """Return a Reservation, whose constructor has checked the fields."""
    if type(value) is not Reservation:  # a subclass may compare as equal to others
        raise OptionError(f"reservation={shown(value)} is not allowed", "give a Reservation")
    return value


def submission(
    prompts: Any, params: Any, on_outputs: Any, origins: Any, cache_scopes: Any
) -> Submission:
    """Return the arguments of `Engine.submit`, with defaults for None."""
    prompts = items("prompts", prompts)
    count = len(prompts)
    return Submission(
        prompts,
        _each("params", params, _params, count),
        _each("on_outputs", on_outputs, _callback, count),
        [NO_ORIGIN] * count if origins is None else _each("origins", origins, _origin, count),
        [SHARED] * count
        if cache_scopes is None
        else _each("cache_scopes", cache_scopes, _cache_scope, count),
    )


def _cache_scope(value: Any) -> CacheScope:
    if value is SHARED:
        return SHARED
    if type(value) is CacheScope:
        types = [(str, type(None)), (bool,), (int,), (Reservation, type(None))]
        if all(type(item) in allowed for item, allowed in zip(value, types, strict=True)):
            return value
    hint = "give a list of CacheScope, with a string or None as namespace"
    raise OptionError(f"cache_scopes={shown(value)} is not allowed", hint)


def _origin(value: Any) -> Origin:
    if type(value) is Origin and tuple(map(type, value)) == _ORIGIN_TYPES:
        return value
    hint = "give a list of Origin, of strings and the number of a line"
    raise OptionError(f"origins={shown(value)} is not allowed", hint)


def _params(value: Any) -> SamplingParams:
    if type(value) is not SamplingParams:
        raise OptionError(f"params={shown(value)} is not allowed", "give a list of SamplingParams")
    return value


def _callback(value: Any) -> OnOutput:
    if not callable(value):
        raise OptionError(f"on_outputs={shown(value)} is not allowed", "give a list of functions")
    callback: OnOutput = value
    return callback


def _each(name: str, values: Any, read: Callable[[Any], Any], count: int) -> list[Any]:
    """Return a list of `count` values, each read by `read`."""
    listed = items(name, values)
    if len(listed) != count:
        raise OptionError(f"{len(listed)} {name} for {count} prompts", "give one for each prompt")
    return [read(item) for item in listed]


def items(name: str, values: Any) -> list[Any]:
    """Return the items of a list or another iterable, but not the letters of a text."""

    def read(values: Any) -> list[Any]:
        if isinstance(values, (str, bytes, Mapping)):
            raise TypeError
        return list(values)

    return read_option(name, values, "a list", read)
