"""The random numbers of requests: what they are, and that neither positions nor seeds next to each
other show."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sgnb.engine.request.rng import _GAMMA, _mix, uniforms

MASK = (1 << 64) - 1


def splitmix64(state: int, count: int) -> list[int]:
    """The generator as published, step by step, with the integers of Python."""
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        outputs.append(z ^ (z >> 31))
    return outputs


def table(seeds: int, positions: int) -> np.ndarray:
    """[seeds, positions]"""
    pairs = np.array(list(itertools.product(range(seeds), range(positions))))
    return uniforms(pairs[:, 0].astype(np.uint64), pairs[:, 1]).reshape(seeds, positions)


def test_the_mixing_gives_the_published_numbers() -> None:
    """The first outputs for the seed 1234567 that implementations of SplitMix64 are checked
    with."""
    states = np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * _GAMMA
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert _mix(states).tolist() == published == splitmix64(1234567, 5)


@pytest.mark.parametrize("seed", [0, 1, 12345, MASK])
def test_numbers_are_those_of_the_generator(seed: int) -> None:
    [start] = splitmix64(seed, 1)
    expected = [(x >> 11) / 2**53 for x in splitmix64(start, 50)]
    assert uniforms(np.full(50, seed, np.uint64), np.arange(50)).tolist() == expected


def test_golden_numbers() -> None:
    """A saved seed must give the same text in later versions."""
    found = uniforms(np.array([0, 0, 1, 7], np.uint64), np.array([0, 1, 0, 1000]))
    assert found.tolist() == [
        0.6524484863740322,
        0.7012121095215252,
        0.36818951565166946,
        0.8452358607113265,
    ]


def test_uniform() -> None:
    """Pearson's statistic over 256 bins, at most its mean and four standard deviations; for rows
    and for columns."""
    drawn = table(400, 400)
    assert drawn.min() >= 0 and drawn.max() < 1 and len(np.unique(drawn)) == drawn.size
    for sample in (drawn, drawn[:, 0], drawn[0], np.diff(drawn) % 1, np.diff(drawn, axis=0) % 1):
        bins = 256 if sample.size > 10_000 else 16
        counts = np.bincount((sample * bins).astype(int).ravel(), minlength=bins)
        expected = sample.size / bins
        assert ((counts - expected) ** 2 / expected).sum() < bins - 1 + 4 * math.sqrt(
            2 * (bins - 1)
        )


@pytest.mark.parametrize(("down", "right"), [(0, 1), (1, 0), (1, 1), (0, 2), (2, 0)])
def test_neighbours_do_not_correlate(down: int, right: int) -> None:
    drawn = table(400, 400)
    first, second = drawn[: 400 - down, : 400 - right].ravel(), drawn[down:, right:].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(first.size)
