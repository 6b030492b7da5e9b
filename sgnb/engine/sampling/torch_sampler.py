"""Sampling in torch: greedy, temperature, top-k, top-p, min-p, penalties and biases, with a random
number per row.

Filters apply in sequence, each to the result of the previous filter, as in transformers. The token
of a row depends only on the row's logits, parameters and random number, never on other rows.
Nothing waits for the device. `sample_kernel` is the fast version for plain rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..device.transfer import to_device
from ..step_input import Adjustment, Filters, SamplingInput

GREEDY = 1e-6
"""Largest temperature that counts as greedy. Division by a smaller number leaves the range of
float32."""

FEW = 1024
"""Largest top_k that selects tokens without sorting the vocabulary. Larger values and other filters
sort."""


class SamplerOutput(NamedTuple):
    """Samples of the rows of a step, on the device of the logits."""

    tokens: Tensor  # int64[rows], 0 without an allowed token
    # float32[rows], natural log-probability of the token, before masks, temperature and filters
    logprobs: Tensor
    # float32[rows], logarithm of the model's probability of all allowed tokens; 0 without a mask
    log_mass: Tensor
    # int32[rows], number of allowed tokens: the vocabulary without a mask, 0 if no token can be
    # sampled, which biases can cause too
    allowed: Tensor


class TokenMask(NamedTuple):
    """Masks of some rows of a step."""

    rows: Tensor  # int64[n]
    allowed: Tensor  # bool[n, vocab]


def pick(logits: Tensor, sampling: SamplingInput, mask: TokenMask | None = None) -> SamplerOutput:
    """Sample a token for each row of `logits`, float [rows, vocab], with its probabilities.

    `logits` may be overwritten.
    """
    rows, vocab = logits.shape
    logits = logits.float()
    logprobs = logits.log_softmax(-1)
    log_mass = logits.new_zeros(rows)
    allowed = torch.full((rows,), vocab, dtype=torch.int32, device=logits.device)
    if mask is not None:
        forbidden = ~mask.allowed
        logits.index_copy_(0, mask.rows, logits[mask.rows].masked_fill_(forbidden, -torch.inf))
        log_mass.index_copy_(
            0, mask.rows, logprobs[mask.rows].masked_fill_(forbidden, -torch.inf).logsumexp(-1)
        )
        allowed.index_copy_(0, mask.rows, mask.allowed.sum(-1, dtype=torch.int32))

    tokens = sample(logits, sampling)
    allowed.masked_fill_(~logits.gather(1, tokens[:, None])[:, 0].isfinite(), 0)
    tokens.masked_fill_(allowed == 0, 0)
    return SamplerOutput(tokens, logprobs.gather(1, tokens[:, None])[:, 0], log_mass, allowed)


def sample(logits: Tensor, sampling: SamplingInput) -> Tensor:
    """Sample a token, int64[rows], for each row of `logits`, float32 [rows, vocab].

    A row without an allowed token gets any token. `logits` take penalties, biases and bans.
    """
    for row, adjustment in sampling.adjustments.items():
        _adjust(logits[row], adjustment())
    tokens = logits.argmax(-1)
    drawn = np.flatnonzero(sampling.temperatures > GREEDY).tolist()
    few = {row for row, each in sampling.filters.items() if 1 <= each.top_k <= FEW}

    # The way of a row depends only on its own parameters, so that ties and roundings are equal in
    # every batch.
    for draw, rows in (
        (_draw, [row for row in drawn if row not in sampling.filters]),
        (_draw_of_few, [row for row in drawn if row in few]),
        (_draw_sorted, [row for row in drawn if row in sampling.filters and row not in few]),
    ):
        if rows:
            index = to_device(rows, logits.device)
            filters = [sampling.filters[row] for row in rows if row in sampling.filters]
            temperatures = to_device(sampling.temperatures[rows], logits.device)[:, None]
            draws = to_device(sampling.draws[rows], logits.device)
            tokens.index_copy_(0, index, draw(logits[index], temperatures, filters, draws))
    return tokens


def _adjust(row: Tensor, adjustment: Adjustment) -> None:
    """Apply the penalties, biases and bans of one row in place."""
    device, factor = row.device, adjustment.repetition_penalty

    if len(adjustment.repeated):
        repeated = to_device(adjustment.repeated, device)
        logits = row[repeated]
        row[repeated] = torch.where(logits > 0, logits / factor, logits * factor)

    if len(adjustment.penalized):
        penalties = to_device(adjustment.penalties, device).to(row.dtype)
        row[to_device(adjustment.penalized, device)] -= penalties

    if len(adjustment.biased):
        biases = to_device(adjustment.biases, device).to(row.dtype)
        row.index_add_(0, to_device(adjustment.biased, device), biases)

    if len(adjustment.banned):
        row.index_fill_(0, to_device(adjustment.banned, device), -torch.inf)


def _draw(logits: Tensor, temperatures: Tensor, filters: list[Filters], draws: Tensor) -> Tensor:
    """Inverse transform sampling: the first token, by id, at which the cumulative probability
    passes the draw."""
    return _invert(_tempered(logits, temperatures).softmax(-1), draws)


def _tempered(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Return logits [rows, n] over temperatures [rows, 1], shifted to a maximum of 0, because large
    logits would overflow."""
    return (logits - logits.amax(-1, keepdim=True)).div_(temperatures)


