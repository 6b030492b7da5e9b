"""Host half of a step's results: tokens and probabilities, given to their requests.

Another step may be launched before the results are read. Results of a request that ended or was
rewritten in the meantime are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import compress
from math import inf, isfinite
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import GrammarError, RequestError
from ...events import Alternatives
from ..request.batch import NO_ROW, Batch
from ..request.request import Request
from ..request.request_state import RequestState
from ..sampling.results import Extra, StepResults
from ..sampling.torch_sampler import SamplerOutput

NO_NUMBERS = (
    "the model's logits are NaN or infinite",
    'float16 overflows in some models: load with dtype="bfloat16" or "float32". '
    "Otherwise the weights are corrupt",
)
NO_TOKEN = (
    "logit_bias and penalties of the request forbid all tokens",
    "remove tokens from logit_bias",
)


Likeliest = list[list[tuple[int, float]]]
"""Most likely (token, log-probability) pairs by row."""


@dataclass(slots=True)
class StepOutput:
    """Results of a step by request."""

    requests: list[Request]  # requests with a new token
    tokens: list[int]
    logprobs: list[float] | NDArray[np.float64]  # of the tokens, rounded for the events
    is_plain: bool = False  # every sampling request of the step has a token, nothing else happened
    # fields of events `Masked`
    masked: list[tuple[int, int, float, int, int]] = field(default_factory=list)
    # alternatives to the tokens, if requested
    alternatives: list[Alternatives] = field(default_factory=list)
    # requests without an allowed token, because of a grammar or biases
    failed: list[tuple[Request, BaseException]] = field(default_factory=list)
    non_finite: list[Request] = field(default_factory=list)  # requests with NaN or infinite logits
    # requests with computed last tokens, without a new token
    exhausted: list[Request] = field(default_factory=list)
    # requests with drafted tokens, now accepted or dropped
    verified: list[Request] = field(default_factory=list)


NOTHING_ELSE = Extra(False, None, None, None, None)


class AsyncStepOutput:
    """Results of a launched batch, on their way to the host."""

    def __init__(
        self,
        batch: Batch,
        results: StepResults,
    ) -> None:
        """results: with the samples at `batch.sample_rows`."""
        self._batch, (self._sampled, self._wait, self._extras) = batch, results
        self._versions = [request.version for request in batch.requests]

    def get(self) -> StepOutput:
        """Wait for the results. Stores log-probabilities in requests and advances grammars, without
        appending tokens."""
        self._wait()
        return self._get_plain() or self._get_each()

    def _get_plain(self) -> StepOutput | None:
        """Fast version of `_get_each` for a step in which every request wants and gets only a
        token, or is in the middle of its prompt. Returns None for any other step."""
        batch, sampled = self._batch, self._sampled
        requests, series = batch.requests, batch.series

        if self._extras or sampled is None:
            return None
        if [request.version for request in requests] != self._versions:
            return None
        if series is None:
            wants_only_tokens = all(map(attrgetter("wants_only_tokens"), requests))
        else:
            wants_only_tokens = series.wants_only_tokens
        if not wants_only_tokens:
            return None

        logprobs = sampled.logprobs.double().round(decimals=4).numpy()
        tokens, allowed = sampled.tokens.numpy(), sampled.allowed.numpy()
        if batch.is_decode and all(batch.samples):
            rows: Any = slice(len(requests))
        else:
            rows = [row for row in batch.sample_rows if row != NO_ROW]
            requests = list(compress(requests, batch.samples))
        logprobs = logprobs[rows]
        if np.count_nonzero(allowed[rows]) < len(requests) or not (logprobs < inf).all():
            return None
        return StepOutput(requests, tokens[rows].tolist(), logprobs, is_plain=True)

    def _get_each(self) -> StepOutput:
        output = StepOutput([], [], [])
        columns = [c.tolist() for c in self._sampled] if self._sampled else [[]] * 4
        rows = zip(self._batch.requests, self._batch.sample_rows, self._versions, strict=True)

        for place, (request, row, version) in enumerate(rows):
            if request.version != version:
                continue
            extra = self._extras.get(place, NOTHING_ELSE)
            sample = [column[row] for column in columns] if row != NO_ROW else None
            top = _pairs(extra.top)[-1:]
            if _is_non_finite(request, extra, sample):
                output.non_finite.append(request)
                continue
            if extra.chosen is not None:
                output.verified.append(request)
                try:
                    mismatch = _verify(request, extra.chosen)
                except BaseException as error:  # raised by the grammar
                    output.failed.append((request, error))
                    continue
                if mismatch is not None:
                    index, sample = mismatch
                    top = _pairs(extra.top)[index : index + 1]
            if sample is not None:
                _accept(request, sample, top, output)
            elif extra.exhausted:
                output.exhausted.append(request)
        return output


class InFlightStep(NamedTuple):
    """Step running on the device."""

    step: int
    began: float  # `time.perf_counter`, seconds
    batch: Batch
    output: AsyncStepOutput
    last: list[Request]  # requests with their last token in the step

    def append_plain(self, output: StepOutput, stop_tokens: Set[int]) -> bool:
        """Append the tokens of a step without further work: no texts are read, no grammar moves
        on, no stop token is among the tokens. Returns False for any other step."""
        batch, requests, tokens = self.batch, output.requests, output.tokens
        if not output.is_plain or not stop_tokens.isdisjoint(tokens):
            return False
        if batch.series is None:
            appends_only = all(map(attrgetter("appends_only"), requests))
        else:
            appends_only = batch.series.appends_only
        if not appends_only:
            return False

        sizes = (batch.ends + 1).tolist()
        if len(requests) < len(batch):
            sizes = list(compress(sizes, batch.samples))
        Request.append_each(requests, sizes, tokens)
        return True


def _is_non_finite(request: Request, extra: Extra, sample: Sequence[Any] | None) -> bool:
    """Return True if a log-probability is NaN or positive infinity, or no logit is finite. Stores
    the scores in the request."""
    non_finite = sample is not None and not sample[1] < inf
    if extra.chosen is not None:
        non_finite = non_finite or not bool((extra.chosen.logprobs < inf).all())
    if extra.norm is not None:
        non_finite = not isfinite(extra.norm.item())
    if extra.scores is not None:
        scores = extra.scores.values.tolist()
        non_finite = non_finite or not all(score < inf for score in scores)
        request.scored(scores, _returned(request, _pairs(extra.scores.top)))
    return non_finite


def _verify(request: Request, chosen: SamplerOutput) -> tuple[int, list[Any]] | None:
    """Compare drafted tokens with the model's tokens. Returns the index and the fields of the first
    mismatch, which replaces all later drafts, or None."""
    state: RequestState = request.state
    constraint = state.constraint
    assert constraint is not None
    columns = [column.tolist() for column in chosen]
    agree = constraint.verify(columns[0])
    return (agree, [column[agree] for column in columns]) if agree < len(columns[0]) else None


def _accept(request: Request, sample: Sequence[Any], top: Likeliest, output: StepOutput) -> None:
    """Put the request's token into `output` and advance the grammar. An error of the grammar fails
    only this request.

    Args:
        request: Request of the token.
        sample: Fields of `SamplerOutput`.
        top: Most likely tokens at the position of the token: no row or one.
        output: Receives the token.
    """
    token, logprob, log_mass, allowed = sample
    state: RequestState = request.state
    constraint = state.constraint
    binds = constraint is not None and constraint.binds
    if state.approximation is not None and top:
        state.likeliest[request.num_output_tokens] = top[0]
    if not allowed:
        output.failed.append((request, explain(state) if binds else RequestError(*NO_TOKEN)))
        return
    alternatives = _alternatives(request, top)
    if constraint is not None:
        try:
            ends = token in state.stop_tokens
            record = constraint.accept_token(token, ends, allowed, logprob, logprob - log_mass)
        except BaseException as error:
            output.failed.append((request, error))
            return
        if binds:
            place = record.before, record.after
            output.masked.append((request.id, allowed, round(log_mass, 4), *place))

    output.requests.append(request)
    output.tokens.append(token)
    output.alternatives += alternatives
    output.logprobs.append(round(logprob, 4))  # type: ignore[union-attr]
    if request.params.return_logprob:
        request.logprobs.append(logprob)
        request.top_logprobs += _returned(request, top)


def _alternatives(request: Request, top: Likeliest) -> list[Alternatives]:
    """Return the alternatives to the next token, before the grammar advances."""
    state: RequestState = request.state
    results: list[Alternatives] = []
    for pairs in top:
        tokens, logprobs = zip(*pairs, strict=True)
        allowed = (True,) * len(tokens)
        if state.constraint is not None and state.constraint.binds:
            mask, ends = state.constraint.allowed_tokens(), state.constraint.may_end
            allowed = tuple(
                (token < len(mask) and bool(mask[token])) or (ends and token in state.stop_tokens)
                for token in tokens
            )
        rounded = tuple(round(logprob, 4) for logprob in logprobs)
        results.append(Alternatives(request.id, tokens, rounded, allowed))
    return results


def explain(state: RequestState) -> BaseException:
    """Return the reason why a request's mask left no token, or none with a probability."""
    assert state.constraint is not None

    try:
        allowed = state.constraint.allowed_tokens()
    except BaseException as error:
        return error
    ends = [token for token in state.stop_tokens if token < len(allowed)]

    if np.delete(allowed, ends).any():
        return GrammarError(
            "the model and logit_bias forbid all tokens that the grammar allows",
            "remove the grammar's tokens from logit_bias",
        )

    return GrammarError(
        "the grammar allows only stop tokens after "
        f"{bytes(state.constraint.data[-40:])!r}, but the text may not end there",
        "remove stop_token_ids or min_new_tokens, or allow the end in the grammar",
    )


def _returned(request: Request, top: Likeliest) -> Likeliest:
    """Return the part of `top` that `top_logprobs_num` asks for, without recorded alternatives."""
    count = request.params.top_logprobs_num
    return [pairs[:count] for pairs in top] if count else []


def _pairs(top: tuple[Tensor, ...] | None) -> Likeliest:
    """Return the (token, log-probability) pairs of each row."""
    if top is None:
        return []
    values, tokens = (part.tolist() for part in top)
    return [list(zip(t, v, strict=True)) for t, v in zip(tokens, values, strict=True)]
