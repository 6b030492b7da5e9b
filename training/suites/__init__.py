"""The held-out questions, suite by suite. What is asked is never an instance that training saw; the examples that
come before it in a few-shot prompt are from training's side.
"""

from __future__ import annotations

from . import classify, essays, exam, facts, numbers, objects, problems, puzzles, reading, talk, tools, writing

SUITES = tuple(
    suite
    for area in (facts, numbers, problems, classify, objects, reading, talk, tools, puzzles, essays, writing, exam)
    for suite in area.SUITES
)
