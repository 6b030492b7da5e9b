"""One request inside the engine, and the part of it that a step computes."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..sampling import SamplingParams
from .radix import Ints, Node


class Request:
    """The tokens of a request and where their keys and values lie.

    tokens: prompt and output, int32[size]. The first `held` have a slot in `slots`, the first `computed` have their
    keys and values there, and the first `node.end` of the slots belong to the radix tree, the others to this request.
    node: the tree node that the request keeps locked; None while it waits. hint: where the last look-up ended.
    arrival: the step in which it began to wait. cached_tokens: prompt tokens in the cache at the first admission.
    closed: no token will be added; what is left is to score those that are there.
    """

    def __init__(self, id: int, prompt: list[int], params: SamplingParams, limit: int, namespace: str = "") -> None:
        """limit: the largest number of new tokens, already cut to what context and pool can hold."""
        self.id = id
        self.params = params
        self.namespace = namespace
        self.prompt_length = self.size = len(prompt)
        self.limit = limit
        self._tokens: Ints = np.empty(len(prompt) + limit, np.int32)
        self._tokens[: self.size] = prompt
        self.slots: Ints = np.empty(len(self._tokens), np.int32)
        self.held = self.computed = 0
        self.node: Node | None = None
        self.hint: Node | None = None
        self.cached_tokens: int | None = None
        self.arrival = 0
        self.closed = False
        self._unscored = _first_scored(params, len(prompt))
        self.random = random.Random(params.seed)
        self.prompt_logprobs: list[float] = []
        self.prompt_top_logprobs: list[list[tuple[int, float]]] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[list[tuple[int, float]]] = []

    @property
    def tokens(self) -> Ints:
        return self._tokens[: self.size]

    @property
    def output(self) -> list[int]:
        result: list[int] = self._tokens[self.prompt_length : self.size].tolist()
        return result

    @property
    def output_length(self) -> int:
        return self.size - self.prompt_length

    @property
    def remaining(self) -> int:
        """New tokens that may still come."""
        return self.limit - self.output_length

    @property
    def uncomputed(self) -> int:
        return self.size - self.computed

    @property
    def score_from(self) -> int:
        """First position whose log-probability is still to be computed; the size when none is."""
        return min(self._unscored, self.size)

    @property
    def reusable(self) -> int:
        """How many leading tokens may come from the cache: the last one, and what is scored, must be computed."""
        return self.score_from - 1

    def append(self, token: int) -> None:
        """Add a sampled token, whose log-probability is known with it."""
        self._tokens[self.size] = token
        self.size += 1
        self._unscored = max(self._unscored, self.size)

    def rewrite(self, position: int, tokens: Sequence[int]) -> None:
        """Put `tokens` in place of all tokens from `position` on. What was computed of those is forgotten."""
        self.size = position + len(tokens)
        self._tokens[position : self.size] = tokens
        self.computed = min(self.computed, position)
        if self.params.return_logprob:
            del self.logprobs[position - self.prompt_length :], self.top_logprobs[position - self.prompt_length :]
            self._unscored = min(self._unscored, position)
            self.computed = min(self.computed, self._unscored - 1)

    def scored(self, logprobs: list[float], top: list[list[tuple[int, float]]]) -> None:
        """Take the log-probabilities of the tokens from `score_from` on, and with `top` the likeliest ones there."""
        prompt = max(0, self.prompt_length - self.score_from)
        self.prompt_logprobs += logprobs[:prompt]
        self.logprobs += logprobs[prompt:]
        self.prompt_top_logprobs += top[:prompt]
        self.top_logprobs += top[prompt:]
        self._unscored += len(logprobs)


def _first_scored(params: SamplingParams, prompt_length: int) -> int:
    if not params.return_logprob:
        return sys.maxsize
    return prompt_length if params.logprob_start_len < 0 else max(params.logprob_start_len, 1)


class Chunk(NamedTuple):
    """Tokens start .. start + length of a request, to be computed in one step."""

    request: Request
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def samples(self) -> bool:
        """Whether the step ends with a new token for the request."""
        request = self.request
        return self.end == request.size and request.remaining > 0 and not request.closed
