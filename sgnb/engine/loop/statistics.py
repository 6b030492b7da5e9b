"""Statistics and waiting requests of an engine, as plain data. Read on the engine's thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...events import Wait, WaitingRequest, WaitReason
from ..request.request_state import RequestState
from ..scheduler import Scheduler
from .token_gate import PAUSED, TokenGate


def read_statistics(counts: dict[str, Any], scheduler: Scheduler) -> dict[str, Any]:
    """Return counters, the hit rate, numbers of requests, and the state of the pools.

    Args:
        counts: Counters since the start, see `EngineLoop.counts`.
        scheduler: Scheduler with the cache.
    """
    cache, prompt_tokens = scheduler.cache, counts["prompt_tokens"]
    states: dict[str, int] = {}
    if cache.checkpoints is not None:
        states = {
            "states": cache.checkpoints.pool.total,
            "state_bytes": cache.checkpoints.pool.unit_bytes,
            "free_states": cache.checkpoints.pool.available,
            "kept_states": cache.checkpoints.kept,
        }
    return counts | {
        "hit_rate": counts["cached_tokens"] / prompt_tokens if prompt_tokens else 0.0,
        "waiting": len(scheduler.waiting),
        "running": len(scheduler.running),
        "pool_tokens": cache.slots.total,
        "free": cache.slots.available,
        "cached": cache.tree.size,
        "pinned": cache.pinned_tokens,
        "in_flight": cache.in_flight,
        **states,
    }


def read_waiting(
    states: Iterable[RequestState], scheduler: Scheduler, gate: TokenGate, run: str, branch: str
) -> list[WaitingRequest]:
    """See `Engine.why_waiting`.

    Args:
        states: Requests of the engine.
        scheduler: Scheduler with the reasons.
        gate: Paused requests.
        run: Id of a run.
        branch: Branch of the requests, forks included.
    """
    waiting = []
    for state in states:
        request, origin = state.request, state.origin
        if origin.run != run or not f"{origin.branch}.".startswith(f"{branch}."):
            continue
        wait = scheduler.why_waiting(request)
        if wait is None and state.grammar is not None and state.constraint is None:
            wait = Wait(WaitReason.GRAMMAR)
        if request.id in gate.stopped:
            wait = PAUSED
        if wait is not None:
            waiting.append(WaitingRequest(request.id, origin.branch, origin.name, wait))
    return waiting
