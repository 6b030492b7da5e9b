"""Statistics of an engine, as plain data. Read on the engine's thread."""

from __future__ import annotations

from typing import Any

from ..scheduler import Scheduler


def read_statistics(counts: dict[str, int], scheduler: Scheduler) -> dict[str, Any]:
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
        "waiting": scheduler.num_waiting,
        "running": len(scheduler.running),
        "pool_tokens": cache.slots.total,
        "free": cache.slots.available,
        "cached": cache.tree.size,
        "pinned": cache.pinned_tokens,
        "in_flight": cache.in_flight,
        **states,
    }
