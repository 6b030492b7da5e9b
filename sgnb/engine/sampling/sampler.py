"""Selection of the sampler for a step: torch for any row on any device, kernels for plain rows on a
GPU. Never waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...grammar.vocabulary import Vocabulary
from ..device.errors import is_out_of_memory
from ..device.transfer import pinned, to_device
from ..request.request import Request
from ..request.request_state import RequestState
from .host_mask import host_mask
from .rng import uniforms
from .torch_sampler import PREVIOUS, UNCONSTRAINED, Mask, SamplerOutput, pick

if TYPE_CHECKING:
    from .device_grammars import DeviceGrammars


class Sampler(Protocol):
    """Chooses a token for each row, and knows what the last step chose."""

    sampled: Tensor  # int64[rows], the tokens of the last step, by sample row

    def __call__(self, logits: Tensor, requests: Sequence[Request]) -> SamplerOutput:
        """One token for each row of logits [rows, vocab], row i for requests[i]. `logits` may be
        overwritten."""
        ...

    def place(self, state: RequestState) -> None:
        """Before a request with a grammar begins: bring the grammar where masks are made, if that
        is possible."""
        ...

    def forget(self, state: RequestState) -> None:
        """The request ends."""
        ...


class TorchSampler:
    """For every device. Grammars' masks are made on the host."""

    def __init__(self, max_rows: int, device: torch.device) -> None:
        self.sampled = torch.zeros(max_rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor, requests: Sequence[Request]) -> SamplerOutput:
        sampled = _pick(
            logits, requests, host_mask(_bound(requests), logits.shape[1], logits.device)
        )
        self.sampled[: len(requests)] = sampled.tokens
        return sampled

    def place(self, state: RequestState) -> None:
        pass

    def forget(self, state: RequestState) -> None:
        pass


class TritonSampler:
    """For a GPU: rows that are plain go through kernels, with grammars whose tables lie on the
    device.

    What `launch` runs has fixed places, so that it can be part of a CUDA graph.
    """

    def __init__(
        self,
        vocab_size: int,
        max_rows: int,
        device: torch.device,
        ends: frozenset[int],
        vocabulary: Callable[[], Vocabulary] | None,
    ) -> None:
        """ends: tokens that end a sequence. vocabulary: gives the tokens' bytes; called for the
        first grammar. None where there are no grammars, for want of a tokenizer."""
        from .sample_kernel import DeviceSampler

        self._kernels = DeviceSampler(vocab_size, max_rows, device)
        self.sampled = self._kernels.tokens
        # Where the last step left the grammar of each sample row.
        self.states = torch.full((max_rows,), UNCONSTRAINED, dtype=torch.int32, device=device)
        self._vocab_size, self._max_rows, self._device, self._ends = (
            vocab_size,
            max_rows,
            device,
            ends,
        )
        self._vocabulary = vocabulary
        self._grammars: DeviceGrammars | None = None
        self._allowed: Tensor | None = None

    def __call__(self, logits: Tensor, requests: Sequence[Request]) -> SamplerOutput:
        rows, bound = len(requests), _bound(requests)
        tabled = [row for row, state in bound.items() if state.table_offset is not None]
        packed = pinned(pack_inputs(requests, aligned(rows)), self._device).to(
            self._device, non_blocking=True
        )
        states, sample_rows, *numbers = packed.view(4, -1)[:, :rows]
        if tabled:
            states = torch.where(states == PREVIOUS, self.states[sample_rows], states)
        if supports(requests):
            return self.launch(
                logits, states, *(n.view(torch.float32) for n in numbers), constrained=bool(tabled)
            )
        # Rows that the host masks have no step in flight; others beside them may, and the device
        # knows their states.
        mask = host_mask(
            {row: state for row, state in bound.items() if state.table_offset is None},
            logits.shape[1],
            self._device,
        )
        if tabled:
            index = to_device(tabled, self._device)
            mask = _joined(mask, Mask(index, self._mask(states)[index].bool()))
        sampled = _pick(logits, requests, mask)
        self.sampled[:rows] = sampled.tokens
        self._advance(states, bool(tabled))
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
        """Choose for plain rows; `states` go on by the tokens. All are tensors of one length."""
        if constrained:
            sampled = self._kernels(logits, temperatures, draws, self._mask(states), states)
        else:
            sampled = self._kernels(logits, temperatures, draws)
        self._advance(states, constrained)
        return sampled

    def precompile(self, logits: Tensor) -> None:
        """In a `precompiling` block: choose for rows of such logits with and without grammars,
        whose own kernels are left out: their tables are made for the first one."""
        numbers = torch.zeros(len(logits), dtype=torch.float32, device=logits.device)
        states = self.states[: len(logits)]
        self._kernels(logits, numbers, numbers)
        self._kernels(logits, numbers, numbers, torch.empty_like(logits, dtype=torch.uint8), states)

    def place(self, state: RequestState) -> None:
        params, grammar = state.request.params, state.grammar
        if grammar is None or state.constraint is None or params.thinking or params.min_new_tokens:
            return
        automaton = grammar.result().compiled.automaton
        assert self._vocabulary is not None
        if automaton is None or state.stop_tokens != self._ends:
            return
        if max(self._ends, default=-1) >= self._vocabulary().size:
            return  # a model may have tokens that its tokenizer does not have
        try:
            state.put_grammar_on_device(self._tables().acquire(automaton))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):  # else the host makes the masks
                raise

    def forget(self, state: RequestState) -> None:
        if state.table_offset is not None:
            self._tables().release(state.table_offset)

    def _tables(self) -> DeviceGrammars:
        """Made for the first grammar: they and the masks take memory."""
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


