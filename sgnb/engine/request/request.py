"""Engine-side request: tokens, KV slots and progress."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...sampling import SamplingParams
from ..cache.radix import Ints
from ..cache.sequence import SHARED, CachedSequence, CacheScope
from ..items import PlacedItem, PromptItems

_seeds = random.Random()
"""Private generator: the user's `random` state stays untouched, and a system call would contend for
the GIL."""


class RequestFault(Exception):
    """Scheduler error attributed to one request."""

    def __init__(self, request: Request, error: Exception) -> None:
        super().__init__(request.id)
        self.request, self.error = request, error


class Request(CachedSequence):
    """Prompt and output, with log-probabilities and placeholders.

    A placeholder is a sampled but unread token. `num_slots` and `num_computed` count placeholders;
    with a step in flight both may exceed `num_tokens`.
    """

    __slots__ = (
        "_unscored",
        "appends_only",
        "arrival",
        "cached_tokens",
        "has_slow_grammar",
        "items",
        "limit",
        "logprobs",
        "num_tokens_with_placeholders",
        "params",
        "prompt_logprobs",
        "prompt_top_logprobs",
        "recomputed_tokens",
        "runs_ahead",
        "sample_row",
        "sealed",
        "seed",
        "state",
        "top_logprobs",
        "version",
        "wants_only_tokens",
    )

    state: Any  # the `RequestState` until the request ends

    def __init__(
        self,
        id: int,
        prompt: Sequence[int] | Ints,
        params: SamplingParams,
        limit: int,
        cache_scope: CacheScope = SHARED,
        given_output: Sequence[int] = (),
    ) -> None:
        """limit: maximum number of output tokens, within context and pool. given_output: first
        output tokens, computed like the prompt."""
        super().__init__(prompt, len(prompt) + limit, cache_scope)
        self.id = id
        self.params = params
        self.items: PromptItems | None = None  # images, videos and sounds of the prompt
        self.rewrites = params.grammar is not None
        self.limit = limit
        self.seed = _seeds.getrandbits(64) if params.seed is None else params.seed % (1 << 64)

        self.num_tokens_with_placeholders = len(prompt)
        # Cached given tokens at the first admission, and tokens loaded during the prefill.
        self.cached_tokens: int | None = None
        # Further given tokens with cached KV, recomputed because no checkpoint covers them.
        self.recomputed_tokens = 0
        self.arrival = 0  # step number at arrival in the queue

        # Each step yields a token, without scores or a grammar.
        self.wants_only_tokens = params.grammar is None and not params.return_logprob
        self.has_slow_grammar = False  # see `RequestState.grammar_work`
        self.runs_ahead = True  # the next token can be sampled before the last token is read
        self.appends_only = False  # `append` is the only work of a token that ends no text
        self.sealed = False  # no token will be added; present tokens are still scored
        self.sample_row = 0  # row of this request among the samples of the last step
        self.version = 0  # incremented by rewrites and the end; invalidates samples in flight
        self._unscored = _first_scored(params, len(prompt))
        self.prompt_logprobs: list[float | None] = []
        self.prompt_top_logprobs: list[list[tuple[int, float]]] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[list[tuple[int, float]]] = []
        if given_output:
            self.num_given_tokens += len(given_output)
            self.rewrite(self.num_prompt_tokens, given_output)

    @property
    def given_output(self) -> list[int]:
        """Output tokens given with the request."""
        tokens = self._tokens[self.num_prompt_tokens : self.num_given_tokens]
        result: list[int] = tokens.tolist()
        return result

    @property
    def isolated(self) -> bool:
        """True if the request shares no KV cache."""
        return self.cache_scope.namespace is None

    @property
    def output(self) -> list[int]:
        result: list[int] = self._tokens[self.num_prompt_tokens : self.num_tokens].tolist()
        return result

    @property
    def scored_ids(self) -> list[int]:
        """Prompt tokens from `logprob_start_len` on."""
        start = self.params.logprob_start_len
        if not self.params.return_logprob or start < 0:
            return []
        result: list[int] = self.text_tokens[start : self.num_prompt_tokens].tolist()
        return result

    @property
    def text_tokens(self) -> Ints:
        """All tokens, with a token of the vocabulary for each token of an item."""
        return self.tokens if self.items is None else self.items.text_tokens(self.tokens)

    @property
    def items_in_use(self) -> list[PlacedItem]:
        """Items with rows for later steps."""
        if self.items is None:
            return []
        # A recurrent layer may go back to an earlier state.
        start = self.num_computed if self.states is None else 0
        return [placed for placed in self.items.items if placed.end > start]

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def remaining(self) -> int:
        """Number of new tokens still allowed."""
        return self.max_len - self.num_tokens

    @property
    def num_placeholders(self) -> int:
        """Number of sampled but unread tokens."""
        return self.num_tokens_with_placeholders - self.num_tokens

    @property
    def num_uncomputed(self) -> int:
        return self.num_tokens_with_placeholders - self.num_computed

    @property
    def full(self) -> bool:
        """True if no further token may be added."""
        return self.num_tokens_with_placeholders >= self.max_len

    @property
    def idle(self) -> bool:
        """True if the request only waits for its last step to be read."""
        return self.num_uncomputed == 0 or (self.full and self.num_placeholders > 0)

    @property
    def score_from(self) -> int:
        """First position to score or drafted token to verify; the size if none remains."""
        return min(self._unscored, self.num_tokens)

    @property
    def reusable(self) -> int:
        """Number of leading tokens reusable from the cache; the last token and scored tokens must
        be computed."""
        return min(self._unscored, self.num_tokens) - 1

    def append(self, token: int) -> None:
        """Append a sampled token with its log-probability, instead of the first placeholder if
        any."""
        size = self.num_tokens
        self._tokens[size] = token
        self.num_tokens = size = size + 1
        if self.num_tokens_with_placeholders < size:
            self.num_tokens_with_placeholders = size
        if self._unscored < size:
            self._unscored = size

    @staticmethod
    def append_each(requests: Sequence[Request], sizes: Iterable[int], tokens: list[int]) -> None:
        """Fast twin of `append` for requests without scores: replace one placeholder each. sizes:
        `num_tokens` afterwards."""
        for request, size, token in zip(requests, sizes, tokens, strict=True):
            request._tokens[size - 1] = token
            request.num_tokens = size

    def rewrite(self, position: int, tokens: Sequence[int]) -> None:
        """Replace all tokens from `position` on by `tokens`. Discards their KV and all
        placeholders. The last token will be computed for its logits."""
        self.version += 1
        self.num_tokens = self.num_tokens_with_placeholders = position + len(tokens)
        self._tokens[position : self.num_tokens] = tokens
        self.num_computed = min(self.num_computed, position, self.num_tokens - 1)
        if self.params.return_logprob:
            first = position - self.num_prompt_tokens
            del self.logprobs[first:], self.top_logprobs[first:]
            self._unscored = min(self._unscored, position)
            self.num_computed = min(self.num_computed, self._unscored - 1)
        self._find_state()

    def draft(self, tokens: Sequence[int]) -> None:
        """Append draft tokens, to be scored for verification. Voids samples in flight."""
        first = self.num_tokens
        self.rewrite(first, tokens)
        self._unscored = first
        self.num_computed = min(self.num_computed, first - 1)
        self._find_state()

    def verified(self, count: int) -> None:
        """Accept the first `count` drafted tokens."""
        self._unscored += count
        if self._unscored == self.num_tokens:
            self._unscored = sys.maxsize

    def take_back(self, count: int) -> None:
        """Drop the last `count` tokens and all drafted tokens. Voids samples in flight; the logits
        at the new end are known."""
        self.version += 1
        self.num_tokens = self.num_tokens_with_placeholders = self.num_tokens - count
        self.num_computed = min(self.num_computed, self.num_tokens)
        self._unscored = sys.maxsize
        self._find_state()

    def isolate(self) -> None:
        """Keep the tokens, discard KV, scores and samples in flight, and stop sharing KV."""
        self.cache_scope = self.cache_scope._replace(namespace=None)
        self.rewrite(self.num_tokens, ())
        self.prompt_logprobs, self.prompt_top_logprobs = [], []
        self.logprobs, self.top_logprobs = [], []
        if self.params.return_logprob:  # otherwise drafted tokens stay drafted
            self._unscored = _first_scored(self.params, self.num_prompt_tokens)
        self.prefix_hint = None

    def scored(self, logprobs: list[float], top: list[list[tuple[int, float]]]) -> None:
        """Store the log-probabilities of tokens from `score_from` on, and `top`, the most likely
        tokens."""
        prompt = max(0, self.num_prompt_tokens - self.score_from)
        prompt_logprobs, prompt_top = list[float | None](logprobs[:prompt]), top[:prompt]
        if self.items is not None:
            end = self.score_from + len(prompt_logprobs)
            for row in np.flatnonzero(self.items.inside(self.score_from, end)).tolist():
                prompt_logprobs[row] = None
                if prompt_top:
                    prompt_top[row] = []
        self.prompt_logprobs += prompt_logprobs
        self.logprobs += logprobs[prompt:]
        self.prompt_top_logprobs += prompt_top
        self.top_logprobs += top[prompt:]
        self._unscored += len(logprobs)

    def _find_state(self) -> None:
        """Roll back to the last valid recurrent state; later tokens are recomputed."""
        if self.states is not None:
            self.num_computed = self.states.back_to(self.num_computed)

    def token_at(self, position: int) -> int:
        """Return the token of `span` at one position."""
        if position < self.num_tokens:
            return self._tokens.item(position)
        return -1 - self.sample_row

    def span(self, start: int, end: int) -> Ints:
        """Tokens start .. end; -1 - sample_row for an unread placeholder."""
        known = self._tokens[start : min(end, self.num_tokens)]
        return known if end <= self.num_tokens else np.append(known, np.int32(-1 - self.sample_row))

    def logit_positions(self, start: int, end: int, samples: bool) -> range:
        """Positions in start .. end with required logits: for scoring, for sampling if `samples`,
        and at the last position otherwise, to detect NaN."""
        first = max(start, self.score_from - 1)
        wanted = samples or self.limit == 0 or end < self.num_tokens_with_placeholders
        last = end if wanted else end - 1
        return range(first, max(first, last))


def _first_scored(params: SamplingParams, prompt_length: int) -> int:
    if not params.return_logprob:
        return sys.maxsize
    return prompt_length if params.logprob_start_len < 0 else max(params.logprob_start_len, 1)
