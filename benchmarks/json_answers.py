"""What a constraint does to the answer: right answers and forward passes on questions that were
held out of the bundled model's training, on the CPU.

Each question is asked without a constraint, and under one: as it is by default, token by token,
and for JSON in the other two layouts. Right is the wanted value, whatever the layout. Passes are
counted one question at a time, against a run that writes the same text and is asked for every token
of it; that run knows where the text ends, which under ` ?[0-9]{1,4}` costs a pass to find out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

import sgnb
from training.suites.base import Case
from training.suites.numbers import SUITES as NUMBERS
from training.suites.objects import SUITES as OBJECTS

from .common import Report

QUESTIONS = 300
SUMS = 60
MAX_TOKENS = 400
MOST_PASSES = 0.45
JSON = "JSON about a thing, phrasing never seen: fields and values"
SUM = "two-digit addition and subtraction, bare (`12 + 34 =`)"

Options = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A prompt with the wanted value, and the constraint."""

    prompt: str
    want: Any
    constraint: Options

    def right(self, text: str) -> bool:
        try:
            return bool(json.loads(text.strip()) == self.want)
        except ValueError:
            return False


@dataclass(frozen=True)
class Set:
    """Questions of one kind, and how many of them have to be right."""

    name: str
    questions: list[Question]
    bar: int
    other_layouts: bool = False
    free_stop: str | None = None  # ends the answer without a constraint


def run() -> Report:
    report = Report(
        "Right answers and passes under constraints (CPU)",
        (
            "questions",
            "right without a constraint",
            "by default",
            "without jumps",
            "compact",
            "free blanks",
            "forward passes",
            "same texts without jumps",
            "share",
        ),
        bar=f"at least 275 of the {QUESTIONS} JSON questions and {SUMS - 2} of the {SUMS} sums are "
        f"right by default, JSON in at most {MOST_PASSES} of the passes",
    )
    met = []
    with sgnb.Engine("tiny") as engine:
        for questions in (_objects(), _sums(), _choices()):
            row, reached = _measure(engine, questions)
            report.rows.append(row)
            met.append(reached)
    report.met = all(met)
    return report


def _measure(engine: sgnb.Engine, asked: Set) -> tuple[tuple[Any, ...], bool]:
    """The set's row, and whether it reaches the bars."""
    free: Options = {"stop": asked.free_stop} if asked.free_stop else {}
    alone = _right(asked, _answers(engine, asked, [free] * len(asked.questions)))
    own = [question.constraint for question in asked.questions]
    texts, passes = _one_by_one(engine, asked, own)
    right = _right(asked, texts)
    steps = _right(asked, _answers(engine, asked, [o | {"jump_forward": False} for o in own]))
    layouts = [
        _right(asked, _answers(engine, asked, [o | {"json_whitespace": blanks} for o in own]))
        if asked.other_layouts
        else ""
        for blanks in (0, 1)
    ]
    same = [{"regex": re.escape(text), "jump_forward": False} for text in texts]
    _, without = _one_by_one(engine, asked, same)
    share = passes / without
    row = (
        f"{len(texts)} {asked.name}", alone, right, steps, *layouts, passes, without, f"{share:.2f}"
    )  # fmt: skip
    return row, right >= asked.bar and (share <= MOST_PASSES or not asked.other_layouts)


def _right(asked: Set, texts: list[str]) -> int:
    pairs = zip(asked.questions, texts, strict=True)
    return sum(question.right(text) for question, text in pairs)


def _answers(engine: sgnb.Engine, asked: Set, options: list[Options]) -> list[str]:
    outputs = engine.generate([q.prompt for q in asked.questions], [_greedy(o) for o in options])
    return [output.text for output in outputs]


def _one_by_one(engine: sgnb.Engine, asked: Set, options: list[Options]) -> tuple[list[str], int]:
    """The answers, and how many forward passes they took."""
    before = engine.stats()["steps"]
    pairs = zip(asked.questions, options, strict=True)
    texts = [engine.generate(question.prompt, _greedy(own)).text for question, own in pairs]
    return texts, engine.stats()["steps"] - before


def _greedy(options: Options) -> Options:
    return {"max_new_tokens": MAX_TOKENS, "temperature": 0} | options


def _objects() -> Set:
    """A thing's fields, in wordings that training never used, under a schema of just these."""
    questions = []
    for case in _cases(OBJECTS, JSON, QUESTIONS):
        want = json.loads(case.want)
        questions.append(Question(case.prompt, want, {"json_schema": schema_of(want)}))
    return Set("JSON objects", questions, 275, other_layouts=True)


def _sums() -> Set:
    """A number after a blank, as a pattern."""
    questions = [
        Question(case.prompt, int(case.want), {"regex": r" ?[0-9]{1,4}"})
        for case in _cases(NUMBERS, SUM, SUMS)
    ]
    return Set("sums under ` ?[0-9]{1,4}`", questions, SUMS - 2, free_stop="\n")


def _choices() -> Set:
    """The result and three that are near, in any order."""
    draw, questions = Random("json_answers"), []
    for case in _cases(NUMBERS, SUM, SUMS):
        want = int(case.want)
        near = [want, *(abs(want + change) for change in draw.sample((-10, -2, -1, 1, 2, 10), 3))]
        draw.shuffle(near)
        pattern = f" ({'|'.join(map(str, near))})"
        questions.append(Question(case.prompt, want, {"regex": pattern}))
    return Set("sums with four results to choose from", questions, SUMS - 2, free_stop="\n")


def _cases(suites: Any, name: str, count: int) -> list[Case]:
    [suite] = [suite for suite in suites if suite.name == name]
    cases: list[Case] = suite.cases(count)
    return cases


def schema_of(value: Any) -> Options:
    """A schema of values like this one; of an object with these keys alone."""
    if isinstance(value, dict):
        return {
            "type": "object",
            "properties": {key: schema_of(inner) for key, inner in value.items()},
            "required": list(value),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0]) if value else {"type": "string"}}
    if isinstance(value, str):
        return {"type": "string", "maxLength": 60}
    if value is None:
        return {"type": ["string", "integer", "null"], "maxLength": 60}
    names = {bool: "boolean", int: "integer", float: "number"}
    return {"type": names[type(value)]}
