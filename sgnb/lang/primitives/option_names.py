"""The two names of a token limit: `max_tokens` for users, `max_new_tokens` in SGLang's `run`.

Each function accepts both names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import OptionError, shown

SHORT_NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}
"""Name for users -> name in `SamplingParams`."""


def with_long_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under their names in `SamplingParams`.

    Raises:
        OptionError: Both names of an option have a value.
    """
    named: dict[str, Any] = {}
    for name, value in options.items():
        long = SHORT_NAMES.get(name, name)
        if long != name and options.get(long) is not None:
            message = f"{name}={shown(value)} and {long}={shown(options[long])} exclude each other"
            raise OptionError(message, f"pass {name} only")
        if named.get(long) is None:
            named[long] = value
    return named
