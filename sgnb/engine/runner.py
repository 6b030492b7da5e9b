"""Asynchronous execution of a step: model forward and sampling."""

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
    Uses a separate stream on a GPU."""

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
        """max_rows: maximum samples per step. states: pool for recurrent layers. weights: monitor
        of weights the user can change."""
        self.sampler, self.weights = sampler, weights
        self._decoder = decoder
        self._model = decoder.model
        self._device = decoder.device
        self._attention = attention
        self._states = None if states is None else StepStates(states)
        self._keeps = takes_logits_to_keep(decoder.model)
        # sgnb's attention ignores the mask. A 4-D mask stops transformers from building masks and
        # from synchronizing with the GPU.
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
            # Weights, pool and tables were created on the current stream.
            stream.wait_stream(torch.cuda.current_stream(decoder.device))
            self.stream = torch.cuda.stream(stream)

    def run(self, batch: Batch) -> AsyncStepOutput:
        """Launch a step. Placeholders read their tokens from the samples of the previous step. A
        CUDA graph updates `batch.sample_rows`.

        Call in `torch.inference_mode` and in `stream`.
        """
        if self._graphs is not None and self._graphs.fits(batch):
            results = self._graphs.run(batch)
            if isinstance(results, SamplerOutput):
                return read_later(batch, results)
            logits = results[to_device(_logit_rows(batch), self._device)]
            return sample_batch(batch, logits, self.sampler)
        return sample_batch(batch, self._forward(batch), self.sampler)

    def precompile(self) -> None:
        """Compile the kernels of decode steps before the first `run`; only with CUDA graphs."""
        if self._graphs is not None:
            with torch.inference_mode(), self.stream:
                self._graphs.precompile()

    def adopt_weights(self) -> None:
        """Use the changed weights reported by `weights`."""
        assert self.weights is not None
        if self.weights.refresh() and self._graphs is not None:
            self._graphs.clear()

    def release(self) -> None:
        """Restore the model. The runner is unusable afterwards."""
        self._graphs = None
        self._decoder.release()

    def _forward(self, batch: Batch) -> Tensor:
        """Write the tokens' KV and return logits [rows, vocab] at the `logit_positions` of each
        request."""
        self._attention.plan(batch)
        if self._states is not None:
            self._states.plan(batch)
        ids = to_device(batch.tokens(), self._device)
        if any(request.num_placeholders for request in batch.requests):
            ids = torch.where(ids < 0, self.sampler.sampled[(-1 - ids).clamp_(min=0)], ids)
        positions = to_device(batch.positions, self._device)
        return self._logits(ids, positions, to_device(_logit_rows(batch), self._device))

    def _logits(self, ids: Tensor, positions: Tensor, keep: Tensor | None = None) -> Tensor:
        """Return the logits of the rows `keep` (default: all); ids and positions: integers [T]."""
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
    """Return the rows with required logits."""
    starts, ends = batch.starts.tolist(), batch.ends.tolist()
    rows: list[int] = []
    columns = batch.requests, starts, ends, batch.samples, batch.first_rows.tolist()
    for request, start, end, samples, first in zip(*columns, strict=True):
        positions = request.logit_positions(start, end, samples)
        rows += range(first + positions.start - start, first + positions.stop - start)
    return np.array(rows, np.int64)
