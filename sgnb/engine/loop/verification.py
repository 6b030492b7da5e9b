"""Comparisons of approximate answers with exact runs, while the engine is idle.

An exact request computes the prompt and scores the tokens of the answer; its keys and values stay
in the cache. If a token could differ, a second exact request generates the answer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...errors import first_line
from ...events import AnswerVerified
from ...sampling import SamplingParams
from ...sequences import common_length
from ..cache.radix import Ints
from ..cache.sequence import CacheScope
from ..request.approximation import (
    ALTERNATIVES,
    Approximation,
    KeySample,
    Row,
    Verification,
    divergence,
    status_of,
)
from ..request.arguments import Submission
from ..request.output import Output
from ..request.request import Request
from ..request.request_state import NO_ORIGIN, RequestState
from ..scheduler import Scheduler

IDLE_SECONDS = 0.2
"""Seconds without requests before a comparison. The next call of a program arrives earlier."""

STEP_TOKENS = 256
"""Prompt tokens of a step of a comparison. A request that arrives meanwhile waits for the step."""

MAX_PENDING = 256
"""Answers that wait for a comparison."""


@dataclass(slots=True)
class Answer:
    """A finished approximate answer without a comparison."""

    request: int
    approximation: Approximation
    prompt: Ints
    tokens: list[int]
    given: list[int]  # first tokens of `tokens`, given with the request
    params: SamplingParams  # of an exact run with the same draws
    scope: CacheScope
    rows: dict[int, Row]  # likeliest tokens by output position
    sample: KeySample | None
    ended_at: float  # `time.perf_counter`
    text: str
    mean_kl: float | None = None  # known after the scores
    key_errors: tuple[float, float] = (0.0, 0.0)


class AnswerVerifier:
    """Queue of comparisons on the engine's thread.

    Args:
        scheduler: Scheduler, to detect an idle engine.
        submit: Queues requests.
        abort: Ends requests at the next step.
        emit: Receives the events.

    Attributes:
        make: Creates requests; see `RequestFactory.make`.
        is_current: Returns whether the weights are the same as at the last request.
        key_errors: Returns the relative errors of the reused keys, after the exact prefill; see
            `KeyRotation.errors`. None without keys to compare with.
    """

    make: Callable[[Submission, bool, int], list[RequestState]]
    is_current: Callable[[], bool]
    key_errors: Callable[[Answer], tuple[float, float] | None]

    def __init__(
        self,
        scheduler: Scheduler,
        submit: Callable[[list[RequestState]], None],
        abort: Callable[[list[int]], None],
        emit: Callable[[Any], None],
    ) -> None:
        self._scheduler, self._submit, self._abort, self._emit = scheduler, submit, abort, emit
        self._pending: deque[Answer] = deque()
        self._running: tuple[Request, Answer] | None = None  # the exact request of an answer
        self._idle_since = 0.0

    def add(self, state: RequestState, output: Output) -> None:
        """Queue the comparison of an approximate answer. Raises nothing: the caller delivers the
        answer afterwards."""
        request, approximation, sample = state.request, state.approximation, state.key_sample
        assert approximation is not None
        answer = Answer(
            request=request.id,
            approximation=approximation,
            prompt=request.tokens[: request.num_prompt_tokens].copy(),
            tokens=list(output.token_ids),
            given=request.given_output,
            params=_exact(request),
            scope=request.cache_scope,
            rows=state.likeliest,
            sample=sample,
            ended_at=time.perf_counter(),
            text=output.text,
        )
        if output.finish_reason not in ("stop", "length") or not answer.tokens:
            self._decide(answer, None, "the answer was not completed")
            return
        try:
            if sample is not None:
                answer.sample = sample._replace(content=sample.content.cpu())
        except Exception as error:  # the device is lost
            self._decide(answer, None, f"the comparison failed: {first_line(error)}")
            return
        self._idle_since = answer.ended_at
        self._pending.append(answer)
        if len(self._pending) > MAX_PENDING:
            self._decide(self._pending.popleft(), None, "too many answers waited")

    def make_way(self) -> None:
        """Stop a comparison next to other requests, and keep its next step short for requests that
        arrive meanwhile. The computed part stays in the cache."""
        if self._running is None:
            return
        request, _ = self._running
        if len(self._scheduler.running) + len(self._scheduler.waiting) > 1:
            self._abort([request.id])
        computed = request.num_computed or self._scheduler.cache.look_up(request).length
        request.split = computed + STEP_TOKENS

    @property
    def patience(self) -> float | None:
        """Seconds until the next comparison; None without one."""
        if self._running is not None or not self._pending or self._scheduler.has_work:
            return None
        return max(0.0, self._idle_since + IDLE_SECONDS - time.perf_counter())

    def idle(self) -> None:
        """Start the next comparison, if due."""
        if self.patience != 0:
            return
        if not self.is_current():
            self.give_up("the weights changed")
        elif self._pending:
            answer = self._pending.popleft()
            try:
                self._start(answer)
            except Exception as error:
                self._decide(answer, None, f"the comparison failed: {first_line(error)}")

    def give_up(self, reason: str) -> None:
        """Mark all remaining answers as unverified."""
        if self._running is not None:
            request, answer = self._running
            self._running = None
            self._abort([request.id])
            self._decide(answer, None, reason)
        while self._pending:
            self._decide(self._pending.popleft(), None, reason)

    def _start(self, answer: Answer) -> None:
        """Queue an exact request: first the scores of the answer's tokens, then the answer."""
        prompt, given, params = answer.prompt.tolist(), answer.given, answer.params
        if answer.mean_kl is None:
            params = replace(_SCORES, logprob_start_len=len(prompt))
            prompt, given = prompt + answer.tokens, []
        submission = Submission(
            prompts=[prompt],
            params=[params],
            on_outputs=[partial(self._take, answer)],
            origins=[NO_ORIGIN._replace(purpose="verify")],
            cache_scopes=[answer.scope],
            given_outputs=[given],
        )
        [state] = self.make(submission, False, 1)
        self._running = state.request, answer
        self._submit([state])

    def _take(self, answer: Answer, output: Output) -> None:
        """Take the result of an exact request."""
        if self._running is None or self._running[1] is not answer:  # given up
            return
        self._running = None
        if output.finish_reason == "abort":
            self._idle_since = time.perf_counter()
            self._pending.appendleft(answer)
            return
        try:
            self._judge(answer, output)
        except Exception as error:
            self._decide(answer, None, f"the comparison failed: {first_line(error)}")

    def _judge(self, answer: Answer, output: Output) -> None:
        """Compare an answer with the output of an exact request."""
        if output.error is not None:
            self._decide(answer, None, f"the comparison failed: {first_line(output.error)}")
        elif answer.mean_kl is None:
            self._take_scores(answer, output)
        else:
            same = common_length(answer.tokens, list(output.token_ids))
            self._compare(answer, same, output.text)

    def _take_scores(self, answer: Answer, output: Output) -> None:
        """Compare the probabilities, and the tokens of a greedy answer."""
        rows = output.prompt_top_logprobs
        pairs = [(row, answer.rows[i]) for i, row in enumerate(rows) if i in answer.rows]
        answer.mean_kl = sum(divergence(*pair) for pair in pairs) / max(1, len(pairs))
        errors = self.key_errors(answer)
        if errors is None:
            self._decide(answer, None, "the cache has no keys of the exact run")
            return
        answer.key_errors = errors
        if _is_greedy(answer.params) and [row[0][0] for row in rows] == answer.tokens:
            self._compare(answer, len(answer.tokens), answer.text)
        else:
            self._pending.appendleft(answer)

    def _compare(self, answer: Answer, same: int, text: str) -> None:
        assert answer.mean_kl is not None
        seconds = time.perf_counter() - answer.ended_at
        result = Verification(
            same_tokens=same,
            tokens=len(answer.tokens),
            mean_kl=answer.mean_kl,
            rotation_error=answer.key_errors[0],
            key_error=answer.key_errors[1],
            seconds=seconds,
            text=text,
        )
        self._decide(answer, result)

    def _decide(self, answer: Answer, result: Verification | None, reason: str = "") -> None:
        values = result or (0, len(answer.tokens), 0.0, 0.0, 0.0, 0.0, "")
        self._emit(AnswerVerified(answer.request, status_of(result), *values, reason))
        answer.approximation.decide(result, reason)  # last: a waiting thread finds the event


_SCORES = SamplingParams(
    max_new_tokens=0, temperature=0, return_logprob=True, top_logprobs_num=ALTERNATIVES
)


def _exact(request: Request) -> SamplingParams:
    """Return the parameters of an exact run with the same draws."""
    seed = request.seed if request.params.temperature else None
    return replace(request.params, approximate=False, seed=seed, recorded_alternatives=0)


def _is_greedy(params: SamplingParams) -> bool:
    """Return whether each token is the likeliest token of the model."""
    plain = params.temperature == 0 and params.is_plain and params.grammar is None
    return plain and not params.min_new_tokens
