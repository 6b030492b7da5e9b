"""Selection of the sampler of a step: torch for any row on any device, kernels for plain rows on a
GPU. Never waits for the device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...grammar.automaton.automaton import Automaton
from ...grammar.vocabulary import Vocabulary
from ..device.faults import is_out_of_memory
from ..device.transfer import pinned, to_device
from ..step_input import PREVIOUS, UNCONSTRAINED, Longs, SamplingInput
from .host_mask import host_mask
from .torch_sampler import SamplerOutput, TokenMask, pick

if TYPE_CHECKING:
    from .device_grammars import DeviceGrammars


class Sampler(Protocol):
    """Samples a token for each row and keeps the tokens of the last step."""

    sampled: Tensor  # int64[rows], the tokens of the last step

    def __call__(self, logits: Tensor, sampling: SamplingInput) -> SamplerOutput:
        """Sample a token for each row of logits [rows, vocab]. `logits` may be overwritten."""
        ...

    def acquire(self, automaton: Automaton, stop_tokens: Collection[int]) -> int | None:
        """Copy an automaton to the device tables.

        Returns:
            Offset of the automaton's states in the tables, valid until `release`; None if the host
            must make the masks.
        """
        ...

    def release(self, offset: int) -> None:
        """Undo an `acquire`."""
        ...


class TorchSampler:
    """Sampler for every device. The host makes the masks of grammars."""

    def __init__(self, max_rows: int, device: torch.device) -> None:
        self.sampled = torch.zeros(max_rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor, sampling: SamplingInput) -> SamplerOutput:
        mask = host_mask(sampling.masks, logits.shape[1], logits.device)
        result = pick(logits, sampling, mask)
        self.sampled[: sampling.num_rows] = result.tokens
        return result

    def acquire(self, automaton: Automaton, stop_tokens: Collection[int]) -> int | None:
        return None

    def release(self, offset: int) -> None:
        raise ValueError(f"offset {offset} is not in use: this sampler has no device tables")


class TritonSampler:
    """Sampler for a GPU: kernels for steps of plain rows, and grammar tables on the device.

    `launch` reads and writes fixed addresses, so a CUDA graph can contain the launch.
    """

    def __init__(
        self,
        vocab_size: int,
        max_rows: int,
        device: torch.device,
        ends: frozenset[int],
        vocabulary: Callable[[], Vocabulary] | None,
    ) -> None:
        """
        Args:
            vocab_size: Columns of the logits.
            max_rows: Maximum rows of a step.
            device: A GPU.
            ends: Tokens that end a sequence.
            vocabulary: Returns the bytes of the tokens, called for the first grammar. None without
                a tokenizer, and thus without grammars.
        """
        from .sample_kernel import DeviceSampler

        self._kernels = DeviceSampler(vocab_size, max_rows, device)
        self.sampled = self._kernels.tokens
        # grammar state of each sample row after the last step
        self.states = torch.full((max_rows,), UNCONSTRAINED, dtype=torch.int32, device=device)
        self._vocab_size, self._max_rows = vocab_size, max_rows
        self._device, self._ends = device, ends
        self._vocabulary = vocabulary
        self._grammars: DeviceGrammars | None = None
        self._allowed: Tensor | None = None

    def __call__(self, logits: Tensor, sampling: SamplingInput) -> SamplerOutput:
        rows, is_constrained = sampling.num_rows, sampling.is_constrained
        packed = pinned(pack_inputs(sampling, aligned(rows)), self._device).to(
            self._device, non_blocking=True
        )
        states, sample_rows, *numbers = packed[:, :rows]
        if is_constrained:
            states = torch.where(states == PREVIOUS, self.states[sample_rows], states)
        if sampling.is_plain:
            temperatures, draws = (number.view(torch.float32) for number in numbers)
            return self.launch(logits, states, temperatures, draws, constrained=is_constrained)

        # Rows with host masks have no step in flight. Other rows may have one, and only the device
        # knows their states.
        mask = host_mask(sampling.masks, logits.shape[1], self._device)
        if is_constrained:
            constrained_rows = np.flatnonzero(sampling.grammar_states != UNCONSTRAINED)
            index = to_device(constrained_rows, self._device)
            mask = _joined(mask, TokenMask(index, self._mask(states)[index].bool()))
        sampled = pick(logits, sampling, mask)
        self.sampled[:rows] = sampled.tokens
        self._advance(states, is_constrained)
        return sampled

    def launch(
        self,
        logits: Tensor,
        states: Tensor,
        temperatures: Tensor,
        draws: Tensor,
        *,
        constrained: bool,
    ) -> SamplerOutput:
        """Sample plain rows and advance `states` by the tokens. All tensors have one length."""
        if constrained:
            sampled = self._kernels(logits, temperatures, draws, self._mask(states), states)
        else:
            sampled = self._kernels(logits, temperatures, draws)
        self._advance(states, constrained)
        return sampled

    def precompile(self, logits: Tensor) -> None:
        """Launch the kernels for logits of this shape, with and without masks, within a
        `precompiling` block. Kernels of grammar tables are compiled for the first grammar."""
        numbers = torch.zeros(len(logits), dtype=torch.float32, device=logits.device)
        states = self.states[: len(logits)]
        self._kernels(logits, numbers, numbers)
        self._kernels(logits, numbers, numbers, torch.empty_like(logits, dtype=torch.uint8), states)

    def acquire(self, automaton: Automaton, stop_tokens: Collection[int]) -> int | None:
        assert self._vocabulary is not None
        if stop_tokens != self._ends:
            return None
        if max(self._ends, default=-1) >= self._vocabulary().size:
            return None  # a model may have tokens that its tokenizer does not have
        try:
            return self._tables().acquire(automaton)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def release(self, offset: int) -> None:
        self._tables().release(offset)

    def _tables(self) -> DeviceGrammars:
        """Return the tables, allocated for the first grammar."""
        if self._grammars is None:
            from .device_grammars import DeviceGrammars

            assert self._vocabulary is not None
            shape = self._max_rows, self._vocab_size
            self._allowed = torch.zeros(shape, dtype=torch.uint8, device=self._device)
            self._grammars = DeviceGrammars(self._vocabulary(), self._ends, self._device)
        return self._grammars

    def _mask(self, states: Tensor) -> Tensor:
        assert self._allowed is not None
        allowed = self._allowed[: len(states)]
        self._tables().allowed(states, allowed)
        return allowed

    def _advance(self, states: Tensor, constrained: bool) -> None:
        if constrained:
            self._tables().advance_(states, self.sampled[: len(states)])
            self.states[: len(states)] = states


class FollowerSampler(TorchSampler):
    """Sampler of a rank that receives the tokens of rank 0 in `sampled`. Samples nothing in CUDA
    graphs."""

    def __init__(self, max_rows: int, device: torch.device) -> None:
        super().__init__(max_rows, device)
        self.states = torch.full((max_rows,), UNCONSTRAINED, dtype=torch.int32, device=device)

    def launch(
        self,
        logits: Tensor,
        states: Tensor,
        temperatures: Tensor,
        draws: Tensor,
        *,
        constrained: bool,
    ) -> SamplerOutput:
        sampled = self.sampled[: len(logits)]
        return SamplerOutput(sampled, draws, draws, states)

    def precompile(self, logits: Tensor) -> None:
        """Nothing to compile."""


GraphSampler = TritonSampler | FollowerSampler
"""Samplers whose `launch` a CUDA graph can contain."""


def make_sampler(decoder: Any, rows: int, tokenizer: Any, eos: frozenset[int]) -> Sampler:
    """Return the sampler of a decoder's device. rows: maximum of a step."""
    if decoder.device.type != "cuda" or find_spec("triton") is None:
        return TorchSampler(rows, decoder.device)
    if decoder.ranks is not None and decoder.ranks.rank:
        return FollowerSampler(rows, decoder.device)
    vocabulary = None if tokenizer is None else lambda: tokenizer.vocabulary
    return TritonSampler(decoder.vocab_size, rows, decoder.device, eos, vocabulary)


def aligned(rows: int) -> int:
    """Return `rows` rounded up: consecutive int32 arrays of this length all begin at 16 bytes, an
    alignment that kernels are compiled for."""
    return -(-rows // 4) * 4


def pack_inputs(
    sampling: SamplingInput, rows: int, places: Longs | None = None
) -> NDArray[np.int32]:
    """Pack the inputs of the sampling kernels.

    Args:
        sampling: Parameters of the sampled rows.
        rows: Number of columns.
        places: Columns of the sampled rows, by default the first. Other columns get padding.

    Returns:
        int32[4, rows]: grammar state, row in the samples of the previous step, and, as bits of
        float32, temperature and draw.
    """
    packed = np.zeros((4, rows), np.int32)
    packed[0] = UNCONSTRAINED
    at = slice(sampling.num_rows) if places is None else places
    packed[0, at], packed[1, at] = sampling.grammar_states, sampling.sample_rows
    packed[2, at] = sampling.temperatures.view(np.int32)
    packed[3, at] = sampling.draws.astype(np.float32).view(np.int32)
    return packed


def _joined(mask: TokenMask | None, other: TokenMask) -> TokenMask:
    return other if mask is None else TokenMask(*map(torch.cat, zip(mask, other, strict=True)))
