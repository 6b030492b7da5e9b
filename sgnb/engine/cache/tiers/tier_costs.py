"""Seconds of computing and of loading tokens, fitted to the engine's own steps and loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK

STEP_DECAY, LOAD_DECAY = 0.99, 0.8
"""Weight of an observation relative to the next one: about the last 100 steps count, and the last
5 loads, because the speed of a disk depends on the contents of the page cache."""

CURIOSITY = 0.02
"""Time that trials may take longer than computing, as a part of the compute time of refused
loads."""

UNNOTICED, SELDOM = 0.1, 0.1
"""A trial delays a request by at most this part of the time of computing, or takes at most this
part of the credit."""

MIN_STEPS, MIN_LOADS = 8, 3
"""Observations before the estimate is more than a time per token, or per byte."""

OUTLIER = 1.5
"""Multiple of the estimate above which a step counts less, unless the step before was as slow:
other programs delay single steps, and long steps the most."""

GAIN = 1e-3
"""Lower squared error, as a part of the squared seconds, from which a further cost is better."""

_STEP_SUBSETS = [[1], [0, 1], [1, 2], [0, 1, 2]]
_LOAD_SUBSETS = [[1], [0, 1]]
"""Columns that a solution may use."""


class LinearFit:
    """Least-squares fit of seconds per size with costs of 0 or more. Recent observations count
    more.

    Args:
        subsets: Columns of each solution, the first one for few observations.
        decay: Weight of an observation relative to the next one.
        enough: Number of observations from which all solutions are compared.

    Attributes:
        count: Number of observations.
    """

    def __init__(self, subsets: Sequence[Sequence[int]], decay: float, enough: int) -> None:
        self._subsets, self._decay, self._enough = subsets, decay, enough
        self._size = max(map(len, subsets))
        self._products, self._sums = np.zeros((self._size, self._size)), np.zeros(self._size)
        self._squares, self.count = 0.0, 0
        self._costs: tuple[float, ...] | None = (0.0,) * self._size

    def observe(self, columns: Sequence[float], size: float, seconds: float) -> None:
        """Learn from a duration. Errors count relative to the size: slow and fast observations of
        one size have the same weight, so the estimate follows a change of the speed."""
        row, target = np.array(columns) / size, seconds / size
        self._products = self._decay * self._products + np.outer(row, row)
        self._sums = self._decay * self._sums + target * row
        self._squares = self._decay * self._squares + target**2
        self.count += 1
        self._costs = None

    @property
    def costs(self) -> tuple[float, ...]:
        """Seconds per unit of each column; 0 before the first observation."""
        if self._costs is None:
            self._costs = tuple(self._fit().tolist())
        return self._costs

    def _fit(self) -> NDArray[np.float64]:
        """Return the least-squares solution among costs of 0 or more: the best of the solutions
        that use a subset of the columns."""
        scale = 1 / np.sqrt(np.diag(self._products))
        products = self._products * np.outer(scale, scale)
        sums, lowest = self._sums * scale, np.inf
        best: NDArray[np.float64] = np.zeros(self._size)
        for subset in self._subsets if self.count >= self._enough else self._subsets[:1]:
            chosen = list(subset)
            part = products[np.ix_(chosen, chosen)]
            if np.linalg.det(part) < 1e-9:  # observations of equal size determine no slope
                continue

            costs = np.zeros(self._size)
            costs[chosen] = np.linalg.solve(part, sums[chosen])
            error = float(costs @ products @ costs - 2 * costs @ sums)
            if (costs >= 0).all() and error < lowest - GAIN * self._squares:
                best, lowest = costs, error

        return best * scale


class TierCosts:
    """Linear models: a step takes a constant, a time per token and a time per attended token;
    a load takes a constant and a time per byte of its store.

    Attributes:
        credit: Seconds that trials may take longer than computing. A trial loads some blocks of
            a refused load: without loads, nothing else notices that a store became faster.
    """

    def __init__(self) -> None:
        self._steps = LinearFit(_STEP_SUBSETS, STEP_DECAY, MIN_STEPS)
        self._slowdown = 0.0  # seconds of the last step over the estimate
        self._loads: dict[str, LinearFit] = {}  # by store
        self.credit = 0.0

    @property
    def knows_steps(self) -> bool:
        """True after enough steps for an estimate by the length of the prompt."""
        return self._steps.count >= MIN_STEPS

    def observe_step(self, tokens: int, attended: float, seconds: float) -> None:
        """Learn from a step. Steps below a block are left out: many of them would hide the time of
        a prefill.

        Args:
            tokens: Computed tokens.
            attended: Sum of the positions of the computed tokens.
            seconds: Duration.
        """
        if tokens < BLOCK:
            return
        columns = [1.0, tokens, attended]
        expected = float(np.dot(self._steps.costs, columns)) if self.knows_steps else 0.0
        if expected:
            limit = expected * max(OUTLIER, self._slowdown)
            self._slowdown, seconds = seconds / expected, min(seconds, limit)

        self._steps.observe(columns, tokens, seconds)

    def compute_seconds(self, begin: int, end: int) -> float:
        """Return the estimated seconds that the tokens `begin` .. `end` - 1 of a prompt add to a
        step; 0 before the first step. The constant of a step is not part: the step computes the
        rest of the prompt anyway."""
        _, per_token, per_attended = self._steps.costs
        return (end - begin) * (per_token + per_attended * (begin + end) / 2)

    @property
    def step_seconds(self) -> float:
        """Estimated seconds that a step takes without any token."""
        return self._steps.costs[0]

    def observe_load(self, store: str, num_bytes: int, seconds: float) -> None:
        """Learn from a load of one store. seconds: until the tree has the tokens."""
        fit = self._loads.setdefault(store, LinearFit(_LOAD_SUBSETS, LOAD_DECAY, MIN_LOADS))
        fit.observe([1.0, num_bytes], max(num_bytes, 1), seconds)

    def refuse_load(self, compute_seconds: float) -> None:
        """Raise the credit after a refused load."""
        self.credit += CURIOSITY * compute_seconds

    def credit_for(self, compute_seconds: float) -> float:
        """Return the longest delay by a trial for a prompt."""
        return max(min(self.credit, UNNOTICED * compute_seconds), SELDOM * self.credit)

    def load_seconds(self, store: str, num_bytes: int) -> float:
        """Return the estimated seconds of a load; 0 before the first one."""
        if store not in self._loads:
            return 0.0
        constant, per_byte = self._loads[store].costs
        return constant + per_byte * num_bytes
