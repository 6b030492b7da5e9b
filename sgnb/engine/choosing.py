"""From a step's logits to its tokens, in two halves: what the device computes, and what is made of it once it is read.

Between the two the engine may launch another step. What was computed for a request that has ended or was rewritten in
the meantime is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import GrammarError
from ..events import Masked
from .live import Live
from .masking import explain
from .request import Chunk, Request, logit_rows
from .sampler import Picks, top_logprobs
from .transfer import mark, to_device, to_host

Pick = Callable[[Tensor, Sequence[Live]], Picks]
"""Chooses a token for each row of logits [rows, vocab], row i for the i-th request."""


class Choices(NamedTuple):
    """What a step chose. `failed`: requests whose grammar left no token, and why. `spent`: requests whose last tokens
    are computed, and that get no more."""

    sampled: list[tuple[int, int, float]]
    masked: list[Masked]
    failed: list[tuple[Live, GrammarError]]
    spent: list[Live]


class Scores(NamedTuple):
    """Log-probabilities float32[n] of tokens that were given, and the likeliest (values, tokens) [n, k] at each."""

    values: Tensor
    top: tuple[Tensor, ...] | None


class Row(NamedTuple):
    """A chunk in a step: what its logits are for, and the request's state when it was launched."""

    live: Live
    samples: bool
    spent: bool
    scores: Scores | None
    top: tuple[Tensor, ...] | None
    epoch: int


class Chosen:
    """The results of a launched step, on their way to the host.

    seats: for each row that samples, where its sample lies among the picks.
    """

    def __init__(
        self, rows: list[Row], picks: Picks | None, seats: Sequence[int], wait: Callable[[], None]
    ) -> None:
        self._rows = rows
        self._picks = picks
        self._seats = seats
        self._wait = wait

    @property
    def sampling(self) -> Iterator[tuple[Request, int]]:
        """The requests that get a token, with their seats."""
        return zip((row.live.request for row in self._rows if row.samples), self._seats, strict=True)

    def read(self, lives: Mapping[int, Live]) -> Choices:
        """Wait for the results. Requests and their grammars keep the probabilities, and grammars move on; nothing is
        appended. lives: the requests that still run."""
        self._wait()
        choices = Choices([], [], [], [])
        picked = list(zip(*(column.tolist() for column in self._picks), strict=True)) if self._picks else []
        picks = (picked[seat] for seat in self._seats)
        for row in self._rows:
            live, samples, spent, scores, _, epoch = row
            pick = next(picks) if samples else None
            request = live.request
            if lives.get(request.id) is not live or request.epoch != epoch:
                continue
            if scores is not None:
                request.scored(scores.values.tolist(), _pairs(scores.top))
            if pick is not None:
                self._take(row, pick, choices)
            elif spent:
                choices.spent.append(live)
        return choices

    def _take(self, row: Row, pick: tuple[Any, ...], choices: Choices) -> None:
        live, request, (token, logprob, kept, allowed) = row.live, row.live.request, pick
        if live.constraint is not None:
            binds = live.constraint.binds
            try:
                if binds and not allowed:
                    raise explain(live)
                record = live.constraint.take(token, token in live.stop_tokens, allowed, logprob, logprob - kept)
            except GrammarError as error:  # its request fails, the others go on
                choices.failed.append((live, error))
                return
            if binds:
                choices.masked.append(Masked(request.id, allowed, round(kept, 4), record.before, record.after))
        choices.sampled.append((request.id, token, round(logprob, 4)))
        if request.params.return_logprob:
            request.logprobs.append(logprob)
            request.top_logprobs += _pairs(row.top)


def collect(batch: Sequence[Live], picks: Picks, seats: Sequence[int]) -> Chosen:
    """What is chosen already: `picks` has a token for batch[i] at seats[i], and nothing else was asked for."""
    rows = [Row(live, True, False, None, None, live.request.epoch) for live in batch]
    device = picks.tokens.device
    return Chosen(rows, Picks(*to_host(*picks)), seats, mark(device))


def choose(chunks: list[Chunk], lives: Mapping[int, Live], logits: Tensor, pick: Pick) -> Chosen:
    """One token for each chunk that samples, and the probabilities that requests asked for.

    logits: [rows, vocab] as the runner gives them, `logit_rows(chunk)` for each chunk; may be overwritten.
    """
    rows, first, chosen = [], 0, []
    for chunk in chunks:
        request, positions = chunk.request, logit_rows(chunk)
        scored = sum(p + 1 < request.size for p in positions)
        scores = None
        if scored:
            scores = _score(chunk, positions.start, logits[first : first + scored])
        first += len(positions)
        top = None
        if chunk.samples:
            chosen.append(first - 1)
            if request.params.top_logprobs_num:
                logprobs = logits[first - 1 : first].float().log_softmax(-1)
                top = to_host(*top_logprobs(logprobs, request.params.top_logprobs_num))
        spent = chunk.end == request.extent and not chunk.samples
        rows.append(Row(lives[request.id], chunk.samples, spent, scores, top, request.epoch))
    picks = None
    if chosen:
        if len(chosen) < len(logits):
            logits = logits[to_device(chosen, logits.device)]
        picks = Picks(*to_host(*pick(logits, [row.live for row in rows if row.samples])))
    return Chosen(rows, picks, range(len(chosen)), mark(logits.device))


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
