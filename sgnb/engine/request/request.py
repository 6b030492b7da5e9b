"""One request inside the engine, and the part of it that a step computes."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...sampling import SamplingParams
from ..cache.radix import Ints, Node, Prefix


class Request:
    """The tokens of a request and where their keys and values lie.

    tokens: prompt and output, int32[size]. The first `held` have a slot in `slots`, the first
    `computed` have their keys and values there, and the first `node.end` of the slots belong to the
    radix tree, the others to this request. node: the tree node that the request keeps locked; None
    while it waits. hint: what the last look-up gave. arrival: the step in which it began to wait.
    cached_tokens: prompt tokens in the cache at the first admission. closed: no token will be
    added; what is left is to score those that are there. retired: it has left the scheduler, while
    its last token is not read yet.
    num_tokens: the size with the tokens that a step has sampled and that are not read yet. most:
    the largest size. seat: the row of the last step's samples that holds the request's. epoch:
    counts rewrites; what was sampled before one is void. seed: of its random numbers, an integer
    below 2**64.
    """

    def __init__(
        self,
        id: int,
        prompt: Sequence[int] | Ints,
        params: SamplingParams,
        limit: int,
        namespace: str = "",
    ) -> None:
        """limit: the largest number of new tokens, already cut to what context and pool can
        hold."""
        self.id = id
        self.params = params
        self.namespace = namespace
        self.num_prompt_tokens = self.num_tokens = self.num_tokens_with_placeholders = len(prompt)
        self.limit = limit
        self.max_len = len(prompt) + limit
        self._tokens: Ints = np.empty(self.max_len, np.int32)
        self._tokens[: self.num_tokens] = prompt
        self.slots: Ints = np.empty(self.max_len, np.int32)
        self.num_slots = self.num_computed = 0
        self.node: Node | None = None
        self.prefix_hint: Prefix | None = None
        self.cached_tokens: int | None = None
        self.arrival = 0
        self.closed = self.freed_early = False
        self.sample_row = self.version = 0
        self._unscored = _first_scored(params, len(prompt))
        self.seed = random.getrandbits(64) if params.seed is None else params.seed % (1 << 64)
        self.prompt_logprobs: list[float] = []
        self.prompt_top_logprobs: list[list[tuple[int, float]]] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[list[tuple[int, float]]] = []

    @property
    def tokens(self) -> Ints:
        return self._tokens[: self.num_tokens]

    @property
    def output(self) -> list[int]:
        result: list[int] = self._tokens[self.num_prompt_tokens : self.num_tokens].tolist()
        return result

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def remaining(self) -> int:
        """New tokens that may still come."""
        return self.max_len - self.num_tokens

    @property
    def num_placeholders(self) -> int:
        """Tokens that a step has sampled and that are not read yet."""
        return self.num_tokens_with_placeholders - self.num_tokens

    @property
    def num_uncomputed(self) -> int:
        return self.num_tokens_with_placeholders - self.num_computed

    @property
    def full(self) -> bool:
        """Whether no further token may come."""
        return self.num_tokens_with_placeholders >= self.max_len

    @property
    def idle(self) -> bool:
        """Whether all that it needs is for its last step to be read."""
        return self.num_tokens_with_placeholders == self.num_computed or (
            self.full and self.num_placeholders > 0
        )

    @property
    def score_from(self) -> int:
        """First position whose log-probability is still to be computed; the size when none is."""
        return min(self._unscored, self.num_tokens)

    @property
    def reusable(self) -> int:
        """How many leading tokens may come from the cache: the last one, and what is scored, must
        be computed."""
        return min(self._unscored, self.num_tokens) - 1

    def append(self, token: int) -> None:
        """Add a sampled token, whose log-probability is known with it. It was the first of those
        ahead, if any are."""
        self._tokens[self.num_tokens] = token
        self.num_tokens += 1
        if self.num_tokens_with_placeholders < self.num_tokens:
            self.num_tokens_with_placeholders = self.num_tokens
        if self._unscored < self.num_tokens:
            self._unscored = self.num_tokens

    def rewrite(self, position: int, tokens: Sequence[int]) -> None:
        """Put `tokens` in place of all tokens from `position` on. What was computed of those is
        forgotten, and so is what was sampled and not read. The last token will be computed, for its
        logits."""
        self.version += 1
        self.num_tokens = self.num_tokens_with_placeholders = position + len(tokens)
        self._tokens[position : self.num_tokens] = tokens
        self.num_computed = min(self.num_computed, position, self.num_tokens - 1)
        if self.params.return_logprob:
            del (
                self.logprobs[position - self.num_prompt_tokens :],
                self.top_logprobs[position - self.num_prompt_tokens :],
            )
            self._unscored = min(self._unscored, position)
            self.num_computed = min(self.num_computed, self._unscored - 1)

    def scored(self, logprobs: list[float], top: list[list[tuple[int, float]]]) -> None:
        """Take the log-probabilities of the tokens from `score_from` on, and with `top` the
        likeliest ones there."""
        prompt = max(0, self.num_prompt_tokens - self.score_from)
        self.prompt_logprobs += logprobs[:prompt]
        self.logprobs += logprobs[prompt:]
        self.prompt_top_logprobs += top[:prompt]
        self.top_logprobs += top[prompt:]
        self._unscored += len(logprobs)


def _first_scored(params: SamplingParams, prompt_length: int) -> int:
    if not params.return_logprob:
        return sys.maxsize
    return prompt_length if params.logprob_start_len < 0 else max(params.logprob_start_len, 1)


SHORT = 16
"""Chunks of at most so many tokens come first in a step: attention takes their tokens as rows, as
it does decodes."""


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
        request, start, length = self
        return (
            start + length == request.num_tokens_with_placeholders < request.max_len
            and not request.closed
        )


def logit_rows(chunk: Chunk) -> range:
    """The positions of a chunk whose logits are needed: to score a prompt token, or to sample a new
    one."""
    request = chunk.request
    first = max(chunk.start, request.score_from - 1)
    last = (
        chunk.end
        if chunk.samples or chunk.end < request.num_tokens_with_placeholders
        else chunk.end - 1
    )
    return range(first, max(first, last))


def token_ids(chunk: Chunk) -> Ints:
    """The chunk's tokens; -1 - seat for one that is sampled and not read yet."""
    request = chunk.request
    known = request.tokens[chunk.start : chunk.end]
    return (
        known
        if chunk.end <= request.num_tokens
        else np.append(known, np.int32(-1 - request.sample_row))
    )
