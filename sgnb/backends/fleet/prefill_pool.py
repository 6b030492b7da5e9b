"""Engines that compute prompts for the workers of a fleet: prefill and decode in two engines."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ...engine.cache.tiers.blocks import BLOCK
from ...lang.executor import Call, Result
from ...sampling import SamplingParams
from ..any_engine import AnyEngine
from ..local import LocalExecutor
from .fleet_call import CallGroup

MIN_TOKENS = 4 * BLOCK
"""Least number of uncached prompt tokens for a handover. A worker computes shorter prompts."""

PREFILL = SamplingParams(max_new_tokens=0)

_log = logging.getLogger(__name__)


class PrefillPool:
    """Engines without calls of their own. A prompt is computed by the engine with least work, and
    the prefix moves to the cache of the worker. After any failure the worker computes the prompt.

    Args:
        executors: Executors of the engines, by number in the fleet.
    """

    def __init__(self, executors: Mapping[int, LocalExecutor]) -> None:
        self._executors = dict(executors)
        self._queued = Counter[LocalExecutor]()  # uncomputed tokens
        self._lock = threading.Lock()
        # Two per engine: a prefix moves while the next prompt is computed.
        self._threads = ThreadPoolExecutor(2 * max(len(executors), 1), "sgnb-handover")

    @property
    def executors(self) -> list[LocalExecutor]:
        """Executors of running engines."""
        executors = list(self._executors.values())  # the fleet's thread replaces engines
        return [executor for executor in executors if not executor.engine.closed]

    @property
    def numbers(self) -> Set[int]:
        """Numbers of the engines."""
        return self._executors.keys()

    def add(self, number: int, executor: LocalExecutor) -> None:
        """Add a started engine."""
        self._executors[number] = executor

    def start(self, group: CallGroup, worker: AnyEngine, then: Callable[[], None]) -> bool:
        """Compute the prompt of a group for a worker, without waiting.

        Args:
            group: Calls before the start on the worker.
            worker: Engine of the worker.
            then: Called on any thread after the handover, or after a failure.

        Returns:
            False if the worker computes the prompt: few tokens are missing, or no engine runs.
        """
        call = next((call for call in group.calls if not call.is_done), None)
        executors = self.executors
        missing = BLOCK * len(group.routed.keys) - group.routed.estimate.cached
        if call is None or missing < MIN_TOKENS or not executors:
            return False
        executor = min(executors, key=self._queued.__getitem__)
        self._count(executor, missing)
        tokens = call.tokens

        def take(message: Any) -> None:
            self._count(executor, -missing)
            if message.error is not None:
                then()
                return
            with suppress(RuntimeError):  # the fleet is closed
                self._threads.submit(_hand_over, executor.engine, worker, tokens, then)

        prompt = Call(
            prompt=call.call.prompt,
            params=PREFILL,
            run=call.call.run,
            branch=call.call.branch,
            name=call.call.name,
            segments=call.call.segments,
        )
        try:
            group.cancel_prefill = executor.generate(prompt, take)
        except Exception as error:
            take(Result(error=error))
        return True

    def remove(self, ended: bool) -> dict[int, LocalExecutor]:
        """Remove and return the executors of ended engines, or of running engines."""
        removed = {n: e for n, e in self._executors.items() if e.engine.closed == ended}
        self._executors = {n: e for n, e in self._executors.items() if n not in removed}
        return removed

    def close(self) -> None:
        """End the threads after the present handovers."""
        self._threads.shutdown(wait=False)

    def _count(self, executor: LocalExecutor, tokens: int) -> None:
        with self._lock:
            self._queued[executor] += tokens


def _hand_over(
    engine: AnyEngine, worker: AnyEngine, tokens: Sequence[int], then: Callable[[], None]
) -> None:
    try:
        worker.adopt_prefix(engine.export_prefix(tokens))
    except Exception as error:  # the worker computes the prompt
        _log.warning("a prefix was not handed over: %s", error)
    finally:
        then()
