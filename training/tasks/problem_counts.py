"""Word problems of two steps about things and people that are counted."""

from __future__ import annotations

from ..tables import table
from .problem_schema import Schema

DATA = table("problem_counts")

COUNTS = DATA.get("counts", tuple[Schema, ...])
