"""A step's logits to its tokens, in two halves: what the device computes, and what the host reads.

Between the two the engine may launch another step. What was computed for a request that has ended
or was rewritten in the meantime is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import RequestError
from ...events import Alternatives
from ..device.transfer import mark, to_device, to_host
from ..request.batch import NO_ROW, Batch
from ..request.request import Request
from .host_mask import explain, tail_mask
from .rng import uniforms
from .torch_sampler import SamplerOutput, pick, top_logprobs

Sample = Callable[[Tensor, Sequence[Request]], SamplerOutput]
"""Chooses a token for each row of logits [rows, vocab], row i for the i-th request."""

NO_NUMBERS = (
    "the model's logits are NaN or infinite",
    'float16 overflows in some models: load with dtype="bfloat16" or "float32". '
    "Else the weights are spoilt",
)
NO_TOKEN = (
    "the request's own biases and penalties leave no token that can be chosen",
    "let logit_bias spare some tokens",
)


@dataclass(slots=True)
class StepOutput:
    """What the host makes of a step."""

    requests: list[Request]  # those that get a token
    tokens: list[int]
    logprobs: list[float] | NDArray[np.float64]  # of the tokens, rounded for the events
    # The fields of events `Masked`.
    masked: list[tuple[int, int, float, int, int]] = field(default_factory=list)
    # To the tokens, where they were asked for.
    alternatives: list[Alternatives] = field(default_factory=list)
    # Those whose grammar or biases left no token.
    failed: list[tuple[Request, BaseException]] = field(default_factory=list)
    spoilt: list[Request] = field(default_factory=list)  # requests with NaN or infinite logits
    # Requests whose last tokens are computed.
    exhausted: list[Request] = field(default_factory=list)
    # Those whose drafted tokens were settled, or taken back.
    verified: list[Request] = field(default_factory=list)


class Scores(NamedTuple):
    """Log-probabilities of tokens that were given."""

    values: Tensor  # float32[n]
    top: tuple[Tensor, ...] | None  # the likeliest (values, tokens) [n, k] at each


class Extra(NamedTuple):
    """What the logits of a request are for besides its new token."""

    exhausted: bool  # the last tokens are computed, without a new token
    scores: Scores | None  # of tokens that were given
    top: tuple[Tensor, ...] | None  # the likeliest in place of the new token
    chosen: SamplerOutput | None  # what the model writes in place of drafted tokens
    norm: (
        Tensor | None
    )  # float32[], log-sum-exp of the last logits of a request that wants no token


NOTHING_ELSE = Extra(False, None, None, None, None)


class AsyncStepOutput:
    """The results of a launched batch, on their way to the host."""

    def __init__(
        self,
        batch: Batch,
        sampled: SamplerOutput | None,
        wait: Callable[[], None],
        extras: Mapping[int, Extra],
    ) -> None:
        """sampled: of `batch.sample_rows`. extras: by the place in the batch, where there are
        any."""
        self._batch, self._sampled, self._wait, self._extras = batch, sampled, wait, extras
        self._versions = [request.version for request in batch.requests]

    def get(self) -> StepOutput:
        """Wait for the results. Requests and their grammars keep the probabilities, and grammars
        move on; nothing is appended."""
        self._wait()
        return self._get_plain() or self._get_each()

    def _get_plain(self) -> StepOutput | None:
        """The fast twin of `_get_each`, for a decode step whose requests all want a token and
        nothing else, and get it. None for others."""
        batch, sampled = self._batch, self._sampled
        requests = batch.requests
        if self._extras or sampled is None or not batch.is_decode or not all(batch.samples):
            return None
        if [request.version for request in requests] != self._versions:
            return None
        if not all(map(attrgetter("wants_only_tokens"), requests)):
            return None
        count = len(requests)
        logprobs = sampled.logprobs[:count].double().round(decimals=4).numpy()
        allowed = np.count_nonzero(sampled.allowed.numpy()[:count])  # a third of torch's `all`
        if allowed < count or not (logprobs < inf).all():
            return None
        return StepOutput(requests, sampled.tokens[:count].tolist(), logprobs)

    def _get_each(self) -> StepOutput:
        output = StepOutput([], [], [])
        columns = [c.tolist() for c in self._sampled] if self._sampled else [[]] * 4
        rows = zip(self._batch.requests, self._batch.sample_rows, self._versions, strict=True)
        for place, (request, row, version) in enumerate(rows):
            if request.version != version:
                continue
            extra = self._extras.get(place, NOTHING_ELSE)
            sample = [column[row] for column in columns] if row != NO_ROW else None
            if _is_spoilt(request, extra, sample):
                output.spoilt.append(request)
                continue
            if extra.chosen is not None:
                output.verified.append(request)
                try:
                    sample = _verify(request, extra.chosen) or sample
                except BaseException as error:  # of its grammar
                    output.failed.append((request, error))
                    continue
            if sample is not None:
                _accept(request, sample, extra, output)
            elif extra.exhausted:
                output.exhausted.append(request)
        return output


def _is_spoilt(request: Request, extra: Extra, sample: Sequence[Any] | None) -> bool:
    """Whether a log-probability is NaN, or infinite as of an infinite logit, or no logit is a
    number. The scores go to the request."""
    spoilt = sample is not None and not sample[1] < inf
    if extra.chosen is not None:
        spoilt = spoilt or not bool((extra.chosen.logprobs < inf).all())
    if extra.norm is not None:
        spoilt = not isfinite(extra.norm.item())
    if extra.scores is not None:
        scores = extra.scores.values.tolist()
        spoilt = spoilt or not all(score < inf for score in scores)
        request.scored(scores, _pairs(extra.scores.top))
    return spoilt


def _verify(request: Request, chosen: SamplerOutput) -> list[Any] | None:
    """Compare drafted tokens with the model's tokens. Returns the fields of the first mismatch,
    which replaces all later drafts, or None."""
    constraint = request.state.constraint
    assert constraint is not None
    columns = [column.tolist() for column in chosen]
    agree = constraint.verify(columns[0])
    return [column[agree] for column in columns] if agree < len(columns[0]) else None


def _accept(request: Request, sample: Sequence[Any], extra: Extra, output: StepOutput) -> None:
    """Put the request's token into `output`, and move its grammar on by it. Where that fails the
    request does, whatever its grammar raises, and the others go on. sample: the fields of
    `SamplerOutput`."""
    token, logprob, kept, allowed = sample
    constraint = request.state.constraint
    binds = constraint is not None and constraint.binds
    if not allowed:
        output.failed.append(
            (request, explain(request.state) if binds else RequestError(*NO_TOKEN))
        )
        return
    alternatives = _alternatives(request, extra.top)
    if constraint is not None:
        try:
            ends = token in request.state.stop_tokens
            record = constraint.accept_token(token, ends, allowed, logprob, logprob - kept)
        except BaseException as error:
            output.failed.append((request, error))
            return
        if binds:
            place = record.before, record.after
            output.masked.append((request.id, allowed, round(kept, 4), *place))

    output.requests.append(request)
    output.tokens.append(token)
    output.alternatives += alternatives
    output.logprobs.append(round(logprob, 4))  # type: ignore[union-attr]
    if request.params.return_logprob:
        request.logprobs.append(logprob)
        request.top_logprobs += _pairs(extra.top)


def _alternatives(request: Request, top: tuple[Tensor, ...] | None) -> list[Alternatives]:
    """To the request's next token, which its grammar has not seen yet."""
    state, made = request.state, []
    for pairs in _pairs(top):
        tokens, logprobs = zip(*pairs, strict=True)
        allowed = (True,) * len(tokens)
        if state.constraint is not None and state.constraint.binds:
            mask, ends = state.constraint.allowed_tokens(), state.constraint.may_end
            allowed = tuple(
                (token < len(mask) and bool(mask[token])) or (ends and token in state.stop_tokens)
                for token in tokens
            )
        rounded = tuple(round(logprob, 4) for logprob in logprobs)
        made.append(Alternatives(request.id, tokens, rounded, allowed))
    return made


