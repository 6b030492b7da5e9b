"""Scores of choices from the outputs of several requests."""

from __future__ import annotations

from collections.abc import Callable

from ..engine.request.output import Output
from ..lang.executor import ChoiceScore, Scores

Tokens = tuple[int, ...]
Logprobs = tuple[float | None, ...]


class OutputGather:
    """Collects the final outputs of several requests and delivers the complete list in order. Used
    on the engine's thread only."""

    def __init__(self, count: int, done: Callable[[list[Output]], None]) -> None:
        self._outputs: dict[int, Output] = {}
        self._count, self._done = count, done

    def put(self, index: int, output: Output) -> None:
        self._outputs[index] = output
        if len(self._outputs) == self._count:
            self._done([self._outputs[i] for i in range(self._count)])


def build_scores(
    own: list[Tokens],
    outputs: list[Output],
    unconditional: dict[Tokens, Logprobs],
    text: Callable[[int], str],
) -> Scores:
    """Build the scores of choices from their outputs.

    Args:
        own: Tokens of each choice, in the order of the first outputs.
        outputs: Outputs of the choices, then others.
        unconditional: Log-probabilities without a prompt.
        text: Returns the text of a token.
    """
    choices = []
    for tokens, output in zip(own, outputs, strict=False):
        after = output.next_token
        choices.append(
            ChoiceScore(
                tokens,
                # None stands for tokens of images: a choice has none.
                tuple(value for value in output.prompt_logprobs if value is not None),
                unconditional.get(tokens, ()),
                tuple(map(text, tokens)),
                () if after is None else ((output.logprobs[0], after, text(after)),),
            )
        )
    meta = {
        "prompt_tokens": sum(o.prompt_tokens for o in outputs),
        "cached_tokens": sum(o.cached_tokens for o in outputs),
        "e2e_latency": max(o.e2e_latency for o in outputs),
    }
    return Scores(tuple(choices), meta)
