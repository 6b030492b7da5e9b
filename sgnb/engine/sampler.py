"""From logits to tokens. Greedy, temperature, top-k, top-p, min-p, penalties, biases; a seed for each request.

Filters are applied one after another, each on what the one before left, as transformers does. A request's samples
depend on its own random numbers only, one for each token, so that the requests beside it never change them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..sampling import SamplingParams
from .request import Request

GREEDY_BELOW = 1e-6
"""Temperatures under this are greedy: dividing by them leaves the range of float32."""


def sample(logits: Tensor, requests: list[Request], stops: list[Collection[int]]) -> list[int]:
    """One token for each row of `logits`, float32 [rows, vocab]; row i belongs to requests[i].

    stops[i]: token ids that row i may not choose yet (below its min_new_tokens). Takes one random number from each
    request that samples. `logits` may be overwritten.
    """
    for row, (request, banned) in enumerate(zip(requests, stops, strict=True)):
        if banned or _has_adjustments(request.params):
            _adjust(logits[row], request, banned)
    tokens = logits.argmax(-1)
    drawn = [i for i, r in enumerate(requests) if r.params.temperature >= GREEDY_BELOW]
    for filtered, draw in ((False, _draw), (True, _draw_filtered)):
        rows = [i for i in drawn if _has_filters(requests[i].params) == filtered]
        if rows:
            draws = [requests[i].random.random() for i in rows]
            index = torch.tensor(rows, device=logits.device)
            tokens[index] = draw(logits[index], [requests[i].params for i in rows], draws)
    result: list[int] = tokens.tolist()
    return result


def _adjust(row: Tensor, request: Request, banned: Collection[int]) -> None:
    """Penalties, biases and bans of one request, in place."""
    params = request.params
    if params.repetition_penalty != 1:
        seen = torch.from_numpy(np.unique(request.tokens)).to(row.device, torch.long)
        row[seen] = torch.where(
            row[seen] > 0, row[seen] / params.repetition_penalty, row[seen] * params.repetition_penalty
        )
    if (params.frequency_penalty or params.presence_penalty) and request.output_length:
        tokens, counts = np.unique(request.output, return_counts=True)
        penalty = torch.from_numpy(counts * params.frequency_penalty + params.presence_penalty)
        row[torch.from_numpy(tokens).to(row.device)] -= penalty.to(row)
    for token, bias in params.logit_bias:
        row[token] += bias
    if banned:
        row[list(banned)] = -torch.inf


def _has_adjustments(params: SamplingParams) -> bool:
    penalties = params.frequency_penalty, params.presence_penalty, params.repetition_penalty - 1
    return bool(params.logit_bias) or any(penalties)


def _has_filters(params: SamplingParams) -> bool:
    return params.top_k != -1 or params.top_p < 1 or params.min_p > 0


def _draw(logits: Tensor, params: list[SamplingParams], draws: list[float]) -> Tensor:
    """Inverse transform sampling: the first token, by id, at which the cumulative probability passes the draw."""
    return _invert((logits / _column(logits, params, "temperature")).softmax(-1), draws)


def _draw_filtered(logits: Tensor, params: list[SamplingParams], draws: list[float]) -> Tensor:
    """The same with top-k, top-p and min-p, and with the tokens in the order of their probability."""
    column = partial(_column, logits, params)
    scaled, order = (logits / column("temperature")).sort(dim=-1, descending=True)
    rank = torch.arange(scaled.shape[1], device=scaled.device)[None]
    top_k = column("top_k")
    scaled = scaled.masked_fill((top_k > 0) & (rank >= top_k), -torch.inf)
    probabilities = scaled.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill((before >= column("top_p")) & (rank > 0), 0.0)
    probabilities = probabilities.masked_fill(probabilities < column("min_p") * probabilities[:, :1], 0.0)
    return order.gather(1, _invert(probabilities, draws)[:, None])[:, 0]


def _column(logits: Tensor, params: list[SamplingParams], name: str) -> Tensor:
    return logits.new_tensor([getattr(p, name) for p in params])[:, None]


def _invert(probabilities: Tensor, draws: list[float]) -> Tensor:
    """Double precision, so that a large vocabulary's sum does not lose the small probabilities."""
    cumulative = probabilities.double().cumsum(-1)
    target = torch.tensor(draws, dtype=torch.double, device=cumulative.device)[:, None] * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, target, right=True)[:, 0]
    # A draw next to 1 can be rounded up to the sum: take the last token that has a probability.
    last = (probabilities > 0).long().mul(torch.arange(probabilities.shape[1], device=index.device)).amax(-1)
    return torch.minimum(index, last)


def top_logprobs(logprobs: Tensor, count: int) -> list[list[tuple[int, float]]]:
    """The `count` likeliest (token, log-probability) pairs of each row of log-probabilities [rows, vocab]."""
    values, tokens = logprobs.topk(min(count, logprobs.shape[-1]), dim=-1)
    return [list(zip(t, v, strict=True)) for t, v in zip(tokens.tolist(), values.tolist(), strict=True)]
