"""Word problems of two steps about money, ways, ages, time and the like."""

from __future__ import annotations

from ..tables import table
from .problem_schema import Schema

DATA = table("problem_measures")

MEASURES = DATA.get("measures", tuple[Schema, ...])
