"""The sampler against a numpy oracle that says how likely every token is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.request.input_processor import split_samples
from sgnb.engine.request.request import Request
from sgnb.engine.request.rng import uniforms
from sgnb.engine.sampling import torch_sampler
from sgnb.engine.sampling.torch_sampler import TokenMask, pick, sample, top_logprobs
from sgnb.sampling import SamplingParams

from .sampling_rows import sampling_rows

VOCAB = 23
GRID = 400


def oracle(
    logits: np.ndarray,
    params: SamplingParams,
    prompt: list[int],
    output: list[int],
    banned: set[int],
) -> np.ndarray:
    """The probability of every token."""
    x = logits.astype(np.float64).copy()
    for token in set(prompt + output):
        x[token] = (
            x[token] / params.repetition_penalty
            if x[token] > 0
            else x[token] * params.repetition_penalty
        )
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


def requests(
    params: SamplingParams, prompt: list[int], output: list[int], count: int
) -> list[Request]:
    made = [Request(0, prompt, params, len(output) + 1) for _ in range(count)]
    for request in made:
        for token in output:
            request.append(token)
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
    rows = requests(params, prompt, output, GRID)
    draws = (np.arange(GRID) + 0.5) / GRID
    tokens = sample(torch.from_numpy(logits).repeat(GRID, 1), sampling_rows(rows, draws, banned))
    found = np.bincount(tokens, minlength=VOCAB) / GRID
    expected = oracle(logits, params, prompt, output, banned)
    np.testing.assert_allclose(found, expected, atol=1.01 / GRID)
    assert not found[expected == 0].any()


@pytest.mark.parametrize("ties", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_neighbours_of_a_request_do_not_change_its_tokens(ties: bool) -> None:
    """A request gives the same tokens alone as beside requests with other filters; also where
    logits are equal."""
    torch.manual_seed(0)
    logits = torch.randn(50, VOCAB)
    logits = logits.round() if ties else logits
    draws = np.random.default_rng(0).random(50)
    for case in CASES.values():
        own = Request(0, [1, 2], SamplingParams(**case), 60)
        alone = [
            int(sample(logits[i : i + 1].clone(), sampling_rows([own], draws[i : i + 1]))[0])
            for i in range(50)
        ]
        others = [Request(1, [3], SamplingParams(**other), 60) for other in CASES.values()]
        beside = []
        for i in range(50):
            batch = [*others[: i % 7], own, *others[i % 7 :]]
            rows = torch.randn(len(batch), VOCAB)
            rows[i % 7] = logits[i]
            tokens = sample(rows, sampling_rows(batch, np.full(len(batch), draws[i])))
            beside.append(int(tokens[i % 7]))
        assert beside == alone


def test_selecting_a_few_tokens_is_sorting_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with equal logits, infinite ones among them, at the border of top_k."""
    torch.manual_seed(0)
    logits = (torch.randn(200, 300) * 3).round()
    logits[:, ::7] = -torch.inf
    cases = [{"top_k": 1}, {"top_k": 5}, {"top_k": 40, "top_p": 0.7}, {"top_k": 290, "min_p": 0.01}]
    batch = [Request(i, [1], SamplingParams(**cases[i % len(cases)]), 1) for i in range(200)]
    draws = np.random.default_rng(0).random(200)
    few = sample(logits.clone(), sampling_rows(batch, draws))
    monkeypatch.setattr(torch_sampler, "FEW", 0)
    assert few.tolist() == sample(logits.clone(), sampling_rows(batch, draws)).tolist()


def test_frequencies_over_many_seeds() -> None:
    """Pearson's statistic stays below the 99.9 % quantile of chi-square with 22 degrees of
    freedom."""
    torch.manual_seed(1)
    logits, count = torch.randn(VOCAB), 5000
    batch = [Request(i, [1], SamplingParams(), 1) for i in range(count)]
    draws = uniforms(np.arange(count, dtype=np.uint64), np.zeros(count, np.int64))
    tokens = sample(logits.repeat(count, 1), sampling_rows(batch, draws))
    found = np.bincount(tokens, minlength=VOCAB)
    expected = logits.double().softmax(-1).numpy() * count
    assert ((found - expected) ** 2 / expected).sum() < 48.3


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_draws_at_the_edges_take_tokens_that_can_be(draw: float) -> None:
    logits = torch.full((1, 100_000), -20.0)
    logits[0, [0, 99_999]] = -torch.inf
    for params in (SamplingParams(), SamplingParams(top_p=0.999), SamplingParams(top_k=900)):
        rows = sampling_rows(requests(params, [1], [], 1), np.array([draw]))
        [token] = sample(logits.clone(), rows).tolist()
        assert token not in (0, 99_999)


