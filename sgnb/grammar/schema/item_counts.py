"""Checks that arrays of distinct items and objects of distinct names have enough values.

Without the check a text could reach an array that requires another item although every value is
used. An item after `n` items needs `n + 1` values, because the earlier items may use `n` of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from ...errors import GrammarError
from ..automaton.build_limits import BuildLimits, Recursive, TooLarge
from ..finite import fewest_texts
from ..syntax import Node, Rules
from .flat import canonical

if TYPE_CHECKING:
    from ..automaton.automaton import Automaton

_LIMITS = BuildLimits(positions=6_000, building=4_000, work=60_000)
SPELLINGS = 40
"""Upper bound of the number of spellings of a number."""

MOST_COUNTED = 20_000
"""Maximum number of counted texts."""


@dataclass(frozen=True, slots=True)
class DistinctPart:
    """Items or names of which `least` different ones must exist."""

    node: Node
    least: int
    error: GrammarError  # raised if fewer exist


def check_counts(parts: list[DistinctPart], rules: Rules) -> None:
    """Raise the error of the first part with too few values.

    Args:
        parts: parts of the rules.
        rules: rules that the parts refer to.
    """
    for part in parts:
        if part.least > 1 and count_values(part.node, part.least, rules) < part.least:
            raise part.error


def count_values(node: Node, most: int, rules: Rules) -> int:
    """Return the number of different values of JSON texts, at most `most`. Recursive and large
    trees have `most` values.

    Args:
        node: tree of JSON texts.
        most: result for more values.
        rules: rules that the tree refers to.
    """
    enough = SPELLINGS * most
    if fewest_texts(node) >= enough:
        return most
    from ..automaton.automaton import build  # imports numpy, and most schemas need no automaton

    try:
        automaton = build(Rules(node, rules.rules), _LIMITS)
    except (Recursive, TooLarge):
        return most
    except GrammarError:
        return 0
    if count_texts(automaton, enough) >= enough:
        return most
    if enough > MOST_COUNTED:
        return 0
    values = {canonical(json.loads(text, parse_float=Decimal)) for text in _texts(automaton)}
    return min(most, len(values))


def count_texts(automaton: Automaton, most: int) -> int:
    """Return the number of texts, at most `most`.

    Args:
        automaton: automaton of the texts.
        most: result for more texts.
    """
    from ..automaton.dfa import START

    rows = automaton.table.tolist()
    sizes = [0] * automaton.table.shape[1]
    for kind in automaton.classes.tolist():
        sizes[kind] += 1
    counts: dict[int, int] = {START: 1}
    total = 0

    for _ in range(automaton.states + 1):
        total += sum(count for state, count in counts.items() if automaton.final[state])
        if total >= most:
            return most
        after: dict[int, int] = {}
        for state, count in counts.items():
            for kind, target in enumerate(rows[state]):
                if target:  # 0 is dead
                    after[target] = min(most, after.get(target, 0) + count * sizes[kind])
        counts = after
        if not counts:
            return total
    return most  # a path longer than the number of states has a cycle


def _texts(automaton: Automaton) -> Iterator[bytes]:
    """Yield the texts of an automaton without cycles."""
    from ..automaton.dfa import START

    paths = [(START, b"")]
    while paths:
        state, text = paths.pop()
        if automaton.final[state]:
            yield text
        for byte in automaton.next_bytes(state):
            step = bytes([byte])
            paths.append((automaton.step(state, step), text + step))
