"""Readers of the arguments of an engine's public methods.

Each reader returns plain Python values in new containers, or raises an OptionError that names the
argument. The engine's thread compares and hashes the values: a caller's subclass, an unhashable
value or a list that changes later must not reach the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import OptionError, shown
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
    given_outputs: list[list[int]]


CacheScopes = Sequence[CacheScope] | None
"""A scope per prompt; None: the default."""

_count = integer(0)
_ORIGIN_TYPES = tuple(map(type, NO_ORIGIN))


def number(name: str, value: Any) -> int:
    """Return an integer of 0 or more. Accepts scalars of numpy and torch."""
    return read_option(name, value, "an integer of 0 or more", _count)


def optional_number(name: str, value: Any) -> int | None:
    """Check that `value` is None or an integer of 0 or more, and return the value."""
    return None if value is None else number(name, value)


def optional_string(name: str, value: Any) -> str | None:
    """Check that `value` is None or a string, and return the value."""
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


def submission(
    prompts: Any,
    params: Any,
    on_outputs: Any,
    origins: Any,
    cache_scopes: Any,
    given_outputs: Any,
) -> Submission:
    """Return the arguments of `Engine.submit`, with defaults for None."""
    prompts = items("prompts", prompts)
    count = len(prompts)

    def each(name: str, values: Any, fits: Callable[[Any], bool], hint: str) -> list[Any]:
        """Return a list of `count` values that fit."""
        listed = items(name, values)
        if len(listed) != count:
            problem = f"{len(listed)} {name} for {count} prompts"
            raise OptionError(problem, "give one per prompt")
        for value in listed:
            if not fits(value):
                raise OptionError(f"{name}={shown(value)} is not allowed", f"give a list of {hint}")
        return listed

    origins = [NO_ORIGIN] * count if origins is None else origins
    cache_scopes = [SHARED] * count if cache_scopes is None else cache_scopes
    given_outputs = [()] * count if given_outputs is None else given_outputs
    outputs = each("given_outputs", given_outputs, lambda value: True, "lists of token ids")
    return Submission(
        prompts,
        each("params", params, lambda value: type(value) is SamplingParams, "SamplingParams"),
        each("on_outputs", on_outputs, callable, "functions"),
        each(
            "origins",
            origins,
            _is_origin,
            "Origin, of strings of whole characters and the number of a line",
        ),
        each(
            "cache_scopes",
            cache_scopes,
            _is_cache_scope,
            "CacheScope, with a string of whole characters or None as namespace",
        ),
        [_token_ids(output) for output in outputs],
    )


def _token_ids(output: Any) -> list[int]:
    return [number("given_outputs", token) for token in items("given_outputs", output)]


def _is_origin(value: Any) -> bool:
    if type(value) is not Origin or tuple(map(type, value)) != _ORIGIN_TYPES:
        return False
    return _is_whole("".join(value[:-1]))


def _is_cache_scope(value: Any) -> bool:
    if type(value) is not CacheScope:
        return False
    types = [(str, type(None)), (bool,), (int,), (int,)]
    pairs = zip(value, types, strict=True)
    if value is SHARED:
        return True
    return all(type(item) in allowed for item, allowed in pairs) and _is_whole(value[0] or "")


def _is_whole(text: str) -> bool:
    """Return False if the text contains half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def items(name: str, values: Any) -> list[Any]:
    """Return the items of a list or another iterable; refuse texts and mappings."""

    def read(values: Any) -> list[Any]:
        if isinstance(values, (str, bytes, Mapping)):
            raise TypeError
        return list(values)

    return read_option(name, values, "a list", read)
