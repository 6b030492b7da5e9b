"""Calls stopped before the end of the answer: cancellation, timeouts, errors, partial results."""

from __future__ import annotations

import weakref
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import Aborted, TimedOut
from ..executor import Result, Scores
from .ops import Choose, Generate
from .timers import call_later

if TYPE_CHECKING:
    from .branch import Branch

DRAIN_SECONDS = 5.0
"""The longest wait for the partial text of a stopped call."""

STOPS = (Aborted, KeyboardInterrupt, GeneratorExit, CancelledError)
"""Errors of a run stopped from outside."""

PARTIAL = (*STOPS, TimedOut)
"""Errors with a partial text as the value of an unfinished generation."""


def stop_call(branch: Branch, number: int, cancel: Callable[[], None]) -> None:
    """Cancel the call of the op `number` of `branch`. The op ends after `DRAIN_SECONDS`, even if
    the executor never answers. The program's lock is not held."""
    _later(DRAIN_SECONDS, branch, number, _abandon)
    cancel()


def limit_call(branch: Branch, number: int, seconds: float) -> None:
    """Stop the call of the op `number` of `branch` after `seconds`."""
    _later(seconds, branch, number, _expire)


def _later(
    seconds: float, branch: Branch, number: int, action: Callable[[Branch, int], None]
) -> None:
    reference = weakref.ref(branch)  # a timer does not keep a finished program alive

    def act() -> None:
        if (alive := reference()) is not None:
            action(alive, number)

    call_later(seconds, act)


def _expire(branch: Branch, number: int) -> None:
    with branch.program.changed:
        if branch.done != number or branch.waiting is None:
            return
        branch.expired, cancel = True, branch.cancel
    if cancel is not None:  # else the call has not been sent yet
        stop_call(branch, number, cancel)


def _abandon(branch: Branch, number: int) -> None:
    with branch.program.changed:
        op = branch.waiting if branch.done == number else None
    if op is not None:
        branch.program.deliver(branch, op, Result(error=no_answer()))


def no_answer() -> Aborted:
    """Return the error for a call without an answer to the cancellation."""
    return Aborted("the run was stopped, and the executor did not answer in time")


def timed_out(op: Generate | Choose) -> TimedOut:
    """Return the error for an op at the end of the timeout."""
    kind = "gen" if isinstance(op, Generate) else "select"
    message = f"{kind} {op.name!r} took longer than its timeout of {op.timeout:g} s"
    return TimedOut(message, "the text so far is kept; allow more with timeout=")


def partial_result(
    op: Generate, message: Result | Scores, streamed: str, meta: dict[str, Any], reason: str
) -> Result:
    """Complete the result of a stopped call to all `n` samples.

    Args:
        op: The generation of the call.
        message: The end of the call, with texts if the executor knows them.
        streamed: The streamed text, for an executor without texts.
        meta: Meta information of the streamed text.
        reason: The message of the finish reason "abort".

    Returns:
        The result without the error. Complete samples keep the finish reason.
    """
    result = message if isinstance(message, Result) else Result()
    missing = op.params.n - len(result.texts)
    texts = [*(result.texts or (streamed,)), *[""] * missing][: op.params.n]

    metas = [*(result.meta or (meta,)), *[{}] * op.params.n][: op.params.n]
    abort = {"type": "abort", "message": reason}
    ended = [(meta.get("finish_reason") or abort)["type"] != "abort" for meta in metas]
    metas = [
        meta if over else {**meta, "finish_reason": abort}
        for meta, over in zip(metas, ended, strict=True)
    ]
    return replace(result, texts=tuple(texts), meta=tuple(metas), error=None)
