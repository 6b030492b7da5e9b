"""What a request gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TokenLogprob = tuple[int, float]


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
class Output:
    """The result of one sample, or while it is streamed, its result so far. Log-probabilities are
    natural ones by the model itself, and empty when not asked for."""

    text: str
    token_ids: list[int]
    prompt_tokens: int
    cached_tokens: int  # prompt tokens found in the cache
    finish_reason: str | None  # "stop", "length", "abort" or "error"; None while it runs
    stopped_by: str | int | None = None  # the stop string or token id
    error: Exception | None = None
    delta: str = ""  # the end of `text` that is new since the last Output
    logprobs: list[float] = field(default_factory=list)  # of the output tokens
    # Of the prompt's tokens from max(logprob_start_len, 1) on.
    prompt_logprobs: list[float] = field(default_factory=list)
    # The likeliest (token, log-probability) pairs at the places of `logprobs`.
    top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    # And of `prompt_logprobs`.
    prompt_top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    reasoning: str = ""  # the thinking section that came before `text`
    # With a grammar, one for each output token.
    records: list[TokenRecord] = field(default_factory=list)

    @property
    def meta_info(self) -> dict[str, Any]:
        """Everything but the text, in SGLang's words."""
        info: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": len(self.token_ids),
            "finish_reason": self.finish_reason,
            "stopped_by": self.stopped_by,
            "token_ids": self.token_ids,
        }
        if self.logprobs or self.prompt_logprobs:
            info |= {
                "output_token_logprobs": list(zip(self.token_ids, self.logprobs, strict=False)),
                "input_token_logprobs": self.prompt_logprobs,
                "output_top_logprobs": self.top_logprobs,
                "input_top_logprobs": self.prompt_top_logprobs,
            }
        if self.records:
            info["jumped_tokens"] = sum(record.kind == "jumped" for record in self.records)
            info["grammar"] = [
                _described(*pair) for pair in zip(self.token_ids, self.records, strict=False)
            ]
        if self.reasoning:
            info["reasoning"] = self.reasoning
        return info


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