def aligned(rows: int) -> int:
    """`rows` or a few more: lists of that length of int32 next to each other all begin at 16 bytes,
    which kernels know when they are compiled."""
    return -(-rows // 4) * 4


def pack_inputs(
    requests: Sequence[Request], rows: int, places: NDArray[np.int64] | None = None
) -> NDArray[np.int32]:
    """int32[4, rows], flat: each row's grammar state, its row in the last step's samples, and, as
    bits of float32, temperature and draw.

    places: the rows of the requests; the first ones by default. Other rows choose for nobody.
    """
    packed = np.zeros((4, rows), np.int32)
    packed[0] = UNCONSTRAINED
    at = slice(len(requests)) if places is None else places
    temperatures = np.array([r.params.temperature for r in requests], np.float32)
    packed[0, at] = [
        UNCONSTRAINED if r.state.table_offset is None else _grammar_state(r) for r in requests
    ]
    packed[1, at] = [r.sample_row for r in requests]
    packed[2, at] = temperatures.view(np.int32)
    packed[3, at] = _draws(requests).astype(np.float32).view(np.int32)
    return packed.ravel()


def supports(requests: Sequence[Request]) -> bool:
    """Whether `TritonSampler.launch` can choose for all of them."""
    states = [r.state for r in requests]
    return all(s.fits_kernels and not (s.holds_back and s.banned) for s in states)


def _grammar_state(request: Request) -> int:
    """In the device's tables."""
    constraint, offset = request.state.constraint, request.state.table_offset
    assert constraint is not None and offset is not None
    return PREVIOUS if request.num_placeholders else offset + constraint.state


def _bound(requests: Sequence[Request]) -> dict[int, RequestState]:
    """The rows whose grammars bind."""
    states = enumerate(r.state for r in requests)
    return {row: s for row, s in states if s.constraint is not None and s.constraint.binds}


def _joined(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else Mask(*map(torch.cat, zip(mask, other, strict=True)))


def _pick(logits: Tensor, requests: Sequence[Request], mask: Mask | None) -> SamplerOutput:
    return pick(logits, requests, [r.state.banned for r in requests], _draws(requests), mask)


def _draws(requests: Sequence[Request]) -> NDArray[np.float64]:
    """Each request's random number for its next token."""
    seeds = np.array([r.seed for r in requests], np.uint64)
    positions = [r.num_tokens_with_placeholders - r.num_prompt_tokens for r in requests]
    return uniforms(seeds, np.array(positions, np.int64))
