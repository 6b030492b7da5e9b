"""Models and an attention for the tests of the fusion pass: what they need on a CPU, in the
interpreter, on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sgnb.engine.attention import LayerOptions
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.fusion import Swap, fuse
from sgnb.engine.fusion.module_trace import TracingBackend
from sgnb.engine.fusion.operations import Linear
from sgnb.engine.fusion.reduction import add_reduction
from sgnb.engine.model.interface import ATTENTION

from ..random_models import VOCAB, random_model

FAMILIES_ON_GPU = (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "gemma",
    "gemma2",
    "gemma3_text",
    "mixtral",
    "qwen3_moe",
)


class DenseBackend(TracingBackend):
    """Attention written out as the layers ask for it; all rows belong to one request."""

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        k, v = (pool[layer][self.new_slots].double() for pool in (self.kv.keys, self.kv.values))
        repeat = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        scores = torch.einsum("thd,shd->hts", q.double(), k) * options.scaling
        if options.softcap is not None:
            scores = options.softcap * torch.tanh(scores / options.softcap)
        row = torch.arange(len(q), device=q.device)
        distance = row[:, None] - row
        hidden = (
            distance < 0
            if options.window is None
            else (distance < 0) | (distance >= options.window)
        )
        scores = scores.masked_fill(hidden, -torch.inf)
        if options.sinks is not None:
            scores = torch.cat(
                [scores, options.sinks.double()[:, None, None].expand(-1, len(q), 1)], -1
            )
        weights = scores.softmax(-1)[..., : len(q)]
        return torch.einsum("hts,shd->thd", weights, v).to(q.dtype).contiguous()


class ProbeBackend(DenseBackend):
    """Learns what the layers ask for, as the loader's probe does."""

    def __init__(self, rows: int, model: PreTrainedModel) -> None:
        super().__init__(rows, model.dtype, model.device)
        self.options: dict[int, LayerOptions] = {}

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.options[layer] = options
        return super().attend(layer, q, options)


def varied_model(family: str, **config: object) -> PreTrainedModel:
    """`random_model` whose norms and biases are no ones and zeros."""
    model = random_model(family, **config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def reduce_outputs(model: PreTrainedModel) -> None:
    """Give the output projections of a model the sums of tensor parallelism, over a single rank."""
    for name, module in model.named_modules():
        if name.endswith((".o_proj", ".down_proj")):
            add_reduction(module, lambda x: x)


def tokens(rows: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.randint(3, VOCAB, (1, rows), generator=torch.Generator().manual_seed(rows)).to(
        device
    )


def own_logits(model: PreTrainedModel, rows: int) -> Tensor:
    """[rows, vocabulary], with transformers' own attention."""
    with torch.inference_mode():
        return model(input_ids=tokens(rows, model.device), use_cache=False).logits[0]


class Pooled:
    """A model with sgnb's attention or fused, its KV going through a pool; options: what its layers
    ask for."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        model.set_attn_implementation(ATTENTION)
        probe = ProbeBackend(2, model)
        self._run(2, probe)
        self.options = probe.options
        self._shapes = {
            layer: LayerShape(keys.shape[1], keys.shape[2], probe.kv.values[layer].shape[2])
            for layer, keys in probe.kv.keys.items()
        }

    def fuse(self, linear: Linear | None = None) -> list[Swap]:
        return fuse(self.model, self.options, linear=linear)

    def logits(self, rows: int) -> Tensor:
        """[rows, vocabulary]."""
        backend = DenseBackend(rows, self.model.dtype, self.model.device)
        backend.kv = KVCache(self._shapes, rows, self.model.dtype, self.model.device)
        return self._run(rows, backend)

    def _run(self, rows: int, backend: TracingBackend) -> Tensor:
        ids = tokens(rows, self.model.device)
        positions = torch.arange(rows, device=self.model.device)[None]
        with torch.inference_mode():
            return self.model(
                input_ids=ids, position_ids=positions, use_cache=False, sgnb=backend
            ).logits[0]
