"""Jump-forward checked against its slow twin: the same prompts with and without it, and every
difference reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import OptionError
from ..sampling import SamplingParams
from .request.output import Output

if TYPE_CHECKING:
    from .engine import Engine


class JumpDifference(NamedTuple):
    """Prompt with two different texts."""

    prompt: int  # its place in the list
    position: int  # the first character that differs
    jumping: Output  # with jumps
    stepping: Output  # without


@dataclass(frozen=True, slots=True)
class JumpReport:
    """Result of `verify_jump_forward`."""

    prompts: int
    differences: tuple[JumpDifference, ...]
    cut_otherwise: int  # prompts whose text is the same both ways, in other tokens
    jumping_passes: int  # forward passes with jumps
    stepping_passes: int  # and without

    def __str__(self) -> str:
        lines = [
            f"{self.prompts} prompts, {len(self.differences)} texts differ, {self.cut_otherwise} "
            f"more are the same in other tokens; {self.jumping_passes} forward passes instead of "
            f"{self.stepping_passes}"
        ]
        for number, position, jumping, stepping in self.differences:
            a, b = (
                repr(output.text[max(0, position - 20) : position + 20])
                for output in (jumping, stepping)
            )
            lines.append(f"prompt {number}, character {position}: {a} with jumps, {b} without")
        return "\n".join(lines)


def verify_jump_forward(
    engine: Engine, prompts: Sequence[Any], sampling_params: Any = None, **sampling: Any
) -> JumpReport:
    """Run constrained `prompts` at temperature 0 on `engine`, with and without jump-forward, and
    compare. `sampling_params` are those of `Engine.generate`.

    A jump hands the model the tokenizer's own tokens of the forced text, where a step by step run
    may have chosen other tokens for the same bytes; what the model says next can differ. Both texts
    obey the grammar.
    """
    params = SamplingParams.make(sampling_params, **{**sampling, "temperature": 0.0})
    if params.grammar is None:
        raise OptionError(
            "nothing is forced without a grammar", "give regex=, json_schema= or ebnf="
        )
    (jumping, fast), (stepping, slow) = (
        _run(engine, list(prompts), SamplingParams.make(params, jump_forward=jumps))
        for jumps in (True, False)
    )
    pairs = list(enumerate(zip(jumping, stepping, strict=True)))
    different = [
        JumpDifference(i, _first(a.text, b.text), a, b) for i, (a, b) in pairs if a.text != b.text
    ]
    cut_otherwise = sum(a.text == b.text and a.token_ids != b.token_ids for _, (a, b) in pairs)
    return JumpReport(len(pairs), tuple(different), cut_otherwise, fast, slow)


def _run(engine: Engine, prompts: list[Any], params: SamplingParams) -> tuple[list[Output], int]:
    before = engine.stats()["steps"]
    outputs: list[Output] = engine.generate(prompts, params)
    return outputs, engine.stats()["steps"] - before


def _first(a: str, b: str) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