@pytest.mark.parametrize("temperature", [1e-6, 1e-40, 1e-300])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_temperature_next_to_zero_is_greedy(temperature: float, top_p: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(20, VOCAB) * 30
    params = SamplingParams(temperature=temperature, top_p=top_p)
    rows = sampling_rows(requests(params, [1], [], 20), np.arange(20) / 20)
    tokens = sample(logits.clone(), rows)
    assert tokens.tolist() == logits.argmax(-1).tolist()


def test_samples_of_one_request() -> None:
    samples = split_samples(SamplingParams(n=3, seed=7, temperature=0.5))
    assert [(p.n, p.seed, p.temperature) for p in samples] == [
        (1, 7, 0.5),
        (1, 8, 0.5),
        (1, 9, 0.5),
    ]
    assert [p.seed for p in split_samples(SamplingParams(n=2))] == [None, None]


def test_what_is_plain() -> None:
    """Only what the device's sampler does as well."""
    plain = {name for name, case in CASES.items() if SamplingParams(**case).is_plain}
    assert plain == {"greedy", "plain", "temperature", "hot"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_picks_with_masks(dtype: torch.dtype) -> None:
    """Rows without a mask, with one, and with an empty one: tokens, and what the mask did to the
    probabilities."""
    torch.manual_seed(0)
    logits = torch.randn(6, VOCAB).to(dtype)
    allowed = torch.rand(3, VOCAB) < 0.3
    allowed[1] = False
    bound = [1, 3, 4]
    batch = [Request(i, [1], SamplingParams(temperature=float(i % 2)), 1) for i in range(6)]
    rows = sampling_rows(batch, np.random.default_rng(1).random(6))
    sampled = pick(logits.clone(), rows, TokenMask(torch.tensor(bound), allowed))
    probabilities = logits.double().softmax(-1)
    masked = logits.float().clone()
    masked[bound] = masked[bound].masked_fill(~allowed, -torch.inf)
    expected = sample(masked, rows)
    expected[3] = 0
    assert sampled.tokens.tolist() == expected.tolist()
    assert sampled.allowed.tolist() == [
        VOCAB,
        int(allowed[0].sum()),
        VOCAB,
        0,
        int(allowed[2].sum()),
        VOCAB,
    ]
    assert sampled.logprobs.exp().tolist() == pytest.approx(
        [float(probabilities[i, expected[i]]) for i in range(6)]
    )
    mass = [1.0] * 6
    for row, line in zip(bound, allowed, strict=True):
        mass[row] = float(probabilities[row][line].sum())
    assert sampled.log_mass.exp().tolist() == pytest.approx(mass)
    assert [sampled.log_mass[row] for row in (0, 2, 5)] == [0, 0, 0]
    assert [column.dtype for column in sampled] == [
        torch.int64,
        torch.float32,
        torch.float32,
        torch.int32,
    ]


def test_picks_of_rows_without_any_number() -> None:
    """NaN and -inf everywhere: some token of the vocabulary."""
    logits = torch.tensor([[torch.nan] * VOCAB, [-torch.inf] * VOCAB])
    for case in CASES.values():
        rows = requests(SamplingParams(**case), [1], [], 2)
        tokens = pick(logits.clone(), sampling_rows(rows, np.array([0.5, 0.99]))).tokens
        assert all(0 <= token < VOCAB for token in tokens.tolist())


def test_top_logprobs() -> None:
    logprobs = torch.tensor([[-1.0, -3.0, -0.5], [-0.1, -4.0, -2.0]])
    values, tokens = top_logprobs(logprobs, 2)
    assert tokens.tolist() == [[2, 0], [0, 2]]
    assert values[1].tolist() == pytest.approx([-0.1, -2.0])
    assert top_logprobs(logprobs, 9)[1].shape == (2, 3)
