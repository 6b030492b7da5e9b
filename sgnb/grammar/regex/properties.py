r"""Unicode properties of `\p{...}`: general categories, scripts, script extensions and binary
properties such as `Alphabetic`.

The package `regex`, a requirement of transformers, has the tables and names. Case and `_` of a name
do not count (Unicode Technical Standard 18). Knows no pattern syntax.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from importlib.metadata import version

from ..syntax import Ranges
from .characters import complement, runs

EXAMPLES = r"write \p{Script=Greek}, \p{Lu} or \p{Alphabetic}"

_NAME = re.compile(r"(?:(\w+)=)?(\w+)", re.ASCII)
_KEYS = {
    "GC": "gc", "GENERALCATEGORY": "gc", "SC": "sc", "SCRIPT": "sc",
    "SCX": "scx", "SCRIPTEXTENSIONS": "scx",
}  # fmt: skip


@lru_cache(maxsize=256)
def property_ranges(name: str, negated: bool = False) -> Ranges | None:
    r"""Return the characters of a property, in the Unicode version of `regex`.

    Args:
        name: text between the braces, such as `Lu`, `Script=Greek` or `scx=Grek`.
        negated: True for `\P{...}`.

    Returns:
        The characters without surrogates; None for an unknown name.
    """
    import regex  # 30 ms, and few patterns have properties

    for query in _queries(name):
        try:
            pattern = regex.compile(rf"\p{{{query}}}+")
        except regex.error:
            continue
        return complement(runs(pattern)) if negated else runs(pattern)
    return None


def nearest_property(name: str) -> str:
    r"""Return a hint for an unknown name: the nearest known name.

    Args:
        name: text between the braces.
    """
    from regex._regex_core import PROPERTIES  # the only list of the names

    match = _NAME.fullmatch(name)
    if match is None:
        return EXAMPLES
    key, value = _KEYS.get(_plain(match[1] or "")), _plain(match[2])
    if match[1] and key is None:
        return (
            f"properties with values are General_Category, Script and Script_Extensions; {EXAMPLES}"
        )
    scripts, categories = PROPERTIES["SCRIPT"][1], PROPERTIES["GC"][1]
    if match[1] is None and value in scripts:
        return rf"write \p{{Script={match[2]}}}"

    binary = {key for key, (_, values) in PROPERTIES.items() if "YES" in values}
    names = categories if key == "gc" else scripts if key else binary | categories.keys()
    close = difflib.get_close_matches(value, names, 1)
    prefix = f"{match[1]}=" if key else ""
    return rf"did you mean \p{{{prefix}{close[0].title()}}}?" if close else EXAMPLES


def tables_version(text: str) -> str:
    """Return the version of a grammar's tables; empty without properties.

    Args:
        text: pattern, schema or grammar.
    """
    return version("regex") if re.search(r"\\[pP]\{", text) else ""


def _queries(name: str) -> tuple[str, ...]:
    """Return the names to look up. `regex` alone would accept blocks, and scripts without a key."""
    match = _NAME.fullmatch(name)
    if match is None:
        return ()
    key, value = _KEYS.get(_plain(match[1] or "")), match[2]
    if match[1]:
        return (f"{key}={value}",) if key else ()
    return ("Block=ASCII",) if _plain(value) == "ASCII" else (f"gc={value}", f"{value}=Yes")


def _plain(name: str) -> str:
    return name.replace("_", "").upper()
