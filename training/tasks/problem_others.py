"""Word problems of one step and of three or four."""

from __future__ import annotations

from ..tables import table
from .problem_schema import Schema

DATA = table("problem_others")

ONE_STEP = DATA.get("one_step", tuple[Schema, ...])
THREE_STEP = DATA.get("three_step", tuple[Schema, ...])
