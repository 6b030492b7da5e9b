"""Scoring methods of `select`: functions from the choices' token log-probabilities to a score per
choice.

The highest score wins; of equal scores the first. A user-defined method is a function with the same
signature. Wrap the method in `needs_unconditional` to get `ChoiceScore.unconditional`, which costs
another scoring pass. A `ChoicesSamplingMethod` in SGLang's format works, too.
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
"""Log-probability, token id, text of the token."""


@dataclass
class ChoicesDecision:
    """Result of a `ChoicesSamplingMethod`."""

    decision: str  # the selected choice
    meta_info: dict[str, Any] | None = None  # added to the select's meta information


class ChoicesSamplingMethod(ABC):
    """Base class of methods in SGLang's format, which select the choice themselves. Duck-typed
    classes with both members work, too."""

    @property
    def requires_unconditional_logprobs(self) -> bool:
        """True to receive `unconditional_token_logprobs`, which costs another scoring pass."""
        return False

    @abstractmethod
    def __call__(
        self,
        *,
        choices: list[str],
        normalized_prompt_logprobs: list[float],
        input_token_logprobs: list[list[Triple]],
        output_token_logprobs: list[list[Triple]],
        unconditional_token_logprobs: list[list[Triple]] | None = None,
    ) -> ChoicesDecision:
        """Select one of `choices`.

        Args:
            choices: The choices.
            normalized_prompt_logprobs: Mean log-probability of each choice's tokens.
            input_token_logprobs: Log-probabilities of each choice's tokens.
            output_token_logprobs: Log-probabilities of a token after each choice.
            unconditional_token_logprobs: Log-probabilities of each choice's tokens without the
                prompt; None unless `requires_unconditional_logprobs` is true.
        """


def wants_unconditional(method: Any) -> bool:
    """Return whether the method needs scores without the prompt."""
    asks = getattr(method, "requires_unconditional_logprobs", False)
    return bool(asks or getattr(method, "needs_unconditional", False))


def needs_unconditional(method: ChoicesMethod) -> ChoicesMethod:
    """Mark `method` as a method that reads `ChoiceScore.unconditional`."""
    vars(method)["needs_unconditional"] = True
    return method


def token_length_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """Return the mean log-probability of each choice's tokens. `choices`: scores of the choices."""
    return [fmean(choice.logprobs) for choice in choices]


def greedy_token_selection(choices: Sequence[ChoiceScore]) -> list[float]:
    """Score choices by greedy decoding: at each position the choices with the highest
    log-probability remain.

    A choice that is shorter than the longest is padded with its mean log-probability. The score is
    the number of positions at which a choice remained.

    Args:
        choices: Scores of the choices.
    """
    rows = _padded(choices)
    tokens = [_named_tokens(choice) for choice in choices]
    scores = [0.0] * len(rows)
    staying = list(range(len(rows)))
    for position in range(len(rows[0])):
        best = max(staying, key=lambda i: rows[i][position])
        # rows of a batch differ in the last bits, so equal tokens decide before equal numbers
        prefix = tokens[best][: position + 1]
        staying = [
            i
            for i in staying
            if tokens[i][: position + 1] == prefix or rows[i][position] == rows[best][position]
        ]
        for i in staying:
            scores[i] += 1.0
    return scores


@needs_unconditional
def unconditional_likelihood_normalized(choices: Sequence[ChoiceScore]) -> list[float]:
    """Return the mean gain of each choice's token log-probabilities compared with the
    log-probabilities without the prompt. The first token has no unconditional log-probability,
    which counts as 0.

    Args:
        choices: Scores of the choices.
    """
    pairs = [zip(choice.logprobs, choice.unconditional, strict=True) for choice in choices]
    return [fmean(logprob - (prior or 0.0) for logprob, prior in pair) for pair in pairs]


METHODS: dict[str, ChoicesMethod] = {
    "token_length_normalized": token_length_normalized,
    "greedy_token_selection": greedy_token_selection,
    "unconditional_likelihood_normalized": unconditional_likelihood_normalized,
}


def choices_method(method: Any) -> ChoicesMethod:
    """Return `method` if callable, or the method with this name. Raises OptionError otherwise."""
    if callable(method):
        return method
    if method not in METHODS:
        raise OptionError(f"choices_method={method!r} is not known", nearest(str(method), METHODS))
    return METHODS[method]


