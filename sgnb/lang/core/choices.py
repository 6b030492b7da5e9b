"""How a select picks: a method turns the choices' token log-probabilities into a score for each.

The largest score wins, the first of equals. A method of your own is any function with the same
signature; wrap it in `needs_unconditional` when it reads `ChoiceScore.unconditional`, which costs
one more scoring pass. Methods written for SGLang, `ChoicesSamplingMethod`, work too.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from statistics import fmean
from typing import Any

from ...errors import OptionError, ProgramError, nearest, shown
from ...sampling import scalar
from ..executor import ChoiceScore, Scores
from ..ir import ChoicesMethod, Select

Triple = tuple[float | None, int, str | None]
"""Log-probability, token, the token's text."""


@dataclass
class ChoicesDecision:
    """What a `ChoicesSamplingMethod` decides."""

    decision: str  # one of the choices
    meta_info: dict[str, Any] | None = None  # becomes part of the select's


class ChoicesSamplingMethod(ABC):
    """SGLang's kind of method: decides by itself. Derive from it, or write the two members."""

    @property
    def requires_unconditional_logprobs(self) -> bool:
        """Whether it reads `unconditional_token_logprobs`, which costs one more scoring pass."""
        return False

    @abstractmethod
    def __call__(
        self,
        *,
        choices: list[str],
        normalized_prompt_logprobs: list[float],  # the mean of each choice's
        input_token_logprobs: list[list[Triple]],  # of each choice's tokens
        output_token_logprobs: list[list[Triple]],  # of a token after each choice
        unconditional_token_logprobs: list[list[Triple]] | None = None,  # without the prompt
    ) -> ChoicesDecision:
        """Choose one of `choices`.

        normalized_prompt_logprobs: the mean of each choice's log-probabilities.
        input_token_logprobs: those of each choice's tokens.
        output_token_logprobs: of a token after each choice.
        unconditional_token_logprobs: of each choice's tokens without the prompt, where
        `requires_unconditional_logprobs`.
        """


def wants_unconditional(method: Any) -> bool:
    """Whether the choices are to be scored without the prompt too."""
    asks = getattr(method, "requires_unconditional_logprobs", False)
    return bool(asks or getattr(method, "needs_unconditional", False))


def needs_unconditional(method: ChoicesMethod) -> ChoicesMethod:
    """Mark a `method` as one that compares with each choice's likelihood without the prompt."""
    vars(method)["needs_unconditional"] = True
    return method


def token_length_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """Of each of `choices` the mean log-probability of its tokens."""
    return [fmean(choice.logprobs) for choice in choices]


def greedy_token_selection(choices: Sequence[ChoiceScore]) -> list[float]:
    """Greedy decoding among the choices: at each position those with the largest log-probability
    stay, a short one with its mean. The score is the number of positions that a choice stayed."""
    rows = _padded(choices)
    scores = [0.0] * len(rows)
    staying = list(range(len(rows)))
    for position in range(len(rows[0])):
        best = max(rows[i][position] for i in staying)
        staying = [i for i in staying if rows[i][position] == best]
        for i in staying:
            scores[i] += 1.0
    return scores


@needs_unconditional
def unconditional_likelihood_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """Of each of `choices` the mean gain of its tokens over their log-probability without the
    prompt, which counts as 0 for the first token."""
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


def apply_method(select: Select, scores: Scores) -> Scores:
    """`scores` with the values, or the choice, of the select's method, or its error. Nothing that a
    method of the user's raises leaves it. A model that has chosen itself has the last word."""
    if scores.chosen is not None:
        return scores
    method = select.method
    name = getattr(method, "__name__", shown(method))
    hint = "let it return a list with a number for each choice"
    try:
        if hasattr(method, "requires_unconditional_logprobs"):
            return _decide(select, scores)
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


def _decide(select: Select, scores: Scores) -> Scores:
    """`apply_method` for a `ChoicesSamplingMethod`."""
    method: Any = select.method
    found = describe(select, scores)
    keys = signature(ChoicesSamplingMethod.__call__).parameters
    given = {key: found.get(key) for key in keys if key not in ("self", "choices")}
    decision = method(choices=list(select.choices), **given)
    if decision.decision not in select.choices:
        what = f"{type(method).__name__} decided for {shown(decision.decision)}, which is no choice"
        return Scores(error=ProgramError(what, f"decide for one of {list(select.choices)}"))
    return replace(
        scores,
        meta={**scores.meta, **(decision.meta_info or {})},
        values=tuple(token_length_normalized(scores.choices)),
        chosen=select.choices.index(decision.decision),
    )


def describe(select: Select, scores: Scores) -> dict[str, Any]:
    """A select's scores in SGLang's shapes, and what each method would have chosen; nothing of a
    model that has chosen without."""
    choices = scores.choices
    if not choices:
        return {}
    info: dict[str, Any] = {
        "normalized_prompt_logprobs": token_length_normalized(choices),
        "input_token_logprobs": [_triples(choice, choice.logprobs) for choice in choices],
        "output_token_logprobs": [list(choice.next) for choice in choices],
    }
    methods = dict(METHODS)
    if all(choice.unconditional for choice in choices):
        info["unconditional_token_logprobs"] = [_triples(c, c.unconditional) for c in choices]
        gains = unconditional_likelihood_normalized(choices)
        info["normalized_unconditional_prompt_logprobs"] = gains
    else:
        del methods["unconditional_likelihood_normalized"]
    if select.method is greedy_token_selection:
        info["greedy_logprob_matrix"] = _padded(choices)
    winners = {name: pick(method(choices), 0.0, None) for name, method in methods.items()}
    return info | {"decisions": {name: select.choices[i] for name, i in winners.items()}}


def _triples(choice: ChoiceScore, logprobs: Sequence[float | None]) -> list[Triple]:
    texts = choice.texts or (None,) * len(choice.tokens)
    return list(zip(logprobs, choice.tokens, texts, strict=True))


def _padded(choices: Sequence[ChoiceScore]) -> list[list[float]]:
    """The log-probabilities of each choice; a short one goes on with its mean."""
    length = max(len(choice.logprobs) for choice in choices)
    return [[*c.logprobs, *[fmean(c.logprobs)] * (length - len(c.logprobs))] for c in choices]


def pick(scores: Sequence[float], temperature: float, seed: int | None) -> int:
    """The index of the largest score; above temperature 0, sampled from softmax(score / t)."""
    best = max(range(len(scores)), key=scores.__getitem__)
    if temperature == 0:
        return best
    weights = [math.exp((score - scores[best]) / temperature) for score in scores]
    return random.Random(seed).choices(range(len(scores)), weights)[0]
