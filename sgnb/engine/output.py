"""What a request gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TokenLogprob = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Output:
    """The result of one sample, or while it is streamed, its result so far.

    finish_reason: "stop", "length", "abort" or "error"; None while it runs. stopped_by: the stop string or token id.
    cached_tokens: prompt tokens found in the cache. logprobs: natural log-probabilities of the output tokens by the
    model itself; prompt_logprobs: of the prompt's tokens from max(logprob_start_len, 1) on; top_logprobs and
    prompt_top_logprobs: the likeliest (token, log-probability) pairs at the same places. Empty when not asked for.
    """

    text: str
    token_ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    finish_reason: str | None
    stopped_by: str | int | None = None
    error: Exception | None = None
    delta: str = ""
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)
    prompt_top_logprobs: list[list[TokenLogprob]] = field(default_factory=list)

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
                "output_token_logprobs": list(zip(self.token_ids, self.logprobs, strict=True)),
                "input_token_logprobs": self.prompt_logprobs,
                "output_top_logprobs": self.top_logprobs,
                "input_top_logprobs": self.prompt_top_logprobs,
            }
        return info
