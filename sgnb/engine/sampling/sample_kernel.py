"""Sampling kernels for plain rows: temperature, mask and draw. Needs triton.

Two kernels with results at fixed addresses, so a CUDA graph can contain both. The first kernel
reads the logits once and writes a few sums per block of the vocabulary. The second kernel samples a
block by the sums, then a token of the block. Log-probabilities come from the same sums, without a
float32 tensor [rows, vocab]. The slow version is `torch_sampler.pick`. The kernels add in a
different order, so a draw at the border between two tokens can fall to either side. With
TRITON_INTERPRET=1 set before the import of triton, the kernels run on the CPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .. import step_input
from ..device.precompile import launch
from . import torch_sampler
from .torch_sampler import SamplerOutput

BLOCK, WARPS = 2048, 4
"""Number of logits per program of the first kernel."""

_UNCONSTRAINED = tl.constexpr(step_input.UNCONSTRAINED)
_GREEDY = tl.constexpr(torch_sampler.GREEDY)
_LOWEST = tl.constexpr(torch.finfo(torch.float32).min)
_SUMS = tl.constexpr(6)


class DeviceSampler:
    """Sampler of at most `max_rows` rows.

    Attributes:
        tokens: Samples of the last call, int64[max_rows]. The next step may read the tokens.
    """

    def __init__(self, vocab_size: int, max_rows: int, device: torch.device | str) -> None:
        self._vocab, self._blocks = vocab_size, triton.cdiv(vocab_size, BLOCK)
        self.tokens = torch.zeros(max_rows, dtype=torch.int64, device=device)
        self._logprobs, self._log_mass = torch.zeros(2, max_rows, device=device)
        self._allowed = torch.zeros(max_rows, dtype=torch.int32, device=device)
        self._sums = torch.zeros(max_rows, _SUMS.value, self._blocks, device=device)

    def __call__(
        self,
        logits: Tensor,
        temperatures: Tensor,
        draws: Tensor,
        allowed: Tensor | None = None,
        states: Tensor | None = None,
    ) -> SamplerOutput:
        """Sample a token for each row.

        A row with NaN or positive infinity gets an arbitrary token of the vocabulary and the
        log-probability NaN.

        Args:
            logits: float [rows, vocab] with contiguous columns. Not overwritten.
            temperatures: float32[rows]. Rows up to `torch_sampler.GREEDY` are greedy and take the
                lowest id of equal logits.
            draws: float[rows] in [0, 1]; 1 counts as slightly less. Tokens are ordered by id.
            allowed: uint8 or bool [rows, vocab] with contiguous columns.
            states: int32[rows]. `allowed` applies to rows other than `step_input.UNCONSTRAINED`.

        Returns:
            Tensors that the next call overwrites.

        Raises:
            ValueError: The logits have too many rows, or another vocabulary.
        """
        rows, vocab = logits.shape
        if vocab != self._vocab or rows > len(self.tokens):
            made_for = f"{len(self.tokens)} x {self._vocab}"
            raise ValueError(f"logits of shape {rows} x {vocab}, made for up to {made_for}")

        tensors = self.tokens, self._logprobs, self._log_mass, self._allowed
        output = SamplerOutput(*(tensor[:rows] for tensor in tensors))
        if rows == 0:
            return output
        masked = allowed is not None

        mask = allowed.view(torch.uint8) if allowed is not None else self._sums
        shared = (
            logits, logits.stride(0), vocab, temperatures, mask, mask.stride(0),
            states if masked else self._allowed, self._sums, self._blocks,
        )  # fmt: skip
        sizes = {"MASKED": masked, "BLOCK": BLOCK, "num_warps": WARPS}

        blocks = max(2, triton.next_power_of_2(self._blocks))
        launch(_sum_blocks, (rows, self._blocks), *shared, **sizes)
        launch(_choose, (rows,), *shared, draws, *output, BLOCKS=blocks, **sizes)
        return output


@triton.jit
def _finite(x: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Replace NaN and infinities by finite numbers, so no difference is NaN. Elements after the
    end become -inf."""
    x = tl.minimum(tl.maximum(tl.where(x == x, x, _LOWEST), _LOWEST), -_LOWEST)
    return tl.where(inside, x, float("-inf"))