def read_later(batch: Batch, sampled: SamplerOutput) -> AsyncStepOutput:
    """The tokens of `batch.sample_rows`, chosen already; nothing else was asked for."""
    return AsyncStepOutput(
        batch, SamplerOutput(*to_host(*sampled)), mark(sampled.tokens.device), {}
    )


def sample_batch(batch: Batch, logits: Tensor, sample: Sample) -> AsyncStepOutput:
    """Choose a token for each request that samples, and the probabilities that requests asked for.

    logits: [rows, vocab], of `logit_positions` of each request in turn; may be overwritten.
    """
    extras: dict[int, Extra] = {}
    sampling: list[Request] = []
    last_rows: list[int] = []
    first = 0
    rows = zip(
        batch.requests, batch.starts.tolist(), batch.ends.tolist(), batch.samples, strict=True
    )
    for place, (request, start, end, samples) in enumerate(rows):
        positions = request.logit_positions(start, end, samples)
        scored = sum(p + 1 < request.num_tokens for p in positions)
        scores = chosen = None
        if scored and request.params.return_logprob:
            scores = _score(request, positions.start, logits[first : first + scored])
        elif scored:
            chosen = _choose(request, positions.start, logits[first : first + scored])
        first += len(positions)
        top = None
        if samples:
            sampling.append(request)
            last_rows.append(first - 1)
            if request.params.top_logprobs_num:
                logprobs = logits[first - 1 : first].float().log_softmax(-1)
                top = to_host(*top_logprobs(logprobs, request.params.top_logprobs_num))
        spent = end == request.num_tokens_with_placeholders and not samples
        norm = None
        if spent and request.limit == 0:
            (norm,) = to_host(logits[first - 1].float().logsumexp(-1))
        if spent or scores or top or chosen:
            extras[place] = Extra(spent, scores, top, chosen, norm)

    sampled = None
    if last_rows:
        if len(last_rows) < len(logits):
            logits = logits[to_device(last_rows, logits.device)]
        sampled = SamplerOutput(*to_host(*sample(logits, sampling)))
    return AsyncStepOutput(batch, sampled, mark(logits.device), extras)


