"""What in a schema asks nothing of a value and looks as if it should: a keyword that is spelled
almost like a known one, a format that nobody knows. The specification reads both as annotations."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .formats import FORMATS, NUMBER_FORMATS
from .index import SchemaIndex
from .keywords import ENFORCED, KEYWORDS

NEAR = 0.8
"""Of `difflib`: `minLenght` is near `minLength`, `x-order` is near nothing."""

_ENFORCED = {name.lower(): name for name, known in KEYWORDS.items() if known.state == ENFORCED}


@lru_cache(64)
def suspects(text: str) -> tuple[str, ...]:
    """A line for each, with its place. text: a schema that can be translated."""
    schema = json.loads(text)
    index = SchemaIndex(schema)
    found: dict[str, None] = {}
    for inner in index.schemas():
        for what, hint in _suspects(inner):
            keyword = what.partition(" ")[0]
            found[f"{what} at {index.pointer(inner, keyword)} asks nothing: {hint}"] = None
    return tuple(found)


def _suspects(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for keyword in schema:
        if keyword not in KEYWORDS:
            near = difflib.get_close_matches(keyword.lower(), _ENFORCED, 1, NEAR)
            if near:
                yield keyword, f"did you mean {_ENFORCED[near[0]]!r}?"
    name = schema.get("format")
    if isinstance(name, str) and name not in FORMATS and name not in NUMBER_FORMATS:
        near = difflib.get_close_matches(name, FORMATS, 1, NEAR)
        hint = f"did you mean {near[0]!r}?" if near else "say it with pattern if it matters"
        yield f"format {name!r:.60}", hint