@triton.jit
def _sum_blocks(
    logits: tl.tensor, stride: tl.tensor, vocab: tl.tensor, temperatures: tl.tensor,
    allowed: tl.tensor, allowed_stride: tl.tensor, states: tl.tensor, sums: tl.tensor,
    blocks: tl.tensor, MASKED: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write the sums of a block of a row: largest logit and sum of exp(logit - largest), NaN if a
    logit is NaN or +inf; the same for allowed tokens, always finite; the sum at the row's
    temperature; the number of allowed tokens."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < vocab
    read = tl.load(logits + row * stride + token, mask=inside, other=0.0).to(tl.float32)
    x = _finite(read, inside)

    high = tl.max(x, axis=0)
    total = tl.sum(tl.exp(x - high), axis=0)
    own_high, own_total = high, total
    non_finite = tl.max(tl.where(read < float("inf"), 0, 1), axis=0)
    count = tl.minimum(vocab - block * BLOCK, BLOCK)

    if MASKED:  # noqa: SIM102, decided when the kernel is compiled
        if tl.load(states + row) != _UNCONSTRAINED:
            permitted = tl.load(allowed + row * allowed_stride + token, mask=inside, other=0) > 0
            x = tl.where(permitted, x, float("-inf"))
            own_high = tl.max(x, axis=0)
            own_total = tl.sum(tl.exp(x - tl.maximum(own_high, _LOWEST)), axis=0)
            count = tl.sum(permitted.to(tl.int32), axis=0)

    tempered = own_total
    temperature = tl.load(temperatures + row)
    if (temperature > _GREEDY) & (temperature != 1.0):
        tempered = tl.sum(tl.exp((x - tl.maximum(own_high, _LOWEST)) / temperature), axis=0)

    place = sums + row * _SUMS * blocks + block
    tl.store(place, high)
    tl.store(place + blocks, tl.where(non_finite > 0, float("nan"), total))
    tl.store(place + 2 * blocks, own_high)
    tl.store(place + 3 * blocks, own_total)
    tl.store(place + 4 * blocks, tempered)
    tl.store(place + 5 * blocks, count.to(tl.float32))


@triton.jit
def _pass(weights: tl.tensor, goal: tl.tensor, SIZE: tl.constexpr) -> tl.tensor:
    """Return the first index with a weight at which the cumulative weight, float64, passes the
    goal; otherwise the last index with a weight, or 0 without weights. Rounding never selects an
    index without a weight."""
    index = tl.arange(0, SIZE)
    last = tl.max(tl.where(weights > 0, index, 0), axis=0)
    passed = (weights > 0) & (tl.cumsum(weights, axis=0) > goal)
    return tl.min(tl.where(passed, index, last), axis=0)


@triton.jit
def _choose(
    logits: tl.tensor, stride: tl.tensor, vocab: tl.tensor, temperatures: tl.tensor,
    allowed: tl.tensor, allowed_stride: tl.tensor, states: tl.tensor, sums: tl.tensor,
    blocks: tl.tensor, draws: tl.tensor, tokens: tl.tensor, logprobs: tl.tensor,
    log_mass: tl.tensor, counts: tl.tensor, MASKED: tl.constexpr, BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, BLOCKS)
    there = index < blocks
    place = sums + row * _SUMS * blocks + index
    high = tl.load(place, mask=there, other=float("-inf"))
    total = tl.load(place + blocks, mask=there, other=0.0)
    own_high = tl.load(place + 2 * blocks, mask=there, other=float("-inf"))
    own_total = tl.load(place + 3 * blocks, mask=there, other=0.0)
    tempered = tl.load(place + 4 * blocks, mask=there, other=0.0)
    count = tl.sum(tl.load(place + 5 * blocks, mask=there, other=0.0).to(tl.int32), axis=0)

    top, own_top = tl.max(high, axis=0), tl.maximum(tl.max(own_high, axis=0), _LOWEST)
    norm = top + tl.log(tl.sum(total * tl.exp(high - top), axis=0))
    mass = tl.zeros([], tl.float32)
    bound = False
    if MASKED:
        bound = tl.load(states + row) != _UNCONSTRAINED
        if bound:
            mass = own_top + tl.log(tl.sum(own_total * tl.exp(own_high - own_top), axis=0)) - norm
            mass = tl.where(own_top > _LOWEST, mass, float("-inf"))

    temperature = tl.load(temperatures + row)
    chosen = tl.argmax(own_high, axis=0)
    goal = tl.zeros([], tl.float64)
    if temperature > _GREEDY:
        scale = tl.exp(((own_high - own_top) / temperature).to(tl.float64))
        weights = tempered.to(tl.float64) * scale
        goal = tl.load(draws + row).to(tl.float64) * tl.sum(weights, axis=0)
        chosen = _pass(weights, goal, BLOCKS)
        goal -= tl.sum(tl.where(index < chosen, weights, 0.0), axis=0)
        # In units of the block's sum. Without an allowed token the scale is 0, and the token is
        # arbitrary.
        goal /= tl.maximum(tl.sum(tl.where(index == chosen, scale, 0.0), axis=0), 1e-300)

    token = chosen * BLOCK + tl.arange(0, BLOCK)
    inside = token < vocab
    read = tl.load(logits + row * stride + token, mask=inside, other=0.0).to(tl.float32)
    x = _finite(read, inside)
    if MASKED:
        permitted = tl.load(allowed + row * allowed_stride + token, mask=inside, other=0) > 0
        x = tl.where(permitted | (bound == 0), x, float("-inf"))
    within = tl.argmax(x, axis=0)
    if temperature > _GREEDY:
        shifted = (x - tl.maximum(tl.max(x, axis=0), _LOWEST)) / temperature
        within = _pass(tl.exp(shifted).to(tl.float64), goal, BLOCK)
    result = tl.where(count > 0, tl.minimum(chosen * BLOCK + within, vocab - 1), 0)
    value = tl.load(logits + row * stride + result).to(tl.float32)
    tl.store(tokens + row, result.to(tl.int64))
    tl.store(logprobs + row, value - norm)
    tl.store(log_mass + row, mass)
    tl.store(counts + row, tl.where(tl.abs(value) < float("inf"), count, 0))
