"""Compares the sampling kernels with the sampler in torch. Run as a program: in triton's
interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor

from sgnb.engine.request.request import Request
from sgnb.engine.sampling import sample_kernel
from sgnb.engine.sampling.sample_kernel import DeviceSampler
from sgnb.engine.sampling.torch_sampler import SamplerOutput, TokenMask, pick
from sgnb.engine.step_input import UNCONSTRAINED
from sgnb.sampling import SamplingParams

from .sampling_rows import sampling_rows

LAST = 1 - 2**-53
"""The draw next to 1."""


class Case:
    """Random rows: greedy, warm and hot; with masks of all kinds, draws at both edges, ties, -inf,
    +inf and NaN."""

    def __init__(self, rows: int, vocab: int, dtype: torch.dtype, device: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.odd = np.arange(rows) % 16 == 15  # of these no token has a log-probability
        logits = torch.from_numpy(
            rng.normal(size=(rows, vocab + 5)) * rng.choice([0.5, 4, 30], (rows, 1))
        ).to(dtype)
        logits[::3, rng.integers(0, vocab, vocab // 4 + 1)] = -torch.inf
        logits[1::4] = logits[1::4].round()
        for row in np.flatnonzero(self.odd):
            logits[row, rng.integers(0, vocab, 3)] = float(rng.choice([np.inf, np.nan]))
        self.logits = logits.to(device)[:, :vocab]
        self.temperatures = rng.choice([0.0, 1e-6, 0.3, 1.0, 1.0, 2.5], rows)
        self.draws = rng.random(rows)
        self.draws[::5], self.draws[1::5] = 0.0, LAST
        self.states = rng.choice([UNCONSTRAINED, 0, 7], rows).astype(np.int32)
        self.allowed = rng.random((rows, vocab)) < rng.choice(
            [0, 2 / vocab, 0.1, 0.9, 1], (rows, 1)
        )

    def by_torch(self, masked: bool) -> SamplerOutput:
        bound = torch.from_numpy(np.flatnonzero(self.states != UNCONSTRAINED))
        allowed = torch.from_numpy(self.allowed)[bound]
        device = self.logits.device
        mask = TokenMask(bound.to(device), allowed.to(device)) if masked else None
        requests = [
            Request(i, [1], SamplingParams(temperature=t), 1)
            for i, t in enumerate(self.temperatures)
        ]
        return pick(self.logits.clone(), sampling_rows(requests, self.draws), mask)

    def by_kernel(self, sampler: DeviceSampler, masked: bool) -> SamplerOutput:
        device = self.logits.device
        temperatures = torch.from_numpy(self.temperatures).to(device, torch.float32)
        short = (
            torch.float64 if self.logits.dtype == torch.float32 else torch.float32
        )  # where LAST becomes 1
        draws = torch.from_numpy(self.draws).to(device, short)
        if not masked:
            return sampler(self.logits, temperatures, draws)
        allowed, states = torch.from_numpy(self.allowed), torch.from_numpy(self.states)
        return sampler(self.logits, temperatures, draws, allowed.to(device), states.to(device))


def check(rows: int, vocab: int, dtype: torch.dtype, device: str, seed: int) -> None:
    case, sampler = Case(rows, vocab, dtype, device, seed), DeviceSampler(vocab, rows + 3, device)
    for masked in (False, True):
        before = case.logits.clone()
        found, expected = case.by_kernel(sampler, masked), case.by_torch(masked)
        assert torch.equal(case.logits.nan_to_num(), before.nan_to_num())
        assert found.tokens.data_ptr() == sampler.tokens.data_ptr()
        assert bool(((found.tokens >= 0) & (found.tokens < vocab)).all())
        _compare(case, found, expected, masked)


def _compare(case: Case, found: SamplerOutput, expected: SamplerOutput, masked: bool) -> None:
    for row in np.flatnonzero(case.odd):
        assert found.logprobs[row].isnan() and expected.logprobs[row].isnan()
    for row in np.flatnonzero(~case.odd):
        assert int(found.allowed[row]) == int(expected.allowed[row])
        mine, other = int(found.tokens[row]), int(expected.tokens[row])
        bound = masked and case.states[row] != UNCONSTRAINED
        if bound and not case.allowed[row].any():
            assert mine == 0 and found.log_mass[row] == -torch.inf
            continue
        assert not bound or case.allowed[row, mine]
        logits = case.logits[row].double()
        if bound:
            assert (
                abs(found.log_mass[row] - expected.log_mass[row]) < 1e-4
                or found.log_mass[row] == expected.log_mass[row]
            )
            logits = logits.masked_fill(
                ~torch.from_numpy(case.allowed[row]).to(logits.device), -torch.inf
            )
        else:
            assert found.log_mass[row] == 0
        if mine == other or not logits.isfinite().any():
            assert mine != other or torch.isclose(
                found.logprobs[row], expected.logprobs[row], rtol=0, atol=1e-4
            )
            continue
        assert case.temperatures[row] > 1e-6, "greedy rows agree to the token"
        _assert_borderline(logits, float(case.temperatures[row]), float(case.draws[row]), mine)


def _assert_borderline(logits: Tensor, temperature: float, draw: float, token: int) -> None:
    """In exact numbers, the draw lies in the token's part of the cumulative probability, or next to
    it."""
    probabilities = (logits / temperature).softmax(-1)
    after = float(probabilities[: token + 1].sum())
    before = after - float(probabilities[token])
    assert before - 1e-5 <= draw <= after + 1e-5 and probabilities[token] > 0, (before, draw, after)


def check_frequencies(device: str, grid: int) -> None:
    """Draws spread evenly hit each allowed token as often as its probability says, give or take
    one."""
    vocab = 37
    torch.manual_seed(0)
    logits = (torch.randn(vocab, device=device) * 2).expand(grid, vocab)
    allowed = (torch.rand(vocab, device=device) < 0.6).expand(grid, vocab)
    draws = (torch.arange(grid, device=device) + 0.5) / grid
    states = torch.zeros(grid, dtype=torch.int32, device=device)
    for temperature in (1.0, 2.0):
        temperatures = torch.full((grid,), temperature, device=device)
        sampled = DeviceSampler(vocab, grid, device)(logits, temperatures, draws, allowed, states)
        found = torch.bincount(sampled.tokens, minlength=vocab) / grid
        expected = (logits[0] / temperature).masked_fill(~allowed[0], -torch.inf).softmax(-1)
        assert float((found - expected).abs().max()) <= 1.01 / grid
        assert not found[expected == 0].any()


def check_spoilt_rows(device: str) -> None:
    """One NaN or +inf in any block of a row, also where it is masked or unlikely, leaves the row's
    token without a log-probability, and the rows beside it as they were."""
    vocab, wrong = 130, [(0, 3, torch.nan), (1, 70, torch.nan), (2, 129, torch.inf)]
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(8, vocab, generator=generator).to(device)
    allowed = torch.zeros(8, vocab, dtype=torch.bool, device=device)
    allowed[:, 20:40] = True
    states = torch.zeros(8, dtype=torch.int32, device=device)
    for temperature in (0.0, 0.7):
        numbers = torch.full((8,), temperature, device=device), torch.full((8,), 0.5, device=device)
        for masks in ((), (allowed, states)):
            sampler = DeviceSampler(vocab, 8, device)
            before = [tensor.clone() for tensor in sampler(logits, *numbers, *masks)]
            spoilt = logits.clone()
            for row, token, value in wrong:
                spoilt[row, token] = value
            found = sampler(spoilt, *numbers, *masks)
            assert found.logprobs[:3].isnan().all() and found.logprobs[3:].isfinite().all()
            for mine, other in zip(found, before, strict=True):
                assert torch.equal(mine[3:], other[3:])


def check_refusals(device: str) -> None:
    """Another vocabulary and too many rows."""
    sampler = DeviceSampler(10, 2, device)
    for shape in ((1, 9), (3, 10)):
        row = torch.zeros(shape[0], device=device)
        try:
            sampler(torch.zeros(shape, device=device), row, row)
        except ValueError as error:
            assert "2 x 10" in str(error)
        else:
            raise AssertionError(shape)
    none = torch.zeros(0, device=device)
    assert len(sampler(torch.zeros(0, 10, device=device), none, none).tokens) == 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sample_kernel.BLOCK = 64
    cases = [
        (16, 7, torch.float32),
        (16, 65, torch.float16),
        (32, 130, torch.bfloat16),
        (24, 130, torch.float32),
    ]
    quick = sys.argv[1:] == ["quick"]
    for seed, (rows, vocab, dtype) in list(enumerate(cases))[-1 if quick else 0 :]:
        check(rows, vocab, dtype, "cpu", seed)
    check_refusals("cpu")
    if not quick:
        check_frequencies("cpu", grid=60)
        check_spoilt_rows("cpu")
    print("all agree")
