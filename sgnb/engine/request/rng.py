"""A counter-based random number generator: a number depends on a request's seed and a token's
position alone, so there is no state to keep or rewind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) per pair of seed and position: float64 [n], multiples of 2**-53.

    Number p of a seed is output p of SplitMix64 (Steele, Lea and Flood, "Fast splittable
    pseudorandom number generators", OOPSLA 2014; constants of Vigna's splitmix64.c). The state
    starts at the mixed seed, so that neighbouring seeds have independent numbers.
    """
    return draws(first_states(seeds), positions)


def first_states(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the mixed seeds, the first states of the generators."""
    return _mix(seeds.astype(np.uint64) + _GAMMA)


def draws(states: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the numbers of `uniforms` from the first states of the generators."""
    counts = positions.astype(np.uint64) + np.uint64(1)
    numbers = _mix(states + counts * _GAMMA)
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        x = (x ^ (x >> np.uint64(shift))) * factor
    return x ^ (x >> np.uint64(31))
