"""Decode steps as CUDA graphs: one replay in place of hundreds of launches.

A token is a row; of the several rows of a short chunk, such as a grammar's forced text, only the
last one's logits count. A step is padded to one of a few numbers of rows. The first step of a kind
is captured if its kernels are compiled, and else runs kernel by kernel, which compiles them; later
ones replay the graph. Their inputs lie in tensors of fixed place, which are filled before. A model
that cannot be captured runs kernel by kernel, and so does a step for whose graph there is no
memory: all graphs then give theirs back. A graph may be dropped while it runs: CUDA frees it
afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from .attention import AttentionBackend
from .device.errors import is_device_lost, is_out_of_memory
from .device.precompile import precompiling
from .device.transfer import pinned, to_device
from .model.recurrent import StepStates
from .sampling.mask_kernel import resume
from .sampling.sampler import TritonSampler, aligned, pack_inputs
from .sampling.torch_sampler import SamplerOutput
from .step_input import StepInput

SIZES = (
    1,
    2,
    4,
    8,
    *range(16, 64, 8),
    *range(64, 256, 16),
    *range(256, 512, 32),
    *range(512, 1025, 64),
)
"""Numbers of rows after padding."""

PRECOMPILED_ROWS = (1, 2, 8, 16, 32, 64, 80)
"""Numbers of rows that among them need all kernels: products of few rows have their own, see
`fusion.skinny`."""

MOST_GRAPHS = 256
"""Maximum number of cached graphs; each graph takes device memory."""

INPUTS = 6
"""For each row: token, position, state, sample row, temperature, draw."""

T = TypeVar("T")

Forward = Callable[[Tensor, Tensor], Tensor]
"""(ids int64[rows], positions int32[rows]) -> logits [rows, vocab]."""


class DecodeGraphs:
    """Runs steps of at most max_rows tokens, in which every chunk is short and samples; see `fits`.

    forward: the model, once the attention is planned.
    """

    def __init__(
        self,
        forward: Forward,
        attention: AttentionBackend,
        sampler: TritonSampler,
        max_rows: int,
        device: torch.device,
        room: int,
        recurrent: StepStates | None = None,
    ) -> None:
        """recurrent: of a model with recurrent layers, whose steps are decode steps only. room:
        bytes that a step of max_rows works on."""
        self._forward, self._attention, self._sampler = forward, attention, sampler
        self._recurrent = recurrent
        self._sizes = [size for size in SIZES if size < max_rows] + [max_rows]
        most = max(max_rows, PRECOMPILED_ROWS[-1])
        if recurrent is not None:
            recurrent.reserve(most)
        self._inputs = torch.zeros(INPUTS * aligned(most), dtype=torch.int32, device=device)
        self._ids = torch.zeros(most, dtype=torch.int64, device=device)
        self._device = device
        self._seen: set[Hashable] = set()
        self._too_large: set[Hashable] = set()
        self._precompiled = self._cannot = False
        # What has run once on the engine's thread, and so is set up there.
        self._begun: set[tuple[bool, bool]] = set()
        # The longest unused first.
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor | SamplerOutput]] = {}
        self._memory = torch.cuda.graph_pool_handle()
        self._room = room
        self._holder: torch.cuda.CUDAGraph | None = None  # of the memory of all graphs
        self._kept: Tensor | None = None

    def precompile(self) -> None:
        """Compile the kernels of steps of any number of rows. None may be under way. Recurrent
        layers have kernels of others, which tune themselves as they run: those wait for that."""
        if self._recurrent is not None:
            return
        with precompiling():
            for rows in PRECOMPILED_ROWS:
                self._attention.precompile(rows)
                try:
                    logits, *_ = self._model_step(rows)
                except Exception as error:
                    if is_out_of_memory(error) or is_device_lost(error):
                        raise
                    # A model that reads its own results, which have no meaning here: its steps may
                    # yet run.
                    return
                self._sampler.precompile(logits[: self._sizes[-1]])
        self._precompiled = True

    def fits(self, step: StepInput) -> bool:
        """Return whether graphs support the step. Scores of several tokens may need more rows than
        a graph has."""
        attention = step.attention
        if attention.num_tokens > self._sizes[-1] or len(step.sampled) < len(attention):
            return False
        if step.positions.ndim > 1 or step.embeddings:
            return False
        if attention.is_decode or self._recurrent is not None:
            return attention.is_decode
        return attention.num_short == len(attention) and not any(
            use.scored and attention.lengths[use.sequence] > 1 for use in step.uses
        )

    def run(self, step: StepInput) -> Tensor | SamplerOutput:
        """Run a step.

        Returns:
            The sampled tokens, with a row per row of the step, if kernels can sample all rows and
            nothing else is wanted; otherwise the logits of `step.logit_rows`. The next step
            overwrites the result.
        """
        attention = step.attention
        num_tokens = attention.num_tokens
        rows = self._sizes[bisect_left(self._sizes, num_tokens)]
        self._attention.plan(attention, rows)
        if self._recurrent is not None:
            self._recurrent.plan(step.states, attention, rows)

        columns = aligned(rows)
        packed = np.zeros((INPUTS, columns), np.int32)
        packed[0, :num_tokens], packed[1, :num_tokens] = step.tokens, step.positions
        packed[2:] = pack_inputs(step.sampling, columns, attention.last_rows)
        inputs = pinned(packed.ravel(), self._device)
        self._inputs[: len(inputs)].copy_(inputs, non_blocking=True)

        chooses = step.sampling.is_plain and not step.uses
        constrained = chooses and step.sampling.is_constrained
        key = rows, chooses, constrained, self._attention.graph_key
        results = self._replay(key, rows, chooses, constrained)
        if isinstance(results, SamplerOutput):
            return results
        return results[to_device(step.logit_rows, self._device)]

    def clear(self) -> None:
        """Drop all graphs because weights moved. Later steps capture new graphs."""
        self._graphs.clear()

    def _replay(
        self, key: Hashable, rows: int, chooses: bool, constrained: bool
    ) -> Tensor | SamplerOutput:
        if key in self._graphs:
            graph, results = self._graphs[key] = self._graphs.pop(key)
            graph.replay()
            return results
        ready = key in self._seen or (self._precompiled and (chooses, constrained) in self._begun)
        captured = None
        if ready and not self._cannot and key not in self._too_large:
            captured = self._capture(key, rows, chooses, constrained)
        if captured is None:
            results = self._step(rows, chooses, constrained)
            self._seen.add(key)
            self._begun.add((chooses, constrained))
            return results
        if len(self._graphs) == MOST_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        graph, results = self._graphs[key] = captured
        graph.replay()
        return results

    def _capture(
        self, key: Hashable, rows: int, chooses: bool, constrained: bool
    ) -> tuple[torch.cuda.CUDAGraph, Tensor | SamplerOutput] | None:
        """Capture the step; None on failure."""
        try:
            self._reserve()
            return self._captured(partial(self._step, rows, chooses, constrained))
        except Exception as error:
            if is_device_lost(error):
                raise
            if is_out_of_memory(error):
                self._too_large.add(key)
            else:
                # After a step like it: a module that waits for the device, or so.
                self._cannot = key in self._seen
            return None

    def _reserve(self) -> None:
        """Take at once the memory that the largest graph works on. All graphs work in one place,
        but a block of it must be large enough: coming in another order than from large to small,
        each would take a block of its own."""
        if self._holder is None and self._room:
            try:
                # Zeros, as torch warns of a graph that is empty.
                zeros = partial(torch.zeros, self._room, dtype=torch.uint8, device=self._device)
                self._holder, _ = self._captured(zeros)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self._room = 0

    def _captured(self, work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
        """What `work` launches, which has not run, and what it gives."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Not `torch.cuda.graph`, which waits for the device; "thread_local", as other threads
            # may use it meanwhile.
            graph.capture_begin(self._memory, capture_error_mode="thread_local")
            results = work()
            graph.capture_end()
        except BaseException:
            self._abandon(graph)
            raise
        return graph, results

    def _abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a capture that failed. Where CUDA gave it up itself, torch raises, and leaves open
        what it had begun: the graphs' memory, some of it for good, and its generator, which nobody
        could draw from. So all graphs go, and later ones work elsewhere."""
        device = torch.cuda.current_device()
        try:
            graph.capture_end()
        except RuntimeError:  # nothing but the first error matters
            end = "_cuda_endAllocateToPool"
            if not hasattr(torch._C, end):  # before torch 2.8
                end = "_cuda_endAllocateCurrentStreamToPool"
            with suppress(RuntimeError):  # unless that was closed already
                getattr(torch._C, end)(device, self._memory)
                torch._C._cuda_releasePool(device, self._memory)
            generator = torch.cuda.default_generators[device]
            generator.graphsafe_set_state(generator.clone_state())
        self._graphs.clear()
        self._holder, self._memory = None, torch.cuda.graph_pool_handle()

    def _step(self, rows: int, chooses: bool, constrained: bool) -> Tensor | SamplerOutput:
        logits, states, temperatures, draws = self._model_step(rows)
        if chooses:
            return self._sampler.launch(
                logits, states, temperatures, draws, constrained=constrained
            )
        if self._cannot:
            return logits
        if self._kept is None:  # in the first such step, which is no graph
            self._kept = logits.new_empty(self._sizes[-1], logits.shape[1])
        return self._kept[:rows].copy_(logits)  # graphs would keep one each

    def _model_step(self, rows: int) -> tuple[Tensor, ...]:
        """The logits; and of each row the state, temperature and draw."""
        inputs = self._inputs[: INPUTS * aligned(rows)].view(INPUTS, -1)
        ids, positions, states, sample_rows, *numbers = inputs[:, :rows]
        sampler = self._sampler
        own_ids = self._ids[:rows]
        resume(ids, sampler.sampled, states, sampler.states, sample_rows, own_ids, states)
        logits = self._forward(own_ids, positions)
        return logits, states, *(number.view(torch.float32) for number in numbers)
