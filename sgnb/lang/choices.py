"""How a select picks: a method turns the choices' token log-probabilities into a score for each.

The largest score wins, the first of equals. A method of your own is any function with the same
signature; wrap it in `needs_unconditional` when it reads `ChoiceScore.unconditional`, which costs
one more scoring pass.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from ..errors import OptionError, ProgramError, nearest, shown
from ..sampling import scalar
from .executor import ChoiceScore, Scores
from .ir import ChoicesMethod


def needs_unconditional(method: ChoicesMethod) -> ChoicesMethod:
    """Mark a method as one that compares with each choice's likelihood without the prompt."""
    vars(method)["needs_unconditional"] = True
    return method


def token_length_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """The mean log-probability of a choice's tokens."""
    return [fmean(choice.logprobs) for choice in choices]


def greedy_token_selection(choices: Sequence[ChoiceScore]) -> list[float]:
    """Greedy decoding among the choices: at each position those with the largest log-probability
    stay, a short one with its mean. The score is the number of positions that a choice stayed."""
    length = max(len(choice.logprobs) for choice in choices)
    rows = [[*c.logprobs, *[fmean(c.logprobs)] * (length - len(c.logprobs))] for c in choices]
    scores = [0.0] * len(rows)
    staying = list(range(len(rows)))
    for position in range(length):
        best = max(rows[i][position] for i in staying)
        staying = [i for i in staying if rows[i][position] == best]
        for i in staying:
            scores[i] += 1.0
    return scores


@needs_unconditional
def unconditional_likelihood_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """The mean gain of a choice's tokens over their log-probability without the prompt, which
    counts as 0 for the first token."""
    pairs = [zip(choice.logprobs, choice.unconditional, strict=True) for choice in choices]
    return [fmean(given - (alone or 0.0) for given, alone in pair) for pair in pairs]


METHODS: dict[str, ChoicesMethod] = {
    "token_length_normalized": token_length_normalized,
    "greedy_token_selection": greedy_token_selection,
    "unconditional_likelihood_normalized": unconditional_likelihood_normalized,
}


def choices_method(method: Any) -> ChoicesMethod:
    """The method itself, or the one of that name. Anything else is an OptionError."""
    if callable(method):
        return method
    if method not in METHODS:
        raise OptionError(f"choices_method={method!r} is not known", nearest(str(method), METHODS))
    return METHODS[method]


def judge(method: ChoicesMethod, scores: Scores) -> Scores:
    """`scores` with the method's values, or its error. Nothing that a method of the user's raises
    leaves it."""
    name = getattr(method, "__name__", shown(method))
    hint = "let it return a list with a number for each choice"
    try:
        given = method(scores.choices)
        if not isinstance(given, Iterable):
            return Scores(error=ProgramError(f"choices_method={name} gave {shown(given)}", hint))
        values = tuple(scalar(value) for value in given)
    except Exception as error:
        return Scores(error=error)
    except BaseException as caught:  # SystemExit, say, which would end the thread in silence
        failure = ProgramError(f"choices_method={name} raised {shown(caught)}", hint)
        failure.__cause__ = caught
        return Scores(error=failure)
    if len(values) != len(scores.choices):
        what = f"{len(values)} values for {len(scores.choices)} choices"
        return Scores(error=ProgramError(f"choices_method={name} gave {what}", hint))
    for value in values:
        # NaN is no larger and no smaller than another score
        if not isinstance(value, (int, float)) or value != value:
            what = f"choices_method={name} gave {shown(value)}, which is no number"
            return Scores(error=ProgramError(what, hint))
    return replace(scores, values=values)


def pick(scores: Sequence[float], temperature: float, seed: int | None) -> int:
    """The index of the largest score; above temperature 0, sampled from softmax(score / t)."""
    best = max(range(len(scores)), key=scores.__getitem__)
    if temperature == 0:
        return best
    weights = [math.exp((score - scores[best]) / temperature) for score in scores]
    return random.Random(seed).choices(range(len(scores)), weights)[0]
