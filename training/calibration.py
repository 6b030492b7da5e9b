"""How far the model's probabilities can be believed: the calibration error of its next tokens on held-out text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

from sgnb.engine import Engine
from sgnb.sampling import SamplingParams

BINS = 15


class Guess(NamedTuple):
    """The likeliest next token's probability, and whether it was the next token."""

    probability: float
    right: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """Guesses of like probability: how many, their mean probability, the share of right ones."""

    count: int
    probability: float
    right: float


def guesses(engine: Engine, texts: list[str]) -> Iterator[Guess]:
    """A guess for every token of `texts` but each first one."""
    wanted = SamplingParams(max_new_tokens=0, return_logprob=True, logprob_start_len=0, top_logprobs_num=1)
    prompts = engine.encode(texts)
    for prompt, output in zip(prompts, engine.generate(prompts, wanted), strict=True):
        for token, [(best, logprob)] in zip(prompt[1:], output.prompt_top_logprobs, strict=True):
            yield Guess(exp(logprob), best == token)


def bins(made: list[Guess]) -> list[Bin]:
    """The guesses in BINS intervals of equal width, without the empty ones."""
    groups: list[list[Guess]] = [[] for _ in range(BINS)]
    for guess in made:
        groups[min(int(guess.probability * BINS), BINS - 1)].append(guess)
    return [Bin(len(g), sum(x.probability for x in g) / len(g), sum(x.right for x in g) / len(g)) for g in groups if g]


def error(found: list[Bin]) -> float:
    """The expected calibration error, 0 to 1: |probability - share right|, averaged over guesses (Guo et al., 2017)."""
    return sum(b.count * abs(b.probability - b.right) for b in found) / sum(b.count for b in found)
