"""One step on the device: its tokens through the model, and the choice of the next ones. Waits for
nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .attention import AttentionBackend
from .cache.state_pool import StatePool
from .device.transfer import to_device
from .model.decoder import Decoder, takes_logits_to_keep
from .model.recurrent import StepStates, serving
from .model.weight_monitor import WeightMonitor
from .request.batch import Batch
from .sampling.sampler import Sampler, TritonSampler
from .sampling.step_output import AsyncStepOutput, read_later, sample_batch
from .sampling.torch_sampler import SamplerOutput
from .sizing import graph_bytes

if TYPE_CHECKING:
    from .graphs import DecodeGraphs


class ModelRunner:
    """Runs a decoder on the flattened tokens of a step: input_ids [1, T] with explicit positions.

    On a GPU all its work goes to a stream of its own.
    """

    def __init__(
        self,
        decoder: Decoder,
        attention: AttentionBackend,
        sampler: Sampler,
        states: StatePool | None = None,
        *,
        max_rows: int,
        cuda_graphs: bool,
        weights: WeightMonitor | None = None,
    ) -> None:
        """max_rows: samples in a step, at most. states: of a model with recurrent layers. weights:
        of a model that the user can change."""
        self.sampler, self.weights = sampler, weights
        self._decoder = decoder
        self._model = decoder.model
        self._device = decoder.device
        self._attention = attention
        self._states = None if states is None else StepStates(states)
        self._keeps = takes_logits_to_keep(decoder.model)
        # Our attention makes its own masks. A mask of four dimensions keeps transformers from
        # preparing one, and from the synchronisation with a GPU that this takes.
        self._unused_mask = torch.zeros(1, 1, 1, 1, device=decoder.device)
        self._graphs: DecodeGraphs | None = None
        if cuda_graphs and isinstance(sampler, TritonSampler):
            from .graphs import DecodeGraphs

            room = graph_bytes(decoder, max_rows)
            self._graphs = DecodeGraphs(
                self._logits, attention, sampler, max_rows, decoder.device, room, self._states
            )
        self.stream: AbstractContextManager[Any] = nullcontext()
        if decoder.device.type == "cuda":
            stream = torch.cuda.Stream(decoder.device)
            # Weights, pool and tables are made on the current one.
            stream.wait_stream(torch.cuda.current_stream(decoder.device))
            self.stream = torch.cuda.stream(stream)

    def run(self, batch: Batch) -> AsyncStepOutput:
        """Launch a step. A CUDA graph puts samples at other rows, and says so in
        `batch.sample_rows`. Placeholders take their tokens from the samples of the step before.

        Call it in `torch.inference_mode`, and in `stream`.
        """
        if self._graphs is not None and self._graphs.fits(batch):
            results = self._graphs.run(batch)
            if isinstance(results, SamplerOutput):
                return read_later(batch, results)
            logits = results[to_device(_logit_rows(batch), self._device)]
            return sample_batch(batch, logits, self.sampler)
        return sample_batch(batch, self._forward(batch), self.sampler)

    def precompile(self) -> None:
        """Compile what decode steps need, so that none of them waits for it; with CUDA graphs only.
        Call it before `run`."""
        if self._graphs is not None:
            with torch.inference_mode(), self.stream:
                self._graphs.precompile()

    def adopt_weights(self) -> None:
        """Run with the weights that `weights` found changed."""
        assert self.weights is not None
        if self.weights.refresh() and self._graphs is not None:
            self._graphs.clear()

    def release(self) -> None:
        """Leave the model as it was found. The runner runs no more."""
        self._graphs = None
        self._decoder.release()

    def _forward(self, batch: Batch) -> Tensor:
        """Logits [rows, vocab] of the `logit_positions` of each request. Writes the tokens' KV."""
        self._attention.plan(batch)
        if self._states is not None:
            self._states.plan(batch)
        ids = to_device(batch.tokens(), self._device)
        if any(request.num_placeholders for request in batch.requests):
            ids = torch.where(ids < 0, self.sampler.sampled[(-1 - ids).clamp_(min=0)], ids)
        positions = to_device(batch.positions, self._device)
        return self._logits(ids, positions, to_device(_logit_rows(batch), self._device))

    def _logits(self, ids: Tensor, positions: Tensor, keep: Tensor | None = None) -> Tensor:
        """Logits of the rows to keep, all by default; ids and positions are integers [T]."""
        with serving(self._states):
            out = self._model(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=False,
                attention_mask=self._unused_mask,
                sgnb=self._attention,
                **({"logits_to_keep": keep} if self._keeps and keep is not None else {}),
            )
        logits: Tensor = out.logits[0]
        return logits if self._keeps or keep is None else logits[keep]


def _logit_rows(batch: Batch) -> NDArray[np.int64]:
    """The rows whose logits are needed."""
    starts, ends = batch.starts.tolist(), batch.ends.tolist()
    rows: list[int] = []
    columns = batch.requests, starts, ends, batch.samples, batch.first_rows.tolist()
    for request, start, end, samples, first in zip(*columns, strict=True):
        positions = request.logit_positions(start, end, samples)
        rows += range(first + positions.start - start, first + positions.stop - start)
    return np.array(rows, np.int64)
