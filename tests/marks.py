"""Markers of parametrized tests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest


def some_are_slow(cases: Collection[Any], quick: Collection[Any]) -> list[Any]:
    return [f if f in quick else pytest.param(f, marks=pytest.mark.slow) for f in cases]
