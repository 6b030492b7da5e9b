"""Regex search in a text by automaton: linear in the text, while `re` may backtrack."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...errors import GrammarError, shown
from ..automaton.build_limits import BuildLimits
from ..regex.parser import parse
from ..syntax import Rules

if TYPE_CHECKING:
    from ..automaton.automaton import Automaton

LIMITS = BuildLimits(positions=40_000, building=16_000, work=500_000)


@lru_cache(maxsize=512)
def compile_search(pattern: str) -> Automaton:
    """Compile the texts in which `re.search` finds `pattern`.

    Args:
        pattern: regex in the syntax of Python's `re`.

    Raises:
        GrammarError: the pattern is invalid, not regular, or exceeds `LIMITS`.
    """
    from ..automaton.automaton import build  # imports numpy, and most schemas need no search

    try:
        return build(Rules(parse(pattern, whole=False)), LIMITS)
    except GrammarError as error:
        message = f"pattern {shown(pattern)} cannot be checked: {error.message}"
        raise GrammarError(message, error.hint) from None


def occurs(pattern: str, text: str) -> bool:
    """Return True if `re.search` finds `pattern` in `text`. A lone surrogate matches nothing.

    Args:
        pattern: regex in the syntax of Python's `re`.
        text: text to search.

    Raises:
        GrammarError: see `compile_search`.
    """
    return compile_search(pattern).accepts(text.encode("utf-8", "surrogatepass"))