def apply_method(select: Select, scores: Scores) -> Scores:
    """Return `scores` with the values or the choice of the select's method, or with an error.

    Errors of user-defined methods become the error of the scores. A choice made by the model takes
    precedence over the method.
    """
    if scores.chosen is not None:
        return scores
    method = select.method
    name = getattr(method, "__name__", shown(method))
    hint = "let it return a list with a number for each choice"
    try:
        if hasattr(method, "requires_unconditional_logprobs"):
            return _decide(select, scores)
        result = method(scores.choices)
        if not isinstance(result, Iterable):
            return Scores(error=ProgramError(f"choices_method={name} gave {shown(result)}", hint))
        values = tuple(scalar(value) for value in result)
    except Exception as error:
        return Scores(error=error)
    except BaseException as caught:  # SystemExit, for example, would end the thread silently
        failure = ProgramError(f"choices_method={name} raised {shown(caught)}", hint)
        failure.__cause__ = caught
        return Scores(error=failure)

    if len(values) != len(scores.choices):
        message = f"{len(values)} values for {len(scores.choices)} choices"
        return Scores(error=ProgramError(f"choices_method={name} gave {message}", hint))
    for value in values:
        # NaN cannot be compared
        if not isinstance(value, (int, float)) or value != value:
            message = f"choices_method={name} gave {shown(value)}, which is no number"
            return Scores(error=ProgramError(message, hint))
    return replace(scores, values=values)


def _decide(select: Select, scores: Scores) -> Scores:
    """Apply a `ChoicesSamplingMethod`."""
    method: Any = select.method
    description = describe(select, scores)
    keys = signature(ChoicesSamplingMethod.__call__).parameters
    arguments = {key: description.get(key) for key in keys if key not in ("self", "choices")}
    decision = method(choices=list(select.choices), **arguments)
    if decision.decision not in select.choices:
        selected = shown(decision.decision)
        message = f"{type(method).__name__} decided for {selected}, which is no choice"
        return Scores(error=ProgramError(message, f"decide for one of {list(select.choices)}"))

    return replace(
        scores,
        meta={**scores.meta, **(decision.meta_info or {})},
        values=tuple(token_length_normalized(scores.choices)),
        chosen=select.choices.index(decision.decision),
    )


def describe(select: Select, scores: Scores) -> dict[str, Any]:
    """Return scores in SGLang's format and the decision of each method; {} if the model made the
    choice without scores."""
    choices = scores.choices
    if not choices:
        return {}
    info: dict[str, Any] = {
        "normalized_prompt_logprobs": token_length_normalized(choices),
        "input_token_logprobs": [_triples(choice, choice.logprobs) for choice in choices],
        "output_token_logprobs": [list(choice.next) for choice in choices],
        "probabilities": _probabilities(select, choices),
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


def _probabilities(select: Select, choices: Sequence[ChoiceScore]) -> dict[str, float]:
    """Return the probability of each choice relative to all choices."""
    totals = [sum(choice.logprobs) for choice in choices]
    weights = [math.exp(total - max(totals)) for total in totals]
    return dict(zip(select.choices, (w / sum(weights) for w in weights), strict=True))


def _triples(choice: ChoiceScore, logprobs: Sequence[float | None]) -> list[Triple]:
    return [(value, *token) for value, token in zip(logprobs, _named_tokens(choice), strict=True)]


def _named_tokens(choice: ChoiceScore) -> list[tuple[int, str | None]]:
    """The ids and texts of a choice's tokens: a service may report no ids."""
    texts = choice.texts or (None,) * len(choice.tokens)
    return list(zip(choice.tokens, texts, strict=True))


def _padded(choices: Sequence[ChoiceScore]) -> list[list[float]]:
    """Return the log-probabilities of each choice, padded with the mean to the length of the
    longest."""
    length = max(len(choice.logprobs) for choice in choices)
    return [[*c.logprobs, *[fmean(c.logprobs)] * (length - len(c.logprobs))] for c in choices]


def pick(scores: Sequence[float], temperature: float, seed: int | None) -> int:
    """Return the index of the highest score; above temperature 0 a sample from softmax(score /
    t)."""
    best = max(range(len(scores)), key=scores.__getitem__)
    if temperature == 0:
        return best
    weights = [math.exp((score - scores[best]) / temperature) for score in scores]
    return random.Random(seed).choices(range(len(scores)), weights)[0]
