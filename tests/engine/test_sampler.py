"""The sampler against a numpy oracle that says how likely every token is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.engine import split_samples
from sgnb.engine.request import Request
from sgnb.engine.sampler import sample, top_logprobs
from sgnb.sampling import SamplingParams

VOCAB = 23
GRID = 400


def oracle(
    logits: np.ndarray, params: SamplingParams, prompt: list[int], output: list[int], banned: set[int]
) -> np.ndarray:
    """The probability of every token."""
    x = logits.astype(np.float64).copy()
    for token in set(prompt + output):
        x[token] = x[token] / params.repetition_penalty if x[token] > 0 else x[token] * params.repetition_penalty
    for token, count in Counter(output).items():
        x[token] -= params.frequency_penalty * count + params.presence_penalty
    for token, bias in params.logit_bias:
        x[token] += bias
    x[list(banned)] = -np.inf
    if params.temperature == 0:
        return (np.arange(VOCAB) == x.argmax()).astype(float)
    order = np.argsort(-x)
    p = np.exp((x[order] - x.max()) / params.temperature)
    if params.top_k > 0:
        p[params.top_k :] = 0
    p /= p.sum()
    before = np.concatenate([[0], p.cumsum()[:-1]])
    p[(before >= params.top_p) & (np.arange(VOCAB) > 0)] = 0
    p[p < params.min_p * p[0]] = 0
    result = np.zeros(VOCAB)
    result[order] = p / p.sum()
    return result


class Fixed:
    """A random number generator with one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def requests(params: SamplingParams, prompt: list[int], output: list[int], draws: list[float]) -> list[Request]:
    made = []
    for draw in draws:
        request = Request(0, prompt, params, len(output) + 1)
        for token in output:
            request.append(token)
        request.random = Fixed(draw)  # type: ignore[assignment]
        made.append(request)
    return made


CASES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "plain": {},
    "temperature": {"temperature": 0.5},
    "hot": {"temperature": 3.0},
    "top_k": {"top_k": 4},
    "top_k of one": {"top_k": 1},
    "top_k beyond the vocabulary": {"top_k": 1000},
    "top_p": {"top_p": 0.6},
    "top_p next to nothing": {"top_p": 1e-6},
    "min_p": {"min_p": 0.2},
    "min_p of one": {"min_p": 1.0},
    "filters": {"temperature": 1.7, "top_k": 12, "top_p": 0.8, "min_p": 0.05},
    "repetition": {"repetition_penalty": 1.8},
    "reward for repetition": {"repetition_penalty": 0.5, "temperature": 0},
    "frequency": {"frequency_penalty": 1.1},
    "presence": {"presence_penalty": -1.5},
    "bias": {"logit_bias": {3: 4.0, 5: -100.0, 7: 1.5}},
    "all": {"temperature": 0.8, "top_k": 15, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.2,
            "frequency_penalty": 0.3, "presence_penalty": 0.2, "logit_bias": {1: 2.0}},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_every_token_is_as_likely_as_the_oracle_says(case: str, seed: int) -> None:
    """Evenly spread draws hit each token as often as its probability says, give or take one."""
    rng = np.random.default_rng(seed)
    params = SamplingParams(**CASES[case])
    prompt, output = rng.integers(0, VOCAB, 5).tolist(), rng.integers(0, VOCAB, 6).tolist()
    banned = {int(rng.integers(VOCAB))} if seed else set()
    logits = (rng.normal(size=VOCAB) * 2).astype(np.float32)
    rows = requests(params, prompt, output, [(i + 0.5) / GRID for i in range(GRID)])
    tokens = sample(torch.from_numpy(logits).repeat(GRID, 1), rows, [banned] * GRID)
    found = np.bincount(tokens, minlength=VOCAB) / GRID
    expected = oracle(logits, params, prompt, output, banned)
    np.testing.assert_allclose(found, expected, atol=1.01 / GRID)
    assert not found[expected == 0].any()


def test_the_neighbours_of_a_request_do_not_change_its_tokens() -> None:
    """A seeded request gives the same tokens alone as beside requests with other filters."""
    torch.manual_seed(0)
    logits = torch.randn(50, VOCAB)
    for case in CASES.values():
        own = Request(0, [1, 2], SamplingParams(seed=5, **case), 60)
        alone = [sample(logits[i : i + 1].clone(), [own], [()])[0] for i in range(50)]
        own = Request(0, [1, 2], SamplingParams(seed=5, **case), 60)
        others = [Request(1, [3], SamplingParams(**other), 60) for other in CASES.values()]
        beside = []
        for i in range(50):
            batch = [*others[: i % 7], own, *others[i % 7 :]]
            rows = torch.randn(len(batch), VOCAB)
            rows[i % 7] = logits[i]
            beside.append(sample(rows, batch, [()] * len(batch))[i % 7])
        assert beside == alone


def test_frequencies_over_many_seeds() -> None:
    """Pearson's statistic stays below the 99.9 % quantile of chi-square with 22 degrees of freedom."""
    torch.manual_seed(1)
    logits, count = torch.randn(VOCAB), 5000
    batch = [Request(i, [1], SamplingParams(seed=i), 1) for i in range(count)]
    found = np.bincount(sample(logits.repeat(count, 1), batch, [()] * count), minlength=VOCAB)
    expected = logits.double().softmax(-1).numpy() * count
    assert ((found - expected) ** 2 / expected).sum() < 48.3


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_draws_at_the_edges_take_tokens_that_can_be(draw: float) -> None:
    logits = torch.full((1, 100_000), -20.0)
    logits[0, [0, 99_999]] = -torch.inf
    for params in (SamplingParams(), SamplingParams(top_p=0.999)):
        [token] = sample(logits.clone(), requests(params, [1], [], [draw]), [()])
        assert token not in (0, 99_999)


@pytest.mark.parametrize("temperature", [1e-6, 1e-40, 1e-300])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_temperature_next_to_zero_is_greedy(temperature: float, top_p: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(20, VOCAB) * 30
    params = SamplingParams(temperature=temperature, top_p=top_p)
    rows = [r for i in range(20) for r in requests(params, [1], [], [i / 20])]
    assert sample(logits.clone(), rows, [()] * 20) == logits.argmax(-1).tolist()


def test_samples_of_one_request() -> None:
    samples = split_samples(SamplingParams(n=3, seed=7, temperature=0.5))
    assert [(p.n, p.seed, p.temperature) for p in samples] == [(1, 7, 0.5), (1, 8, 0.5), (1, 9, 0.5)]
    assert [p.seed for p in split_samples(SamplingParams(n=2))] == [None, None]


def test_one_random_number_a_token() -> None:
    """Whatever the filters: a request retracted and resumed, or moved between them, stays on its sequence."""
    for case in ({}, {"top_p": 0.5}):
        request = Request(0, [1], SamplingParams(seed=3, **case), 5)
        for _ in range(4):
            sample(torch.randn(1, VOCAB), [request], [()])
        twin = random.Random(3)
        for _ in range(4):
            twin.random()
        assert request.random.random() == twin.random()


def test_top_logprobs() -> None:
    logprobs = torch.tensor([[-1.0, -3.0, -0.5], [-0.1, -4.0, -2.0]])
    assert [[t for t, _ in row] for row in top_logprobs(logprobs, 2)] == [[2, 0], [0, 2]]
    assert [v for _, v in top_logprobs(logprobs, 9)[1]] == pytest.approx([-0.1, -2.0, -4.0])