def _draw_of_few(
    logits: Tensor, temperatures: Tensor, filters: list[Filters], draws: Tensor
) -> Tensor:
    order = _largest(logits, max(each.top_k for each in filters))
    return _draw_filtered(logits.gather(1, order), order, temperatures, filters, draws)


def _draw_sorted(
    logits: Tensor, temperatures: Tensor, filters: list[Filters], draws: Tensor
) -> Tensor:
    values, order = logits.sort(dim=-1, descending=True, stable=True)
    return _draw_filtered(values, order, temperatures, filters, draws)


def _largest(logits: Tensor, count: int) -> Tensor:
    """Return the tokens of the `count` largest logits, float32 [rows, vocab]: largest first, equal
    logits by token id.

    Equal logits are common in bfloat16, and `topk` orders equal values arbitrarily. The keys of the
    comparison are distinct integers of logit and token id. The bits of the logit are mapped to the
    order of integers.
    """
    bits = logits.view(torch.int32)
    rising = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    token = torch.arange(logits.shape[1] - 1, -1, -1, device=logits.device)
    keys = (rising << 32 | token).topk(min(count, logits.shape[1]), dim=-1).values
    return logits.shape[1] - 1 - (keys & 0x7FFFFFFF)


def _draw_filtered(
    logits: Tensor, order: Tensor, temperatures: Tensor, filters: list[Filters], draws: Tensor
) -> Tensor:
    """Sample with top-k, top-p and min-p from the tokens `order`, sorted by falling logits."""
    values = to_device(np.array(filters, np.float64), logits.device).to(logits.dtype)
    top_k, top_p, min_p = values.split(1, dim=1)
    rank = torch.arange(logits.shape[1], device=logits.device)[None]
    scaled = _tempered(logits, temperatures).masked_fill((top_k > 0) & (rank >= top_k), -torch.inf)
    probabilities = scaled.softmax(-1)
    mass_before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill((mass_before >= top_p) & (rank > 0), 0.0)
    probabilities = probabilities.masked_fill(probabilities < min_p * probabilities[:, :1], 0.0)
    return order.gather(1, _invert(probabilities, draws)[:, None])[:, 0]


def _invert(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Return the index at which the cumulative probability passes each draw. Double precision keeps
    small probabilities in the sum of a large vocabulary."""
    cumulative = probabilities.double().cumsum(-1)
    total = cumulative[:, -1:].contiguous()
    index = torch.searchsorted(cumulative, draws[:, None] * total, right=True)
    # A draw close to 1 can be rounded up to the sum: take the last token with a probability.
    index = torch.minimum(index, torch.searchsorted(cumulative, total))
    # out of range for a row without any probability
    return index[:, 0].clamp_(max=probabilities.shape[1] - 1)


def top_logprobs(logprobs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return (values, tokens), float and int64 [rows, count], of the most likely tokens.
    logprobs: [rows, vocab]."""
    values, tokens = logprobs.topk(min(count, logprobs.shape[-1]), dim=-1)
    return values, tokens
