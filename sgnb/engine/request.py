"""One request inside the engine, and the part of it that a step computes."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from ..sampling import SamplingParams
from .radix import Ints, Node


class Request:
    """The tokens of a request and where their keys and values lie.

    tokens: prompt and output, int32[size]. The first `held` have a slot in `slots`, the first `computed` have their
    keys and values there, and the first `node.end` of the slots belong to the radix tree, the others to this request.
    node: the tree node that the request keeps locked; None while it waits. hint: where the last look-up ended.
    arrival: the step in which it began to wait. cached_tokens: found in the cache at the first admission.
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
        start = self.params.logprob_start_len
        wanted = self.params.return_logprob and start >= 0 and not self.output_length
        return min(max(start, 1), self.size) if wanted else self.size

    @property
    def reusable(self) -> int:
        """How many leading tokens may come from the cache: the last one, and what is scored, must be computed."""
        return self.score_from - 1

    def append(self, token: int) -> None:
        self._tokens[self.size] = token
        self.size += 1


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
        return self.end == self.request.size and self.request.remaining > 0
