"""From a step's logits to its tokens, in two halves: what the device computes, and what is made of
it once it is read.

Between the two the engine may launch another step. What was computed for a request that has ended
or was rewritten in the meantime is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from torch import Tensor

from ...errors import EngineError, GrammarError, SgnbError
from ..device.transfer import mark, to_device, to_host
from ..request.request import Chunk, Request, logit_rows
from ..request.request_state import RequestState
from .host_mask import explain
from .torch_sampler import SamplerOutput, top_logprobs

Pick = Callable[[Tensor, Sequence[RequestState]], SamplerOutput]
"""Chooses a token for each row of logits [rows, vocab], row i for the i-th request."""


class StepOutput(NamedTuple):
    """What a step chose. lives, tokens, logprobs: the requests that get a token, and those. masked:
    the fields of events `Masked`. failed: requests that cannot go on, as their grammar left no
    token or the logits are NaN, and why. spent: requests whose last tokens are computed, and that
    get no more."""

    lives: list[RequestState]
    tokens: list[int]
    logprobs: list[float]
    masked: list[tuple[int, int, float, int, int]]
    failed: list[tuple[RequestState, SgnbError]]
    spent: list[RequestState]


class Scores(NamedTuple):
    """Log-probabilities float32[n] of tokens that were given, and the likeliest (values, tokens)
    [n, k] at each."""

    values: Tensor
    top: tuple[Tensor, ...] | None


class Extra(NamedTuple):
    """What a chunk's logits are for besides a token: to score those that were given, to tell the
    likeliest.

    spent: it was the request's last chunk, and gives no token.
    """

    spent: bool
    scores: Scores | None
    top: tuple[Tensor, ...] | None


NOTHING_ELSE = Extra(False, None, None)
NO_SEAT = -1

NAN_CURE = 'float16 overflows in some models: load with dtype="bfloat16" or "float32". Else the weights are spoilt'


class AsyncStepOutput:
    """The results of a launched step, on their way to the host.

    seats: for each request of the step, where its sample lies among the sampled; `NO_SEAT` when it
    gets none.
    """

    def __init__(
        self,
        batch: Sequence[RequestState],
        seats: Sequence[int],
        sampled: SamplerOutput | None,
        wait: Callable[[], None],
        extras: Mapping[int, Extra],
    ) -> None:
        """extras: by the place in the batch; of requests that want nothing but a token, none."""
        self._batch, self._seats, self._extras = batch, seats, extras
        self._epochs = [live.request.version for live in batch]
        self._sampled = sampled
        self._wait = wait

    @property
    def sampling(self) -> Iterator[tuple[Request, int]]:
        """The requests that get a token, with their seats."""
        return (
            (live.request, seat)
            for live, seat in zip(self._batch, self._seats, strict=True)
            if seat != NO_SEAT
        )

    def read(self, lives: Mapping[int, RequestState]) -> StepOutput:
        """Wait for the results. Requests and their grammars keep the probabilities, and grammars
        move on; nothing is appended. lives: the requests that still run."""
        self._wait()
        choices = StepOutput([], [], [], [], [], [])
        tokens, logprobs, kept, allowed = (
            [column.tolist() for column in self._sampled] if self._sampled else [[]] * 4
        )
        for place, (live, seat, epoch) in enumerate(
            zip(self._batch, self._seats, self._epochs, strict=True)
        ):
            request = live.request
            if lives.get(request.id) is not live or request.version != epoch:
                continue
            extra = self._extras.get(place, NOTHING_ELSE)
            spoilt = seat != NO_SEAT and isnan(logprobs[seat])
            if extra.scores is not None:
                scores = extra.scores.values.tolist()
                spoilt = spoilt or any(map(isnan, scores))
                request.scored(scores, _pairs(extra.scores.top))
            if spoilt:
                choices.failed.append((live, EngineError("the model's logits are NaN", NAN_CURE)))
                continue
            if seat == NO_SEAT:
                if extra.spent:
                    choices.spent.append(live)
                continue
            token, logprob = tokens[seat], logprobs[seat]
            if live.constraint is not None and not _take(
                live, token, logprob, kept[seat], allowed[seat], choices
            ):
                continue
            choices.lives.append(live)
            choices.tokens.append(token)
            choices.logprobs.append(round(logprob, 4))
            if request.params.return_logprob:
                request.logprobs.append(logprob)
                request.top_logprobs += _pairs(extra.top)
        return choices


def _take(
    live: RequestState, token: int, logprob: float, kept: float, allowed: int, choices: StepOutput
) -> bool:
    """Move the request's grammar on by the token. False when that fails: the request does, the
    others go on."""
    assert live.constraint is not None
    binds = live.constraint.binds
    try:
        if binds and not allowed:
            raise explain(live)
        record = live.constraint.accept_token(
            token, token in live.stop_tokens, allowed, logprob, logprob - kept
        )
    except GrammarError as error:
        choices.failed.append((live, error))
        return False
    if binds:
        choices.masked.append(
            (live.request.id, allowed, round(kept, 4), record.before, record.after)
        )
    return True


def collect(
    batch: Sequence[RequestState], sampled: SamplerOutput, seats: Sequence[int]
) -> AsyncStepOutput:
    """What is chosen already: `sampled` has a token for batch[i] at seats[i], and nothing else was
    asked for."""
    return AsyncStepOutput(
        batch, seats, SamplerOutput(*to_host(*sampled)), mark(sampled.tokens.device), {}
    )


def choose(
    chunks: list[Chunk], lives: Mapping[int, RequestState], logits: Tensor, pick: Pick
) -> AsyncStepOutput:
    """One token for each chunk that samples, and the probabilities that requests asked for.

    logits: [rows, vocab] as the runner gives them, `logit_rows(chunk)` for each chunk; may be
    overwritten.
    """
    batch = [lives[chunk.request.id] for chunk in chunks]
    extras: dict[int, Extra] = {}
    seats: list[int] = []
    chosen: list[int] = []
    first = 0
    for place, chunk in enumerate(chunks):
        request, positions = chunk.request, logit_rows(chunk)
        scored = sum(p + 1 < request.num_tokens for p in positions)
        scores = _score(chunk, positions.start, logits[first : first + scored]) if scored else None
        first += len(positions)
        top = None
        if chunk.samples:
            seats.append(len(chosen))
            chosen.append(first - 1)
            if request.params.top_logprobs_num:
                logprobs = logits[first - 1 : first].float().log_softmax(-1)
                top = to_host(*top_logprobs(logprobs, request.params.top_logprobs_num))
        else:
            seats.append(NO_SEAT)
        spent = chunk.end == request.num_tokens_with_placeholders and not chunk.samples
        if spent or scores or top:
            extras[place] = Extra(spent, scores, top)
    sampled = None
    if chosen:
        if len(chosen) < len(logits):
            logits = logits[to_device(chosen, logits.device)]
        sampling = [live for live, seat in zip(batch, seats, strict=True) if seat != NO_SEAT]
        sampled = SamplerOutput(*to_host(*pick(logits, sampling)))
    return AsyncStepOutput(batch, seats, sampled, mark(logits.device), extras)


def _score(chunk: Chunk, first: int, logits: Tensor) -> Scores:
    """The tokens after `first` and on, by the logits before each."""
    request = chunk.request
    logprobs = logits.float().log_softmax(-1)
    targets = to_device(request.tokens[first + 1 : first + 1 + len(logits)], logits.device)
    (values,) = to_host(logprobs.gather(1, targets[:, None])[:, 0])
    wanted = request.params.top_logprobs_num
    return Scores(values, to_host(*top_logprobs(logprobs, wanted)) if wanted else None)


def _pairs(top: tuple[Tensor, ...] | None) -> list[list[tuple[int, float]]]:
    """(token, log-probability) pairs of each row."""
    if top is None:
        return []
    values, tokens = (part.tolist() for part in top)
    return [list(zip(t, v, strict=True)) for t, v in zip(tokens, values, strict=True)]
