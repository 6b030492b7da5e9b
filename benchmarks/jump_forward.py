"""Texts with and without jump-forward: every difference, and the forward passes of both.

A jump appends the tokenizer's own tokens of the forced text. Single steps may choose other tokens
for the same bytes, and the model may then continue with another text. Both texts obey the grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sgnb
from sgnb.engine import Output

from .common import Report
from .json_tasks import MAX_TOKENS, TASKS


class Difference(NamedTuple):
    """Prompt with two different texts."""

    prompt: int  # index in the list
    position: int  # first different character
    jumping: Output  # with jumps
    stepping: Output  # without jumps


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outputs of the same prompts with and without jump-forward."""

    differences: tuple[Difference, ...]
    num_retokenized: int  # prompts with equal texts in different tokens
    jumping_passes: int  # forward passes with jumps
    stepping_passes: int  # forward passes without jumps


def run() -> Report:
    report = Report(
        f"Jump-forward against single steps: {len(TASKS[0].prompts)} prompts of each task (CPU)",
        ("task", "other texts", "other tokens", "forward passes", "without jumps"),
        note="Temperature 0. Another text: at least one character differs.",
    )
    with sgnb.Engine("tiny") as engine:
        for task in TASKS:
            comparison = compare(
                engine, task.prompts, json_schema=task.schema, max_new_tokens=MAX_TOKENS
            )
            for prompt, position, jumping, stepping in comparison.differences:
                texts = (_excerpt(output, position) for output in (jumping, stepping))
                print(f"{task.name}, prompt {prompt}: {' with jumps, '.join(texts)} without")
            report.rows.append(
                (
                    task.name,
                    len(comparison.differences),
                    comparison.num_retokenized,
                    comparison.jumping_passes,
                    comparison.stepping_passes,
                )
            )
    return report


def compare(engine: sgnb.Engine, prompts: Sequence[str], **sampling: Any) -> Comparison:
    """Run constrained prompts at temperature 0 with and without jump-forward.

    Args:
        sampling: Keyword arguments of `Engine.generate`, with a regex, schema or grammar.
    """
    (jumping, jumping_passes), (stepping, stepping_passes) = (
        _generate(engine, prompts, sampling | {"temperature": 0.0, "jump_forward": jump_forward})
        for jump_forward in (True, False)
    )
    pairs = list(zip(jumping, stepping, strict=True))
    differences = tuple(
        Difference(i, _first_difference(a.text, b.text), a, b)
        for i, (a, b) in enumerate(pairs)
        if a.text != b.text
    )
    num_retokenized = sum(a.text == b.text and a.token_ids != b.token_ids for a, b in pairs)
    return Comparison(differences, num_retokenized, jumping_passes, stepping_passes)


def _generate(
    engine: sgnb.Engine, prompts: Sequence[str], sampling: dict[str, Any]
) -> tuple[list[Output], int]:
    """Return outputs and the number of forward passes."""
    steps = engine.stats()["steps"]
    outputs: list[Output] = engine.generate(list(prompts), **sampling)
    return outputs, engine.stats()["steps"] - steps


def _excerpt(output: Output, position: int) -> str:
    return repr(output.text[max(0, position - 20) : position + 20])


def _first_difference(a: str, b: str) -> int:
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
