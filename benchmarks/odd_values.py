"""Eighty odd values for arguments: numbers beyond limits, nested containers, scalars of libraries,
and classes with methods that raise or lie."""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import sgnb
from sgnb.engine.cache.sequence import CacheScope
from sgnb.segment import Segment


class HostileText(str):
    """A string whose comparisons raise."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hostile comparison")

    def __str__(self) -> str:
        raise RuntimeError("hostile text")


class UnhashableText(str):
    """A string that no dictionary takes."""

    __hash__ = None  # type: ignore[assignment]


class LyingText(str):
    """A string that equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __len__(self) -> int:
        return 1 << 40


class HostileNumber(int):
    """An integer whose comparisons and conversions raise."""

    __hash__ = int.__hash__

    def _raise(self, *others: Any) -> Any:
        raise RuntimeError("hostile number")

    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __int__ = __index__ = _raise


class LyingNumber(int):
    """An integer below 0 that passes for a large one."""

    def __lt__(self, other: object) -> bool:
        return False

    def __int__(self) -> int:
        return 5

    __gt__ = __le__ = __lt__


class OddIndex:
    """An index that is a text."""

    def __index__(self) -> Any:
        return "5"


class Attributes:
    """Every attribute raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Unprintable:
    """Its `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("unprintable")


class Undecided:
    """Neither true nor false."""

    def __bool__(self) -> bool:
        raise RuntimeError("undecided")


class Uncounted:
    """A container with a negative length and unreadable items."""

    def __len__(self) -> int:
        return -1

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("unreadable")


class Disguised:
    """Says that it is a string."""

    __class__ = str  # type: ignore[assignment]


class Changing(list[Any]):
    """A list that grows while it is read."""

    def __iter__(self) -> Iterator[Any]:
        for item in [5, 6, 7]:
            self.append(item)
            yield item


class HostileMap(dict[Any, Any]):
    """A dictionary whose items cannot be read."""

    def keys(self) -> Any:
        raise RuntimeError("hostile keys")

    items = __iter__ = keys


class OwnParams(sgnb.SamplingParams):
    """Options of a class of the user's."""

    __slots__ = ()


def raising_generator() -> Iterator[int]:
    yield 5
    raise RuntimeError("in a generator")


def endless_list() -> list[Any]:
    items: list[Any] = [5]
    items.append(items)
    return items


def deep_list() -> list[Any]:
    items: list[Any] = []
    for _ in range(sys.getrecursionlimit() + 10):
        items = [items]
    return items


CONSTANTS: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 10**5000,
    1.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 1j,
    decimal.Decimal("NaN"), fractions.Fraction(1, 3),
    "", "x", "17", "\ud800", "\0", "a" * 3000, b"", b"abc", bytearray(b"ab"), memoryview(b"ab"),
    [None], [[1]], [1, "a"], ["a", 1], (), {1: 2}, {"a": 1}, frozenset({1}), range(40),
    len, ..., NotImplemented, Exception("x"), sys, pathlib.Path("x"),
    datetime.datetime(2026, 1, 1),
    np.int64(3), np.int8(-1), np.float32("nan"), np.bool_(True), np.array(3), np.array([[1], [2]]),
    np.array(["a"]), np.array([None]), np.zeros(0),
    torch.tensor(3), torch.tensor(2.5), torch.ones(2), torch.tensor([[1, 2]]), torch.zeros(0),
    CacheScope(), Segment("a"), slice(1, 3),
]  # fmt: skip

MADE: list[Callable[[], Any]] = [
    lambda: HostileText("x"), lambda: UnhashableText("x"), lambda: LyingText("x"),
    lambda: HostileNumber(3), lambda: LyingNumber(-5), OddIndex, Attributes, Unprintable, Undecided,
    Uncounted, Disguised, lambda: Changing([5]), lambda: HostileMap(a=1), raising_generator,
    endless_list, deep_list,
]  # fmt: skip
"""Makers of values that a call may use up or change."""

COUNT = len(CONSTANTS) + len(MADE)


def odd(number: int) -> Any:
    """The value of that number, from 0 to `COUNT`."""
    return CONSTANTS[number] if number < len(CONSTANTS) else MADE[number - len(CONSTANTS)]()
