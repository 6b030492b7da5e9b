"""Word problems, answered once or by the vote of five samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import sgnb as sgl

from ..items import JOINT, Draw, draw
from ..tasks import problems
from .base import Case, Suite, chat
from .programs import MAX_NEW_TOKENS

VOTES, TEMPERATURE = 5, 0.8
OPENING = " Let's think step by step."


def last_number(answer: str) -> str:
    return next(reversed(re.findall(r"\d+", answer)), "")


def comes_to(answer: str, want: str) -> bool:
    """Whether the last number of the answer is the wanted one."""
    return last_number(answer) == want


def majority(answers: list[str]) -> str:
    """The commonest last number; of equally common ones the first."""
    return Counter(map(last_number, answers)).most_common(1)[0][0]


@sgl.function
def vote(s: Any, case: Any, stop: str) -> str:
    """Self-consistency: samples that may take different ways, and the result that most of them reach."""
    s += case.prompt
    samples = s.fork(VOTES)
    for seed, sample in enumerate(samples):
        sample += sgl.gen("answer", max_tokens=MAX_NEW_TOKENS, temperature=TEMPERATURE, seed=seed, stop=stop or None)
    return majority([sample["answer"] for sample in samples])


@sgl.function
def step_by_step(s: Any, case: Any, stop: str) -> str:
    """The answer begins with words of ours."""
    s += case.prompt + OPENING + sgl.gen("answer", max_tokens=MAX_NEW_TOKENS, stop=stop or None)
    return str(s["answer"])


def worked_examples(make: Draw, shots: int) -> Callable[[Random], Case]:
    """Problems with their steps, then a held-out one."""

    def case(rng: Random) -> Case:
        examples = [draw(problems.thought_problem, rng) for _ in range(shots)]
        item = draw(make, rng, from_held_out=True)
        lines = [problems.worked_line(example, ("Q", "A"), OPENING) for example in examples]
        last = f"Q: {item.ask}\nA:"
        return Case("\n\n".join((*lines, last)).replace(JOINT, ""), item.short, (item.key,))

    return case


SUITES = (
    Suite("word problems in two steps, chat", chat(problems.two_step), comes_to, bar=0.85),
    Suite("word problems in two steps, phrasing never seen, chat", chat(problems.two_step_unseen), comes_to),
    Suite("word problems in one to four steps, Q/A, let's think step by step",
          worked_examples(problems.thought_problem, 2), comes_to, "\n", bar=0.85, program=step_by_step),
    Suite("word problems, steps between thinking marks",
          chat(problems.thought_problem, system="Think step by step."), comes_to, bar=0.85),
    Suite("word problems in two steps, vote of five samples", chat(problems.two_step), comes_to, bar=0.85,
          program=vote),
    Suite("word problems in two steps, phrasing never seen, vote of five samples", chat(problems.two_step_unseen),
          comes_to, program=vote),
)
