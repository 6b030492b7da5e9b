"""Device half of a step's results: tokens, log-probabilities and scores from logits.

Nothing waits for the device; `engine/loop/step_output.py` reads the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from ..device.transfer import mark, to_device, to_host
from ..step_input import LogitUse, SamplingInput, StepInput
from .host_mask import host_mask
from .torch_sampler import SamplerOutput, pick, top_logprobs


class SampleFunction(Protocol):
    """Sampling part of a `Sampler`."""

    def __call__(self, logits: Tensor, sampling: SamplingInput) -> SamplerOutput: ...


class TokenScores(NamedTuple):
    """Log-probabilities of existing tokens."""

    values: Tensor  # float32[n]
    top: tuple[Tensor, ...] | None  # the most likely (values, tokens) [n, k] at each position


class Extra(NamedTuple):
    """Results of one sequence besides the sampled token."""

    exhausted: bool  # the last token is computed and none is sampled
    scores: TokenScores | None  # of existing tokens
    # Most likely (values, tokens) [n, k] at the drafted tokens, then at the sampled token.
    top: tuple[Tensor, ...] | None
    chosen: SamplerOutput | None  # the model's tokens at the positions of drafted tokens
    norm: Tensor | None  # float32[], log-sum-exp of the last logits if no token is wanted


class StepResults(NamedTuple):
    """Results of a launched step, on their way to the host."""

    sampled: SamplerOutput | None
    wait: Callable[[], None]  # returns when the results are on the host
    extras: dict[int, Extra]  # by sequence


def sampled_results(sampled: SamplerOutput) -> StepResults:
    """Return the results of a step whose tokens are already sampled."""
    return StepResults(SamplerOutput(*to_host(*sampled)), mark(sampled.tokens.device), {})


def sample_step(step: StepInput, logits: Tensor, sample: SampleFunction) -> StepResults:
    """Sample a token for each row of `step.sampling`, and compute what `step.uses` asks for.

    Args:
        step: Input of the step.
        logits: Logits of `step.logit_rows`, [rows, vocab]. May be overwritten.
        sample: Sampler.
    """
    chosen = _choose(step, logits)
    extras = {use.sequence: _extra(use, logits, chosen) for use in step.uses}

    sampled = None
    if len(step.sampled):
        if len(step.sampled) < len(logits):
            logits = logits[to_device(step.sampled, logits.device)]
        sampled = SamplerOutput(*to_host(*sample(logits, step.sampling)))
    return StepResults(sampled, mark(logits.device), extras)


def _choose(step: StepInput, logits: Tensor) -> SamplerOutput | None:
    """Sample the model's tokens at the positions of drafted tokens."""
    if not step.drafts.num_rows:
        return None
    rows = [
        use.first + i
        for use in step.uses
        if use.drafted
        for i in range(use.drafted[1] - use.drafted[0])
    ]
    mask = host_mask(step.drafts.masks, logits.shape[1], logits.device)
    chosen = pick(logits[to_device(rows, logits.device)], step.drafts, mask)
    return SamplerOutput(*to_host(*chosen))


def _extra(use: LogitUse, logits: Tensor, chosen: SamplerOutput | None) -> Extra:
    scores = top = drafted = norm = None
    if use.scored:
        scores = _score(use, logits[use.first : use.first + len(use.scored)])
    if use.drafted and chosen is not None:
        begin, end = use.drafted
        drafted = SamplerOutput(*(column[begin:end] for column in chosen))
    if use.top and (use.samples or use.drafted):
        first = use.first if use.drafted else use.last
        logprobs = logits[first : use.last + 1].float().log_softmax(-1)
        top = to_host(*top_logprobs(logprobs, use.top))
    if use.checks_norm:
        (norm,) = to_host(logits[use.last].float().logsumexp(-1))
    return Extra(use.exhausted, scores, top, drafted, norm)


def _score(use: LogitUse, logits: Tensor) -> TokenScores:
    logprobs = logits.float().log_softmax(-1)
    targets = to_device(use.scored, logits.device)
    (values,) = to_host(logprobs.gather(1, targets[:, None])[:, 0])
    return TokenScores(values, to_host(*top_logprobs(logprobs, use.top)) if use.top else None)
