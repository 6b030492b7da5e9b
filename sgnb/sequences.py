"""Comparison of sequences, and depth of nested values. Imports no other sgnb module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common_length(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the length of the longest common prefix.

    Uses bisection, because comparing slices is much faster than comparing items. Not for arrays.
    """
    if type(a) is not type(b):  # slices of different types are never equal
        a, b = tuple(a), tuple(b)

    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def exceeds_depth(value: Any, depth: int) -> bool:
    """Return whether lists and dicts are nested in more than `depth` levels.

    Python's JSON parser stops at the recursion limit up to version 3.11, and much later since.
    """
    level = [value]
    for _ in range(depth):
        parents = [parent for parent in level if isinstance(parent, list | dict)]
        if not parents:
            return False
        level = [
            child
            for parent in parents
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return any(isinstance(value, list | dict) for value in level)
