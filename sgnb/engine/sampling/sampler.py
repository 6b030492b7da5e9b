"""Who chooses a step's tokens: torch for any row on any device, kernels for plain rows on a GPU.
Waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...grammar.vocabulary import Vocabulary
from ..device.transfer import pinned, to_device
from ..memory import is_out_of_memory
from ..request.request_state import RequestState
from .host_mask import host_mask
from .rng import uniforms
from .torch_sampler import PREVIOUS, UNCONSTRAINED, Mask, SamplerOutput, pick

if TYPE_CHECKING:
    from .device_grammars import DeviceGrammars


class Sampler(Protocol):
    """Chooses a token for each row, and knows what the last step chose.

    sampled: int64[rows], the tokens of the last step, by seat.
    """

    sampled: Tensor

    def __call__(self, logits: Tensor, lives: Sequence[RequestState]) -> SamplerOutput:
        """One token for each row of logits [rows, vocab], row i for lives[i]. `logits` may be
        overwritten."""
        ...

    def place(self, live: RequestState) -> None:
        """Before a request with a grammar begins: bring the grammar where masks are made, if that
        is possible."""
        ...

    def forget(self, live: RequestState) -> None:
        """The request ends."""
        ...


class TorchSampler:
    """For every device. Grammars' masks are made on the host."""

    def __init__(self, max_rows: int, device: torch.device) -> None:
        self.sampled = torch.zeros(max_rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor, lives: Sequence[RequestState]) -> SamplerOutput:
        sampled = _pick(logits, lives, host_mask(_bound(lives), logits.shape[1], logits.device))
        self.sampled[: len(lives)] = sampled.tokens
        return sampled

    def place(self, live: RequestState) -> None:
        pass

    def forget(self, live: RequestState) -> None:
        pass


class TritonSampler:
    """For a GPU: rows that are plain go through kernels, with grammars whose tables lie on the
    device.

    What `launch` runs has fixed places, so that it can be part of a CUDA graph. states:
    int32[max_rows], where the last step left the grammar of each seat.
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

    def __call__(self, logits: Tensor, lives: Sequence[RequestState]) -> SamplerOutput:
        rows, bound = len(lives), _bound(lives)
        tabled = [row for row, live in bound.items() if live.table is not None]
        packed = pinned(pack_inputs(lives, aligned(rows)), self._device).to(
            self._device, non_blocking=True
        )
        states, seats, *numbers = packed.view(4, -1)[:, :rows]
        if tabled:
            states = torch.where(states == PREVIOUS, self.states[seats], states)
        if supports(lives):
            return self.launch(
                logits, states, *(n.view(torch.float32) for n in numbers), constrained=bool(tabled)
            )
        # Rows that the host masks have no step in flight; others beside them may, and the device
        # knows their states.
        mask = host_mask(
            {r: live for r, live in bound.items() if live.table is None},
            logits.shape[1],
            self._device,
        )
        if tabled:
            index = to_device(tabled, self._device)
            mask = _joined(mask, Mask(index, self._mask(states)[index].bool()))
        sampled = _pick(logits, lives, mask)
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

    def place(self, live: RequestState) -> None:
        params, grammar = live.request.params, live.grammar
        if grammar is None or live.constraint is None or params.thinking or params.min_new_tokens:
            return
        automaton = grammar.result().compiled.automaton
        assert self._vocabulary is not None
        if automaton is None or live.stop_tokens != self._ends:
            return
        if max(self._ends, default=-1) >= self._vocabulary().size:
            return  # a model may have tokens that its tokenizer does not have
        try:
            live.table = self._tables().acquire(automaton)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):  # else the host makes the masks
                raise

    def forget(self, live: RequestState) -> None:
        if live.table is not None:
            self._tables().release(live.table)

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
    """As many or a few more: lists of so many int32 next to each other all begin at 16 bytes, which
    kernels know when they are compiled."""
    return -(-rows // 4) * 4


def pack_inputs(
    lives: Sequence[RequestState], rows: int, places: Sequence[int] | None = None
) -> NDArray[np.int32]:
    """int32[4, rows], flat: each row's state, seat in the last step, and, as bits of float32,
    temperature and draw.

    places: the rows of the lives; the first ones by default. Other rows choose for nobody.
    """
    packed = np.zeros((4, rows), np.int32)
    packed[0] = UNCONSTRAINED
    at = slice(len(lives)) if places is None else places
    packed[0, at] = [_state(live) for live in lives]
    packed[1, at] = [live.request.sample_row for live in lives]
    packed[2, at] = np.array([live.request.params.temperature for live in lives], np.float32).view(
        np.int32
    )
    packed[3, at] = _draws(lives).astype(np.float32).view(np.int32)
    return packed.ravel()


def supports(lives: Sequence[RequestState]) -> bool:
    """Whether `TritonSampler.launch` can choose for all of them."""
    return all(
        live.plain and (live.constraint is None or live.table is not None) and not live.banned
        for live in lives
    )


def _state(live: RequestState) -> int:
    if live.table is None or live.constraint is None:
        return UNCONSTRAINED
    return PREVIOUS if live.request.num_placeholders else live.table + live.constraint.state


def _bound(lives: Sequence[RequestState]) -> dict[int, RequestState]:
    return {
        row: live
        for row, live in enumerate(lives)
        if live.constraint is not None and live.constraint.binds
    }


def _joined(mask: Mask | None, other: Mask) -> Mask:
    return (
        other
        if mask is None
        else Mask(*(torch.cat(parts) for parts in zip(mask, other, strict=True)))
    )


def _pick(logits: Tensor, lives: Sequence[RequestState], mask: Mask | None) -> SamplerOutput:
    return pick(
        logits,
        [live.request for live in lives],
        [live.banned for live in lives],
        _draws(lives),
        mask,
    )


def _draws(lives: Sequence[RequestState]) -> NDArray[np.float64]:
    """Each request's random number for its next token."""
    seeds = np.array([live.request.seed for live in lives], np.uint64)
    positions = np.array(
        [
            live.request.num_tokens_with_placeholders - live.request.num_prompt_tokens
            for live in lives
        ],
        np.int64,
    )
    return uniforms(seeds, positions)
