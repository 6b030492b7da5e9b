"""Sums under `dtype=int` and an integer schema: the border between a prompt and a value.

The bundled model answers 60 sums after `12 + 34 =`, at temperature 0, as free text and under
constraints. A constraint that forbids the blank before the number costs right answers.
"""

from __future__ import annotations

import random
import re
import tempfile
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import sgnb as sgl

from .common import Report

COUNT, NEEDED = 60, 58
_FIRST_NUMBER = re.compile(r" ?([0-9]+)")

CONSTRAINTS: dict[str, dict[str, Any]] = {
    "free text": {},
    "dtype=int": {"dtype": int},
    "json_schema": {"json_schema": {"type": "integer"}},
    "regex, with a blank": {"regex": " ?[0-9]{1,4}"},
    "regex, without": {"regex": "[0-9]{1,4}"},
}


def _program(options: dict[str, Any]) -> Callable[..., Any]:
    @sgl.function
    def answer(s: Any, first: int, second: int) -> None:
        s += f"{first} + {second} ="
        s += sgl.gen("sum", temperature=0, max_tokens=6, **options)

    return answer


def _right(program: Any, sums: list[tuple[int, int]]) -> int:
    states = program.run_batch([{"first": a, "second": b} for a, b in sums], progress_bar=False)
    found = [_FIRST_NUMBER.match(str(state["sum"])) for state in states]
    return sum(
        match is not None and int(match[1]) == a + b
        for match, (a, b) in zip(found, sums, strict=True)
    )


def run() -> Report:
    rng = random.Random(7)
    sums = [(rng.randrange(10, 50), rng.randrange(10, 50)) for _ in range(COUNT)]
    report = Report(
        f"Right answers to {COUNT} sums after `12 + 34 =` (CPU)",
        ("constraint", "right"),
        bar=f"dtype=int: at least {NEEDED}",
    )
    with tempfile.TemporaryDirectory() as folder, patch.dict("os.environ", SGNB_CACHE=folder):
        engine = sgl.Engine("tiny")
        sgl.set_default_backend(engine)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last row is the case that a run warns of
            right = {name: _right(_program(options), sums) for name, options in CONSTRAINTS.items()}
        engine.close()
    report.rows = list(right.items())
    report.met = right["dtype=int"] >= NEEDED
    return report
