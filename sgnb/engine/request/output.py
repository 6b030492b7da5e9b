"""Results of requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...sampling import SamplingParams
from .approximation import Approximation

TokenLogprob = tuple[int, float]
Logprob = float | None
"""Log-probability; None for an unsampled token."""
Triple = tuple[float | None, int, str | None]
"""SGLang's triple: log-probability, token, and the token's text if requested."""


class TokenRecord(NamedTuple):
    """Effect of a grammar on one output token."""

    kind: str  # "free" (in a thinking section), "sampled" or "jumped"
    text: str  # text of the token, with U+FFFD for a partial character
    before: int  # grammar state before the token; -1 without numbered states
    after: int  # grammar state after the token
    allowed: int = 0  # number of tokens allowed by the mask
    # Natural log, unmasked, before temperature and filters; None for unsampled tokens.
    logprob: float | None = None
    masked_logprob: float | None = None  # log-probability with the mask

    @property
    def removed(self) -> float | None:
        """Probability mass removed by the mask."""
        if self.logprob is None or self.masked_logprob is None:
            return None
        return max(0.0, 1 - math.exp(self.logprob - self.masked_logprob))


@dataclass(frozen=True, slots=True)
class Output(Mapping[str, Any]):
    """Result of one sample; a partial result while streaming. Log-probabilities are natural
    logarithms under the model, empty unless requested.

    As a mapping, equal to the result of SGLang's engine: "text", "output_ids" and "meta_info".
    """

    text: str
    token_ids: list[int]  # output tokens
    prompt_tokens: int  # number of prompt tokens
    cached_tokens: int  # prompt tokens with cached KV
    finish_reason: str | None  # "stop", "length", "abort" or "error"; None while running
    stopped_by: str | int | None = None  # matched stop string or token id
    error: Exception | None = None  # cause of finish_reason "error"
    delta: str = ""  # suffix of `text` added since the last Output
    # Per output token; with max_new_tokens=0, of the sampled `next_token`.
    logprobs: list[float] = field(default_factory=list)
    # Per prompt token from max(logprob_start_len, 1) on; None for tokens of images, videos, sounds.
    prompt_logprobs: list[float | None] = field(default_factory=list)
    # Most likely (token, log-probability) pairs at the positions of `logprobs`.
    top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    # Most likely pairs at the positions of `prompt_logprobs`.
    prompt_top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    reasoning: str = ""  # thinking section before `text`
    # One per output token of a constrained request.
    records: list[TokenRecord] = field(default_factory=list)
    id: str = ""  # request number in the engine
    e2e_latency: float = 0.0  # seconds since submission
    # Prompt tokens from logprob_start_len on. The first prompt token has no log-probability.
    scored_ids: list[int] = field(default_factory=list)
    next_token: int | None = None  # see `logprobs`
    # Parameters of the request.
    params: SamplingParams = field(default=SamplingParams(), repr=False, compare=False)
    # Converts a token to text, if token texts are requested.
    token_text: Callable[[int], str] | None = field(default=None, repr=False, compare=False)
    # Record of an approximate answer (`approximate=True`); None for an exact answer.
    approximate: Approximation | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, key: str) -> Any:
        """Return an entry of SGLang's result. `key` is "text", "output_ids" or "meta_info"."""
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
        """Metadata with SGLang's keys and shapes, plus sgnb's keys."""
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
            output_ids = self.token_ids if self.next_token is None else [self.next_token]
            info |= {
                "output_token_logprobs": self._triples(output_ids, self.logprobs),
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
        if self.approximate is not None:
            info["approximate"] = self.approximate
        return info

    def _finish(self) -> dict[str, Any] | None:
        """Finish reason in SGLang's shape."""
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
    """Return a record for `meta_info` with probabilities; None for unsampled tokens."""
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
