"""Warnings about schema parts that constrain nothing but look like constraints: misspelled keywords
and unknown formats. The specification treats both as annotations."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .index import SchemaIndex
from .keywords import ENFORCED, KEYWORDS
from .string_formats import FORMATS, NUMBER_FORMATS

NEAR = 0.8
"""Cutoff of `difflib`: `minLenght` is close to `minLength`, `x-order` is close to no keyword."""

_ENFORCED = {name.lower(): name for name, entry in KEYWORDS.items() if entry.state == ENFORCED}


@lru_cache(64)
def lint_schema(text: str) -> tuple[str, ...]:
    """Return a warning with the position of each suspicious keyword or format.

    Args:
        text: JSON text of a translatable schema.
    """
    schema = json.loads(text)
    index = SchemaIndex(schema)
    warnings: dict[str, None] = {}
    for inner in index.schemas():
        for subject, hint in _findings(inner):
            keyword = subject.partition(" ")[0]
            warnings[f"{subject} at {index.pointer(inner, keyword)} has no effect: {hint}"] = None
    return tuple(warnings)


def _findings(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for keyword in schema:
        if keyword not in KEYWORDS:
            near = difflib.get_close_matches(keyword.lower(), _ENFORCED, 1, NEAR)
            if near:
                yield keyword, f"did you mean {_ENFORCED[near[0]]!r}?"
    name = schema.get("format")
    if isinstance(name, str) and name not in FORMATS and name not in NUMBER_FORMATS:
        near = difflib.get_close_matches(name, FORMATS, 1, NEAR)
        hint = f"did you mean {near[0]!r}?" if near else "use pattern to enforce the form"
        yield f"format {name!r:.60}", hint
