"""Requests and sampling parameters as data."""

from __future__ import annotations

from typing import Any

import msgspec

from ...engine.cache.sequence import CacheScope
from ...engine.request.request_state import Origin
from ...errors import OptionError
from ...sampling import SamplingParams
from .wire import SAME_VERSION

_DEFAULTS = {name: getattr(SamplingParams(), name) for name in SamplingParams.__dataclass_fields__}
WireParams = dict[str, Any]
"""Fields of `SamplingParams` with other values than the defaults."""


class WireRequests(msgspec.Struct, array_like=True):
    """Arguments of `Engine.submit`. Outputs carry the tags `first_tag`, `first_tag` + 1, ..."""

    first_tag: int
    prompts: list[bytes]  # int32
    params: list[WireParams]  # without repetitions
    which: list[int]  # index into `params` per prompt
    stream: bool
    origins: list[Origin]
    cache_scopes: list[CacheScope]
    given_outputs: list[list[int]]


class WireSeam(msgspec.Struct, array_like=True):
    """Arguments of `Engine.seam_warnings`."""

    params: WireParams
    last_token: int


def write_params(params: SamplingParams) -> WireParams:
    """Return sampling parameters as data."""
    values = {name: getattr(params, name) for name in _DEFAULTS}
    if params.seed is not None:
        values["seed"] = params.seed % (1 << 64)  # as the engine does
    return {name: value for name, value in values.items() if value != _DEFAULTS[name]}


def read_params(fields: WireParams) -> SamplingParams:
    """Return the sampling parameters of received data. Raises OptionError for other data."""
    try:
        return msgspec.convert(fields, SamplingParams)
    except msgspec.ValidationError as error:
        message = f"the sampling parameters are not valid: {error}"
        raise OptionError(message, SAME_VERSION) from None
