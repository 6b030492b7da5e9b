"""What a request gives back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...sampling import SamplingParams

TokenLogprob = tuple[int, float]
Triple = tuple[float | None, int, str | None]
"""SGLang's: log-probability, token, and its text where that was asked for."""


class TokenRecord(NamedTuple):
    """What a grammar did to one output token."""

    kind: str  # "free" (in a thinking section), "sampled" or "jumped"
    text: str  # the token's, with U+FFFD for a part of a character
    before: int  # the grammar's state before it; -1 where it has no numbered states
    after: int  # and after it
    allowed: int = 0  # how many tokens the mask left
    # Natural, without the mask, before temperature and filters; None if it was not sampled.
    logprob: float | None = None
    masked_logprob: float | None = None  # the same with the mask

    @property
    def removed(self) -> float | None:
        """The probability that the mask took away from other tokens."""
        if self.logprob is None or self.masked_logprob is None:
            return None
        return max(0.0, 1 - math.exp(self.logprob - self.masked_logprob))


@dataclass(frozen=True, slots=True)
class Output(Mapping[str, Any]):
    """The result of one sample, or while it is streamed, its result so far. Log-probabilities are
    natural ones by the model itself, and empty when not asked for.

    As a mapping it is what SGLang's engine returns: "text", "output_ids" and "meta_info".
    """

    text: str
    token_ids: list[int]  # of the output
    prompt_tokens: int  # how many the prompt has
    cached_tokens: int  # prompt tokens found in the cache
    finish_reason: str | None  # "stop", "length", "abort" or "error"; None while it runs
    stopped_by: str | int | None = None  # the stop string or token id
    error: Exception | None = None  # what ended it, with finish_reason "error"
    delta: str = ""  # the end of `text` that is new since the last Output
    # Of the output tokens; with max_new_tokens=0 of the sampled next token, which is `next_token`.
    logprobs: list[float] = field(default_factory=list)
    # Of the prompt's tokens from max(logprob_start_len, 1) on.
    prompt_logprobs: list[float] = field(default_factory=list)
    # The likeliest (token, log-probability) pairs at the places of `logprobs`.
    top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    # And of `prompt_logprobs`.
    prompt_top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    reasoning: str = ""  # the thinking section that came before `text`
    # With a grammar, one for each output token.
    records: list[TokenRecord] = field(default_factory=list)
    id: str = ""  # the request's number in its engine
    e2e_latency: float = 0.0  # seconds since it was submitted
    # The prompt's tokens from logprob_start_len on. The first of a prompt has no log-probability.
    scored_ids: list[int] = field(default_factory=list)
    next_token: int | None = None  # see `logprobs`
    # What was asked for.
    params: SamplingParams = field(default=SamplingParams(), repr=False, compare=False)
    # Gives a token's text, where that was asked for.
    token_text: Callable[[int], str] | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, key: str) -> Any:
        """SGLang's value of `key`."""
        if key == "output_ids":
            return self.token_ids
        if key in ("text", "meta_info"):
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("text", "output_ids", "meta_info"))

    def __len__(self) -> int:
        return 3

    @property
    def meta_info(self) -> dict[str, Any]:
        """Everything but the text: SGLang's keys in SGLang's shapes, and our own."""
        info: dict[str, Any] = {
            "id": self.id,
            "finish_reason": self._finish(),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": len(self.token_ids),
            "cached_tokens": self.cached_tokens,
            "e2e_latency": self.e2e_latency,
            "stopped_by": self.stopped_by,
            "token_ids": self.token_ids,
        }
        if self.params.return_logprob:
            made = self.token_ids if self.next_token is None else [self.next_token]
            info |= {
                "output_token_logprobs": self._triples(made, self.logprobs),
                "input_token_logprobs": self._prompt_rows(),
                "output_top_logprobs": [self._top(row) for row in self.top_logprobs],
                "input_top_logprobs": self._prompt_top_rows(),
            }
        if self.records:
            info["jumped_tokens"] = sum(record.kind == "jumped" for record in self.records)
            info["grammar"] = [
                _described(*pair) for pair in zip(self.token_ids, self.records, strict=False)
            ]
        if self.reasoning:
            info["reasoning"] = self.reasoning
        return info

    def _finish(self) -> dict[str, Any] | None:
        """The finish reason in SGLang's shape."""
        if self.finish_reason is None:
            return None
        if self.finish_reason == "stop":
            return {"type": "stop", "matched": self.stopped_by}
        if self.finish_reason == "length":
            return {"type": "length", "length": len(self.token_ids)}
        return {"type": "abort", "message": str(self.error or "")}

    def _triples(self, tokens: Sequence[int], logprobs: Sequence[float | None]) -> list[Triple]:
        text = self.token_text
        pairs = zip(tokens, logprobs, strict=False)
        return [(value, token, None if text is None else text(token)) for token, value in pairs]

    def _top(self, row: Sequence[TokenLogprob]) -> list[Triple]:
        return self._triples([token for token, _ in row], [value for _, value in row])

    def _prompt_rows(self) -> list[Triple]:
        unscored = [None] * (len(self.scored_ids) - len(self.prompt_logprobs))
        return self._triples(self.scored_ids, [*unscored, *self.prompt_logprobs])

    def _prompt_top_rows(self) -> list[list[Triple] | None]:
        if not self.params.top_logprobs_num:
            return []
        unscored = [None] * (len(self.scored_ids) - len(self.prompt_logprobs))
        return [*unscored, *[self._top(row) for row in self.prompt_top_logprobs]]


def _described(token: int, record: TokenRecord) -> dict[str, Any]:
    """A record as `meta_info` shows it, with probabilities; None where nothing was sampled."""
    raw, masked = record.logprob, record.masked_logprob
    return {
        "token": token,
        "text": record.text,
        "kind": record.kind,
        "states": (record.before, record.after),
        "allowed": record.allowed,
        "probability": None if raw is None else math.exp(raw),
        "masked_probability": None if masked is None else math.exp(masked),
        "removed": record.removed,
    }
