"""From a step's logits to its tokens: score what was given, mask what grammars forbid, sample, keep probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import GrammarError
from ..events import Masked, Sampled
from .live import Live
from .masking import mask
from .request import Chunk, Request
from .runner import logit_rows
from .sampler import sample, top_logprobs


class Choices(NamedTuple):
    """What a step chose. `failed`: requests whose grammar left no token, and why."""

    sampled: list[Sampled]
    masked: list[Masked]
    failed: list[tuple[Live, GrammarError]]


def choose(chunks: list[Chunk], logits: Tensor, lives: Mapping[int, Live]) -> Choices:
    """One token for each chunk that samples; logits as the runner gives them, and overwritten.

    The requests and their grammars keep the probabilities, and grammars move on; nothing is appended.
    """
    logprobs = logits.log_softmax(-1)
    rows, chosen = [], []
    first = 0
    for chunk in chunks:
        count = len(logit_rows(chunk))
        _score(chunk, logprobs[first : first + count])
        first += count
        if chunk.samples:
            rows.append(first - 1)
            chosen.append(lives[chunk.request.id])
    if not rows:
        return Choices([], [], [])
    if len(rows) < len(logits):
        index = torch.tensor(rows, device=logits.device)
        logits, logprobs = logits[index], logprobs[index]
    masks = mask(chosen, logits, logprobs)
    tokens = sample(logits, [live.request for live in chosen], [live.banned for live in chosen])
    values = logprobs.gather(1, torch.tensor(tokens, device=logprobs.device)[:, None])[:, 0].tolist()
    sampled, masked = [], []
    for row, (live, token, value) in enumerate(zip(chosen, tokens, values, strict=True)):
        if row in masks.errors:
            continue
        if live.constraint is not None:
            allowed, left = masks.left.get(row, (logits.shape[1], 0.0))
            try:
                record = live.constraint.take(token, token in live.stop_tokens, allowed, value, value - left)
            except GrammarError as error:  # a library's limit is reached: its request fails, the others go on
                masks.errors[row] = error
                continue
            if row in masks.left:
                masked.append(Masked(live.request.id, allowed, round(left, 4), record.before, record.after))
        sampled.append(Sampled(live.request.id, token, round(value, 4)))
        _keep(live.request, value, logprobs[row : row + 1])
    return Choices(sampled, masked, [(chosen[row], error) for row, error in masks.errors.items()])


def _score(chunk: Chunk, logprobs: Tensor) -> None:
    """Keep the log-probabilities of the tokens that follow a chunk's scored positions; rows as `logit_rows`."""
    request = chunk.request
    positions = [p for p in logit_rows(chunk) if p + 1 < request.size]
    if not positions:
        return
    targets = torch.from_numpy(request.tokens[positions[0] + 1 : positions[-1] + 2]).to(logprobs.device, torch.long)
    scored = logprobs[: len(positions)]
    wanted = request.params.top_logprobs_num
    request.scored(scored.gather(1, targets[:, None])[:, 0].tolist(), top_logprobs(scored, wanted) if wanted else [])


def _keep(request: Request, value: float, logprobs: Tensor) -> None:
    """The sampled token's log-probability, and the likeliest ones of its row, for a request that asked for them."""
    if request.params.return_logprob:
        request.logprobs.append(value)
        if request.params.top_logprobs_num:
            request.top_logprobs += top_logprobs(logprobs, request.params.top_logprobs_num)
