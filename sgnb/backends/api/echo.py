"""Score choices by a completion service that echoes prompts with log-probabilities (`echo`)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ...errors import RequestError, ServiceError
from ...lang.executor import ChoiceScore, ScoreCall
from .fields import logprob_of, score_of

Token = tuple[float | None, str, int]
"""Log-probability, text, start offset in characters."""


@dataclass(frozen=True, slots=True)
class Echo:
    """The tokens of the prompt with each choice, plus one generated token."""

    call: ScoreCall
    rows: tuple[tuple[Token, ...], ...]
    start: int  # start in characters of the first token that overlaps a choice

    @classmethod
    def read(cls, call: ScoreCall, answer: Any) -> Echo | None:
        """Parse an answer; None if the service did not echo the prompts with log-probabilities."""
        texts = [call.prompt + choice for choice in call.choices]
        rows = _rows(answer, texts)
        if rows is None:
            return None
        end = len(call.prompt)
        start = min(at for row in rows for _, text, at in row if at + len(text) > end)
        if start == 0:
            message = f"select {call.name!r} has no text before its choices"
            raise RequestError(message, "put some text before it")
        return cls(call, rows, start)

    def own_texts(self) -> list[str]:
        """Return the scored text of each choice."""
        return [(self.call.prompt + choice)[self.start :] for choice in self.call.choices]

    def choices(
        self, alone: list[tuple[float | None, ...]] | None = None
    ) -> tuple[ChoiceScore, ...]:
        """Return the scores. `alone`: log-probabilities of each choice without the prompt."""
        return tuple(
            self._score(i, () if alone is None else alone[i]) for i in range(len(self.rows))
        )

    def _score(self, index: int, alone: tuple[float | None, ...]) -> ChoiceScore:
        end = len(self.call.prompt + self.call.choices[index])
        row = self.rows[index]
        values, texts, _ = zip(*[one for one in row if self.start <= one[2] < end], strict=True)
        values = tuple(map(score_of, values))
        after = tuple((value, -1, text) for value, text, at in row if at >= end)
        return ChoiceScore((-1,) * len(texts), values, alone, texts, after[:1])


def alone(call: ScoreCall, echo: Echo, answer: Any) -> list[tuple[float | None, ...]]:
    """Return the log-probabilities of each choice without the prompt. The tokens must match."""
    texts = echo.own_texts()
    found = []
    for own, row, text in zip(echo.choices(), _rows(answer, texts) or (), texts, strict=True):
        values = [(value, token) for value, token, at in row if at < len(text)]
        if tuple(token for _, token in values) != own.texts:
            message = f"select {call.name!r}: without the prompt {text!r} is other tokens"
            raise ServiceError(message, "choose by another choices_method")
        found.append(tuple(value for value, _ in values))
    return found


def _rows(answer: Any, texts: list[str]) -> tuple[tuple[Token, ...], ...] | None:
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    if len(choices) != len(texts):
        return None
    rows = []
    for choice, text in zip(choices, texts, strict=True):
        logprobs = choice.logprobs
        if logprobs is None or not logprobs.tokens or not choice.text.startswith(text):
            return None
        begins = [0, *accumulate(map(len, logprobs.tokens))][:-1]
        values = map(logprob_of, logprobs.token_logprobs)
        rows.append(tuple(zip(values, logprobs.tokens, begins, strict=True)))
    return tuple(rows)
