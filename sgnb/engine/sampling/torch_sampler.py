"""The functions behind `TorchSampler`: logits to tokens. Greedy, temperature, top-k, top-p, min-p,
penalties, biases; a random number for each row.

Filters are applied one after another, each on what the one before left, as transformers does. A
row's token depends on its own logits, parameters and random number only, so that the requests
beside it never change it. Nothing here waits for the device. Knows no grammars, only their masks;
`sample_kernel` is the fast twin for rows that are plain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...sampling import SamplingParams
from ..device.transfer import to_device
from ..request.request import Request

GREEDY = 1e-6
"""Temperatures up to this are greedy: dividing by smaller ones leaves the range of float32."""

FEW = 1024
"""A top_k up to this finds its tokens by selection; a larger one, and the other filters, sort the
vocabulary."""

UNCONSTRAINED, PREVIOUS = -1, -2
"""What a row's state says in place of a grammar's state on the device: no mask; the state that the
last step left for the row."""


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


def pick(
    logits: Tensor,
    requests: Sequence[Request],
    banned: Sequence[Collection[int]],
    draws: NDArray[np.float64],
    mask: Mask | None = None,
) -> SamplerOutput:
    """One token for each row of `logits`, float [rows, vocab], and its probabilities; arguments as
    in `sample`.

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
    tokens = sample(logits, requests, banned, draws)
    allowed.masked_fill_(~logits.gather(1, tokens[:, None])[:, 0].isfinite(), 0)
    tokens.masked_fill_(allowed == 0, 0)
    return SamplerOutput(tokens, logprobs.gather(1, tokens[:, None])[:, 0], kept, allowed)


def sample(
    logits: Tensor,
    requests: Sequence[Request],
    banned: Sequence[Collection[int]],
    draws: NDArray[np.float64],
) -> Tensor:
    """One token, int64[rows], for each row of `logits`, float32 [rows, vocab]; row i belongs to
    requests[i]. Any token, for a row that may choose none.

    banned[i]: token ids that row i may not choose yet (below its min_new_tokens). draws[i]: a
    number in [0, 1) that decides, where the row is not greedy. `logits` take penalties, biases and
    bans.
    """
    for row, (request, ids) in enumerate(zip(requests, banned, strict=True)):
        if ids or request.params.adjusts_logits:
            _adjust(logits[row], request, ids)
    tokens = logits.argmax(-1)
    params = [request.params for request in requests]
    drawn = [i for i, p in enumerate(params) if p.temperature > GREEDY]
    # Each row's way depends on its own parameters, so that its ties and roundings are the same in
    # every batch.
    for draw, takes in (
        (_draw, _is_unfiltered),
        (_draw_of_few, _takes_few),
        (_draw_sorted, _takes_many),
    ):
        rows = [i for i in drawn if takes(params[i])]
        if rows:
            index = to_device(rows, logits.device)
            chosen = draw(
                logits[index], [params[i] for i in rows], to_device(draws[rows], logits.device)
            )
            tokens.index_copy_(0, index, chosen)
    return tokens


def _adjust(row: Tensor, request: Request, banned: Collection[int]) -> None:
    """Penalties, biases and bans of one request, in place."""
    params, device = request.params, row.device
    if params.repetition_penalty != 1:
        seen = to_device(np.unique(request.tokens), device)
        logits = row[seen]
        row[seen] = torch.where(
            logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty
        )
    if (params.frequency_penalty or params.presence_penalty) and request.num_output_tokens:
        tokens, counts = np.unique(request.output, return_counts=True)
        penalty = counts * params.frequency_penalty + params.presence_penalty
        row[to_device(tokens, device)] -= to_device(penalty, device).to(row.dtype)
    if params.logit_bias:
        biased, biases = zip(*params.logit_bias, strict=True)
        row.index_add_(0, to_device(biased, device), to_device(biases, device).to(row.dtype))
    if banned:
        row.index_fill_(0, to_device(sorted(banned), device), -torch.inf)


def _is_unfiltered(params: SamplingParams) -> bool:
    return not params.filters


def _takes_few(params: SamplingParams) -> bool:
    return 1 <= params.top_k <= FEW


def _takes_many(params: SamplingParams) -> bool:
    return params.filters and not _takes_few(params)


def _draw(logits: Tensor, params: list[SamplingParams], draws: Tensor) -> Tensor:
    """Inverse transform sampling: the first token, by id, at which the cumulative probability
    passes the draw."""
    temperatures = to_device([p.temperature for p in params], logits.device).to(logits.dtype)
    return _invert(_tempered(logits, temperatures[:, None]).softmax(-1), draws)


def _tempered(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Logits [rows, n] over temperatures [rows, 1], but for a constant: below the largest, so that
    huge ones do not become infinite."""
    return (logits - logits.amax(-1, keepdim=True)).div_(temperatures)


def _draw_of_few(logits: Tensor, params: list[SamplingParams], draws: Tensor) -> Tensor:
    order = _largest(logits, max(p.top_k for p in params))
    return _draw_filtered(logits.gather(1, order), order, params, draws)


def _draw_sorted(logits: Tensor, params: list[SamplingParams], draws: Tensor) -> Tensor:
    return _draw_filtered(*logits.sort(dim=-1, descending=True, stable=True), params, draws)


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
    logits: Tensor, order: Tensor, params: list[SamplingParams], draws: Tensor
) -> Tensor:
    """With top-k, top-p and min-p, among the tokens `order`, whose logits fall; draws by their
    order."""
    values = np.array([[p.temperature, p.top_k, p.top_p, p.min_p] for p in params])
    temperature, top_k, top_p, min_p = (
        to_device(values, logits.device).to(logits.dtype).split(1, dim=1)
    )
    rank = torch.arange(logits.shape[1], device=logits.device)[None]
    scaled = _tempered(logits, temperature).masked_fill((top_k > 0) & (rank >= top_k), -torch.inf)
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
