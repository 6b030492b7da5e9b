"""Asynchronous execution of a step: model forward and sampling."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from .device.transfer import to_device
from .model.decoder import Decoder
from .model.fingerprint import ModelFingerprint
from .model.key_rotation import KeyRotation, find_rotation
from .model.recurrent import StepStates, serving
from .model.weight_monitor import WeightMonitor
from .request.batch import Batch
from .request.step_builder import step_input
from .sampling.results import StepResults, sample_step, sampled_results
from .sampling.sampler import GraphSampler, Sampler
from .sampling.torch_sampler import SamplerOutput
from .step_input import EmbeddingSpan, StepInput

if TYPE_CHECKING:
    from .graphs import DecodeGraphs, StepAttention


class StepLeader(Protocol):
    """Rank 0 of several processes that run each step together."""

    def announce(self, step: StepInput) -> None:
        """Let the other ranks run a step."""

    def named_failures(self) -> AbstractContextManager[None]:
        """Return a context that raises LostRankError for an error within."""

    def cause(self, error: BaseException) -> BaseException:
        """Return the error of a lost rank behind an error."""

    def close(self) -> None:
        """End the other ranks."""


class ModelRunner:
    """Runs a decoder on the flattened tokens of a step: input_ids [1, T] with explicit positions.
    Uses a separate stream on a GPU.

    Attributes:
        fingerprint: Identity of the present keys and values.
    """

    def __init__(
        self,
        decoder: Decoder,
        attention: StepAttention,
        sampler: Sampler,
        states: StepStates | None = None,
        *,
        max_rows: int,
        graph_bytes: int | None = None,
        weights: WeightMonitor | None = None,
        leader: StepLeader | None = None,
    ) -> None:
        """Create a runner.

        Args:
            decoder: The model.
            attention: Attention backend.
            sampler: Sampler.
            states: States of recurrent layers.
            max_rows: Maximum samples per step.
            graph_bytes: Working memory of CUDA graphs; None disables graphs.
            weights: Monitor of weights that the user can change.
            leader: Rank 0 of a tensor-parallel model, on rank 0.
        """
        self._leader, self._ranks = leader, decoder.ranks
        self.sampler, self.weights = sampler, weights
        self._decoder = decoder
        self._model = decoder.model
        self.vocab_size, self.device = decoder.vocab_size, decoder.device
        self._attention = attention
        self._states = states
        shapes = [] if states is None else [states.pool.shapes]
        self.fingerprint = ModelFingerprint(decoder.model, *attention.kv.facts, *shapes)
        self._selects_rows = "logits_to_keep" in inspect.signature(decoder.model.forward).parameters
        # sgnb's attention ignores the mask. A 4-D mask stops transformers from building masks and
        # from synchronizing with the GPU.
        self._unused_mask = torch.zeros(1, 1, 1, 1, device=decoder.device)
        self._graphs: DecodeGraphs | None = None
        if graph_bytes is not None and isinstance(sampler, GraphSampler):
            from .graphs import DecodeGraphs

            self._graphs = DecodeGraphs(
                self._logits, attention, sampler, max_rows, decoder.device, graph_bytes, states
            )
        self.stream: AbstractContextManager[Any] = nullcontext()
        if decoder.device.type == "cuda":
            stream = torch.cuda.Stream(decoder.device)
            # Weights, pool and tables were created on the current stream.
            stream.wait_stream(torch.cuda.current_stream(decoder.device))
            self.stream = torch.cuda.stream(stream)

    def run(self, batch: Batch) -> StepResults:
        """Launch a step. Placeholders read their tokens from the samples of the previous step.

        Call in `torch.inference_mode` and in `stream`. Updates `batch.has_cascade`, and
        `batch.sample_rows` if a CUDA graph samples.
        """
        step = step_input(batch)
        if self._leader is None:
            logits = self._forward(step)
        else:
            self._leader.announce(step)
            with self._leader.named_failures():
                logits = self._forward(step)
        batch.has_cascade = self._attention.has_cascade

        if isinstance(logits, SamplerOutput):
            batch.sample_rows = range(len(batch)) if batch.is_decode else batch.last_rows.tolist()
            return sampled_results(logits)
        return sample_step(step, logits, self.sampler)

    def follow(self, step: StepInput) -> None:
        """Run a step that rank 0 announced. Call as `run`."""
        self._forward(step)

    def _forward(self, step: StepInput) -> Tensor | SamplerOutput:
        """Run the model, and the sampler if a CUDA graph samples."""
        if self._ranks is not None and (first := int(step.tokens.min())) < 0:
            # Only rank 0 samples. The step reads rows up to -1 - first of the previous step.
            self._ranks.broadcast(self.sampler.sampled[:-first])
        if self._graphs is not None and self._graphs.fits(step):
            return self._graphs.run(step)
        return self.compute_logits(step)

    def failure(self, error: BaseException) -> BaseException:
        """Return the cause of an error that ends the engine."""
        is_error = isinstance(error, Exception)
        return error if self._leader is None or not is_error else self._leader.cause(error)

    def precompile(self) -> None:
        """Compile the kernels of decode steps before the first `run`; only with CUDA graphs."""
        if self._graphs is not None:
            with torch.inference_mode(), self.stream:
                self._graphs.precompile()

    def find_rotation(self) -> KeyRotation:
        """See `key_rotation.find_rotation`. Call in `torch.inference_mode` and in `stream`."""
        if self._states is not None:
            raise ValueError("its recurrent layers have states")
        if self._attention.kv.kv_dtype != "auto":
            kv_dtype = self._attention.kv.kv_dtype
            raise ValueError(f"kv_dtype={kv_dtype!r} would round rotated keys a second time")
        if self._ranks is not None:
            raise ValueError("several GPUs share its layers (tensor_parallel)")
        decoder = self._decoder
        return find_rotation(decoder.model, decoder.probe, decoder.context_length)

    def adopt_weights(self) -> None:
        """Use the changed weights reported by `weights`."""
        assert self.weights is not None
        self.fingerprint.forget()
        if self.weights.refresh() and self._graphs is not None:
            self._graphs.clear()

    def release(self) -> None:
        """Restore the model. The runner is unusable afterwards."""
        self._graphs = None
        self._decoder.release()
        if self._leader is not None:
            self._leader.close()

    def compute_logits(self, step: StepInput) -> Tensor:
        """Write the KV of the step's tokens and return the logits of `logit_rows`, [rows, vocab].

        Call in `torch.inference_mode` and in `stream`.
        """
        self._attention.plan(step.attention)
        if self._states is not None:
            self._states.plan(step.states, step.attention)
        ids = to_device(step.tokens, self.device)
        if (step.tokens < 0).any():
            ids = torch.where(ids < 0, self.sampler.sampled[(-1 - ids).clamp_(min=0)], ids)
        positions = to_device(step.positions, self.device)
        rows = to_device(step.logit_rows, self.device)
        return self._logits(ids, positions, rows, step.embeddings)

    def _logits(
        self,
        ids: Tensor,
        positions: Tensor,
        keep: Tensor | None = None,
        embeddings: Sequence[EmbeddingSpan] = (),
    ) -> Tensor:
        """Return the logits of the rows `keep`, all by default.

        Args:
            ids: Token ids, [T].
            positions: Rotary positions, [T] or [axes, T].
            keep: Rows of the result.
            embeddings: Rows instead of the embeddings of `ids`.
        """
        items: AbstractContextManager[None] = nullcontext()
        if embeddings:
            assert self._decoder.items is not None
            items = self._decoder.items.substitution.spans(embeddings)
            ids = ids.clamp(max=self._decoder.vocab_size - 1)

        with serving(self._states), items:
            out = self._model(
                input_ids=ids[None],
                position_ids=positions[..., None, :],
                use_cache=False,
                attention_mask=self._unused_mask,
                sgnb=self._attention,
                **({"logits_to_keep": keep} if self._selects_rows and keep is not None else {}),
            )

        logits: Tensor = out.logits[0]
        return logits if self._selects_rows or keep is None else logits[keep]
