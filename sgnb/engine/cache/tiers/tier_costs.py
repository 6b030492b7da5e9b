"""Seconds of computing and of loading tokens, fitted to the engine's own steps and transfers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DECAY = 0.99
"""Weight of a step relative to the next one: about the last hundred steps count."""

DOUBT = 0.9
"""Factor of the time of loads per refused load."""

MIN_STEPS = 8
"""Steps before the estimate is more than a time per token."""

_SUBSETS = [[1], [0, 1], [1, 2], [0, 1, 2]]
"""Columns that a solution may use."""

GAIN = 1e-3
"""Lower mean squared error from which a further solution is better."""


class TierCosts:
    """Linear models: a step takes a constant, a time per token and a time per attended token;
    a load takes a time per byte of its store.

    Attributes:
        steps: Number of observed steps with prompts.
    """

    def __init__(self) -> None:
        # Normal equations. Steps are divided by the duration: the fit minimizes relative errors.
        self._products, self._sums = np.zeros((3, 3)), np.zeros(3)
        self.steps, self._weight = 0, 0.0
        self._costs: NDArray[np.float64] | None = np.zeros(3)
        self._rates: dict[str, float] = {}  # seconds per byte, by store

    def observe_step(self, tokens: int, attended: float, seconds: float) -> None:
        """Learn from a step with prompts.

        Args:
            tokens: Computed tokens.
            attended: Sum of the positions of the computed tokens.
            seconds: Duration.
        """
        row = np.array([1.0, tokens, attended]) / max(seconds, 1e-6)
        self._products = DECAY * self._products + np.outer(row, row)
        self._sums = DECAY * self._sums + row
        self._weight = DECAY * self._weight + 1
        self.steps += 1
        self._costs = None

    def compute_seconds(self, begin: int, end: int) -> float:
        """Return the estimated seconds of computing the tokens `begin` .. `end` - 1 of a prompt in
        one step; 0 before the first step."""
        if self._costs is None:
            self._costs = self._fit()

        count = end - begin
        return float(np.dot(self._costs, [1.0, count, count * (begin + end) / 2]))

    def observe_load(self, store: str, num_bytes: int, seconds: float) -> None:
        """Learn from a load of one store."""
        rate = seconds / max(num_bytes, 1)
        self._rates[store] = 0.7 * self._rates.get(store, rate) + 0.3 * rate

    def doubt_load(self, store: str) -> None:
        """Lower the estimate after a refused load: without loads, nothing else corrects it."""
        if store in self._rates:
            self._rates[store] *= DOUBT

    def load_seconds(self, store: str, num_bytes: int) -> float:
        """Return the estimated seconds of a load; 0 before the first one."""
        return self._rates.get(store, 0.0) * num_bytes

    def _fit(self) -> NDArray[np.float64]:
        """Return the least-squares solution among costs of 0 or more: the best of the solutions
        that use a subset of the columns."""
        scale = 1 / np.sqrt(np.diag(self._products))
        products = self._products * np.outer(scale, scale)
        sums, lowest = self._sums * scale, np.inf
        best: NDArray[np.float64] = np.zeros(3)
        for chosen in _SUBSETS if self.steps >= MIN_STEPS else _SUBSETS[:1]:
            part = products[np.ix_(chosen, chosen)]
            if np.linalg.cond(part) > 1e9:  # steps of equal size determine no slope
                continue

            costs = np.zeros(3)
            costs[chosen] = np.linalg.solve(part, sums[chosen])
            error = float(costs @ products @ costs - 2 * costs @ sums)
            if (costs >= 0).all() and error < lowest - GAIN * self._weight:
                best, lowest = costs, error

        return best * scale
