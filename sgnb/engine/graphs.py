"""Decode steps and steps of few tokens as CUDA graphs: one replay instead of hundreds of launches.

A token is a row. A short chunk, such as the forced text of a grammar or a question behind a cached
prefix, has several rows, and only the last row samples. A step is padded to one of a few numbers
of rows. The first step of a kind is captured if all kernels are compiled, and runs kernel by kernel
otherwise, which compiles the kernels. Later steps replay the graph. The inputs are copied to
tensors with fixed addresses.

A model without support for capture runs kernel by kernel. After an out-of-memory capture, the step
runs kernel by kernel and all graphs are dropped. A graph may be dropped while the device runs the
graph: CUDA frees the memory afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from .device.faults import is_device_lost, is_out_of_memory
from .device.precompile import precompiling
from .device.transfer import pinned, to_device
from .sampling.mask_kernel import resume
from .sampling.sampler import GraphSampler, aligned, pack_inputs
from .sampling.torch_sampler import SamplerOutput
from .step_input import AttentionInput, Spans, StatePlan, StepInput


class StepAttention(Protocol):
    """Part of an attention backend for steps; see `attention.protocol`."""

    kv: Any

    @property
    def has_cascade(self) -> bool: ...

    @property
    def graph_key(self) -> Hashable: ...

    def plan(self, step: AttentionInput, padded: int | None = None) -> None: ...

    def precompile(self, rows: int) -> None: ...


class PlannedStates(Protocol):
    """States of recurrent layers; see `model.recurrent.StepStates`."""

    def reserve(self, rows: int) -> None: ...

    def plan(self, plans: Sequence[StatePlan], spans: Spans, padded: int | None = None) -> None: ...


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
"""Numbers of rows that together need all kernels: matrix products of few rows have separate
kernels, see `fusion.skinny`."""

FEW_TOKENS = 64
"""Maximum number of tokens of a step that is a graph for any length of its chunks. The device takes
less time than the host for launches kernel by kernel."""

MOST_GRAPHS = 256
"""Maximum number of cached graphs; each graph takes device memory."""

INPUTS = 6
"""For each row: token, position, state, sample row, temperature, draw."""

T = TypeVar("T")

Forward = Callable[[Tensor, Tensor], Tensor]
"""(ids int64[rows], positions int32[rows]) -> logits [rows, vocab]."""


class DecodeGraphs:
    """Execution of steps accepted by `fits`: at most `max_rows` tokens, all chunks short or few
    tokens, all sequences sampling.

    Args:
        forward: The model, called after attention is planned.
        attention: Attention backend.
        sampler: Sampler.
        max_rows: Maximum number of rows.
        device: A GPU.
        room: Working memory of a step of `max_rows` rows, in bytes.
        recurrent: States of recurrent layers. Such models run only decode steps as graphs.
    """

    def __init__(
        self,
        forward: Forward,
        attention: StepAttention,
        sampler: GraphSampler,
        max_rows: int,
        device: torch.device,
        room: int,
        recurrent: PlannedStates | None = None,
    ) -> None:
        self._forward, self._attention, self._sampler = forward, attention, sampler
        self._recurrent = recurrent
        self._sizes = [size for size in SIZES if size < max_rows] + [max_rows]
        capacity = max(max_rows, PRECOMPILED_ROWS[-1])

        if recurrent is not None:
            recurrent.reserve(capacity)
        self._inputs = torch.zeros(INPUTS * aligned(capacity), dtype=torch.int32, device=device)
        self._ids = torch.zeros(capacity, dtype=torch.int64, device=device)

        self._device = device
        self._finished: set[Hashable] = set()  # kinds of steps that ran kernel by kernel
        self._too_large: set[Hashable] = set()
        self._precompiled = self._cannot = False

        # Sampling variants that have run on the engine's thread, so their thread state exists.
        self._begun: set[tuple[bool, bool]] = set()
        # least recently used first
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor | SamplerOutput]] = {}

        self._memory = torch.cuda.graph_pool_handle()
        self._room = room
        self._holder: torch.cuda.CUDAGraph | None = None  # reserves the memory of all graphs
        self._logits: Tensor | None = None  # copy of the logits, shared by all graphs

    def precompile(self) -> None:
        """Compile the kernels of steps of any number of rows. Call without a step in flight.
        Recurrent layers use foreign kernels, which tune on the first run, and are omitted."""
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
                    # The model reads results on the host, meaningless here. Steps may still run.
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
        has_few = attention.num_tokens <= FEW_TOKENS and not any(attention.whole)
        return (has_few or attention.num_short == len(attention)) and not any(
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
        places = None if attention.is_decode else attention.last_rows
        packed[2:] = pack_inputs(step.sampling, columns, places)
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
        ready = key in self._finished or (
            self._precompiled and (chooses, constrained) in self._begun
        )
        captured = None

        if ready and not self._cannot and key not in self._too_large:
            captured = self._capture(key, rows, chooses, constrained)
        if captured is None:
            results = self._step(rows, chooses, constrained)
            self._finished.add(key)
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
        """Capture the step. Returns None on failure."""
        try:
            self._reserve()
            return self._captured(partial(self._step, rows, chooses, constrained))
        except Exception as error:
            if is_device_lost(error):
                raise
            if is_out_of_memory(error):
                self._too_large.add(key)
            else:
                # A step of this kind ran before, so the capture fails because of the model.
                self._cannot = key in self._finished
            return None

    def _reserve(self) -> None:
        """Allocate the working memory of the largest graph. All graphs share one pool. Without a
        large first block, graphs captured in rising order of size would each allocate a block."""
        if self._holder is None and self._room:
            try:
                # torch warns of an empty graph, hence zeros.
                zeros = partial(torch.zeros, self._room, dtype=torch.uint8, device=self._device)
                self._holder, _ = self._captured(zeros)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self._room = 0

    def _captured(self, work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
        """Capture the launches of `work`. Returns the graph, not yet run, and the result."""
        graph = torch.cuda.CUDAGraph()
        try:
            # `torch.cuda.graph` would wait for the device. "thread_local", because other threads
            # may use the device meanwhile.
            graph.capture_begin(self._memory, capture_error_mode="thread_local")
            results = work()
            graph.capture_end()
        except BaseException:
            self._abandon(graph)
            raise
        return graph, results

    def _abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a failed capture. If CUDA has invalidated the capture, torch raises and leaves the
        memory pool and the random generator in capture mode. All graphs are dropped, and later
        graphs use a new pool."""
        device = torch.cuda.current_device()

        try:
            graph.capture_end()
        except RuntimeError:  # the caller raises the first error
            end = "_cuda_endAllocateToPool"
            if not hasattr(torch._C, end):  # before torch 2.8
                end = "_cuda_endAllocateCurrentStreamToPool"
            with suppress(RuntimeError):  # the pool may be closed already
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
        if self._logits is None:  # in the first such step, which is not captured
            self._logits = logits.new_empty(self._sizes[-1], logits.shape[1])
        return self._logits[:rows].copy_(logits)  # otherwise each graph would hold logits

    def _model_step(self, rows: int) -> tuple[Tensor, ...]:
        """Return the logits, and the state, temperature and draw of each row."""
        inputs = self._inputs[: INPUTS * aligned(rows)].view(INPUTS, -1)
        ids, positions, states, sample_rows, *numbers = inputs[:, :rows]
        sampler = self._sampler
        token_ids = self._ids[:rows]
        resume(ids, sampler.sampled, states, sampler.states, sample_rows, token_ids, states)
        logits = self._forward(token_ids, positions)
        return logits, states, *(number.view(torch.float32) for number in numbers)