def _score(request: Request, first: int, logits: Tensor) -> Scores:
    """The tokens after `first` and on, by the logits before each."""
    logprobs = logits.float().log_softmax(-1)
    targets = to_device(request.tokens[first + 1 : first + 1 + len(logits)], logits.device)
    (values,) = to_host(logprobs.gather(1, targets[:, None])[:, 0])
    wanted = request.params.top_logprobs_num
    return Scores(values, to_host(*top_logprobs(logprobs, wanted)) if wanted else None)


def _choose(request: Request, first: int, logits: Tensor) -> SamplerOutput:
    """What the request writes in place of drafted tokens, those after `first` and on."""
    rows = len(logits)
    tail = first + 1 - request.score_from
    seeds = np.full(rows, request.seed, np.uint64)
    positions = np.arange(rows) + (first + 1 - request.num_prompt_tokens)
    mask = tail_mask(request.state, tail, rows, logits.shape[1], logits.device)
    banned = [request.state.banned] * rows
    chosen = pick(logits, [request] * rows, banned, uniforms(seeds, positions), mask)
    return SamplerOutput(*to_host(*chosen))


def _pairs(top: tuple[Tensor, ...] | None) -> list[list[tuple[int, float]]]:
    """(token, log-probability) pairs of each row."""
    if top is None:
        return []
    values, tokens = (part.tolist() for part in top)
    return [list(zip(t, v, strict=True)) for t, v in zip(tokens, values, strict=True)]
