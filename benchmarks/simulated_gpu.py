"""A GPU that is not there: launches take time on the host, and steps take their time one after the
other.

For an engine's loop without a model, on any machine. How long steps take is from an H200 with the
shape of Llama 8B. Knows no requests: a step is a number of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

TOKENS = (1, 64, 256, 1024, 8192)
STEP_MS = (4.2, 5.7, 11.0, 25.0, 220.0)
"""How long steps of so many tokens take."""

LAUNCHES = {True: 12, False: 400}
"""Operations that launch a step: those around a CUDA graph, and those of a step that runs kernel by
kernel."""
LAUNCH_US = {True: 25.0, False: 10.0}
"""What each takes on the host, estimated. The first ones contain the plan of the attention. On an
H200's host a step that ran kernel by kernel took 13 ms while other threads were at work, more than
these 4."""


class Times(NamedTuple):
    """Seconds from `restart` to the last result: all of them, those with a step at work, and each
    gap before a step."""

    total: float
    busy: float
    gaps: list[float]


class SimulatedGpu:
    def __init__(self) -> None:
        self._numbers = torch.zeros(16_384)
        self.restart()

    def restart(self) -> None:
        """Forget what was; the clock begins."""
        self._began = self._done = time.perf_counter()
        self._busy = 0.0
        self._gaps: list[float] = []

    def launch(self, tokens: int, graph: bool) -> Callable[[], None]:
        """Put a step on its way; returns a function that waits for its end, as synchronising with
        an event does.

        The launch lets other threads run at each operation, for it is one of torch. graph: the step
        is replayed.
        """
        for _ in range(LAUNCHES[graph]):
            _spend(1e-6 * LAUNCH_US[graph])
            self._numbers.add_(1)
        now = time.perf_counter()
        seconds = float(np.interp(tokens, TOKENS, STEP_MS)) / 1000
        self._gaps.append(max(0.0, now - self._done))
        self._busy += seconds
        self._done = done = max(now, self._done) + seconds
        return lambda: _sleep_until(done)

    @property
    def times(self) -> Times:
        return Times(self._done - self._began, self._busy, self._gaps)


def _spend(seconds: float) -> None:
    """Keep the thread, and Python with it, at work."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _sleep_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)
