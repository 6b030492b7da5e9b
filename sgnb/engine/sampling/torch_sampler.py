"""The functions behind `TorchSampler`: logits to tokens. Greedy, temperature, top-k, top-p, min-p,
penalties, biases; a random number for each row.

Filters are applied one after another, each on what the one before left, as transformers does. A
row's token depends on its own logits, parameters and random number only, so that the requests
beside it never change it. Nothing here waits for the device. Knows no grammars, only their masks;
`sample_kernel` is the fast twin for rows that are plain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..device.transfer import to_device
from ..step_input import Adjustment, Filters, SamplingInput

GREEDY = 1e-6
"""Temperatures up to this are greedy: dividing by smaller ones leaves the range of float32."""

FEW = 1024
"""A top_k up to this finds its tokens by selection; a larger one, and the other filters, sort the
vocabulary."""


class SamplerOutput(NamedTuple):
    """What was sampled for the rows of a step, all on the logits' device."""

    tokens: Tensor  # int64[rows], 0 where nothing was allowed
    # float32[rows], natural log-probability of the token for the model itself, before masks,
    # temperature and filters.
    logprobs: Tensor
    # float32[rows], the logarithm of the model's probability of all tokens that the row's mask
    # allows; 0 without a mask.
    kept: Tensor
    # int32[rows], how many those are; without a mask the whole vocabulary, and 0 for a row that may
    # choose nothing, which biases can cause too.
    allowed: Tensor


class Mask(NamedTuple):
    """What grammars allow some rows of a step."""

    rows: Tensor  # int64[bound], those that a grammar binds
    allowed: Tensor  # bool [bound, vocab], the tokens that each of them may choose


def pick(logits: Tensor, sampling: SamplingInput, mask: Mask | None = None) -> SamplerOutput:
    """Sample a token for each row of `logits`, float [rows, vocab], with its probabilities.

    `logits` may be overwritten.
    """
    rows, vocab = logits.shape
    logits = logits.float()
    logprobs = logits.log_softmax(-1)
    kept = logits.new_zeros(rows)
    allowed = torch.full((rows,), vocab, dtype=torch.int32, device=logits.device)
    if mask is not None:
        forbidden = ~mask.allowed
        logits.index_copy_(0, mask.rows, logits[mask.rows].masked_fill_(forbidden, -torch.inf))
        kept.index_copy_(
            0, mask.rows, logprobs[mask.rows].masked_fill_(forbidden, -torch.inf).logsumexp(-1)
        )
        allowed.index_copy_(0, mask.rows, mask.allowed.sum(-1, dtype=torch.int32))

    tokens = sample(logits, sampling)
    allowed.masked_fill_(~logits.gather(1, tokens[:, None])[:, 0].isfinite(), 0)
    tokens.masked_fill_(allowed == 0, 0)
    return SamplerOutput(tokens, logprobs.gather(1, tokens[:, None])[:, 0], kept, allowed)


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
    """Logits [rows, n] over temperatures [rows, 1], but for a constant: below the largest, so that
    huge ones do not become infinite."""
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
    """The tokens of the `count` largest logits, float32 [rows, vocab]; the largest first, equal
    ones by their ids.

    Equal logits are common in bfloat16, and `topk` takes any of them. So it compares integers that
    hold both the logit, mapped so that integers order as floats do, and the token, and are never
    equal.
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
    before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill((before >= top_p) & (rank > 0), 0.0)
    probabilities = probabilities.masked_fill(probabilities < min_p * probabilities[:, :1], 0.0)
    return order.gather(1, _invert(probabilities, draws)[:, None])[:, 0]


def _invert(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Double precision, so that a large vocabulary's sum does not lose the small probabilities."""
    cumulative = probabilities.double().cumsum(-1)
    total = cumulative[:, -1:].contiguous()
    index = torch.searchsorted(cumulative, draws[:, None] * total, right=True)
    # A draw next to 1 can be rounded up to the sum: take the last token that adds to it.
    index = torch.minimum(index, torch.searchsorted(cumulative, total))
    # Beyond the last one for a row without any probability.
    return index[:, 0].clamp_(max=probabilities.shape[1] - 1)


def top_logprobs(logprobs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(values, tokens), float and int64 [rows, count], of the likeliest tokens in log-probabilities
    [rows, vocab]."""
    values, tokens = logprobs.topk(min(count, logprobs.shape[-1]), dim=-1)
    return values, tokens
