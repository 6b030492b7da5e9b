"""Transformers decoders on the KV pool. Knows transformers; knows no scheduling.

Every transformers decoder takes an attention function by name and forwards extra keyword arguments
to the function. sgnb's function passes q, k, v of each layer to the attention backend in the
argument `sgnb`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ...cache_file import CacheFile
from ...errors import ModelError, shown
from ..cache.kv_cache import LayerShape
from ..cache.state_pool import States
from ..device.load_stages import announce
from ..device.precompile import cancel_unclaimed, load_triton
from ..fusion import Swap, fuse, unfuse
from ..fusion.invariant_model import fuse_invariant
from ..fusion.module_trace import position_limit
from ..fusion.reduction import Ranks
from ..fusion.weights import decoded_elements
from .backend_injection import inject_backend, set_attention
from .compiled_layers import compile_layers
from .config_file import check_positions
from .interface import ATTENTION
from .item_check import ItemCheck
from .item_encoder import ItemEncoder
from .layer_probe import LayerProbe, check_cache, run_probe
from .loading import load_module, pick_device, pick_dtype, place_module
from .logit_check import check_logits, draw_texts, passed_record, reference_logits
from .mixer import Mixer, shapes_of, support_padding
from .mixer_probe import find_mixers
from .processor_folder import load_processor
from .recurrent import use_pool
from .refusals import check_layers, check_options, refusal
from .rope import fix_factors, fixed_length, warn_of_factors
from .shared_model import ModelSetup, share_model
from .tensor_plan import indivisible
from .text_decoder import text_decoder
from .tower_attention import use_segments

UNLIMITED = 1 << 20
"""Context length of a model without a declared limit."""


@dataclass(frozen=True)
class Decoder:
    """Loaded model, ready to run."""

    model: PreTrainedModel
    name: str
    probe: LayerProbe
    states: States  # of the recurrent layers
    pads_prompts: bool  # the recurrent layers support padded texts
    device: torch.device
    context_length: int  # maximum number of positions
    vocab_size: int
    eos_token_ids: frozenset[int]
    fused: list[Swap]  # modules with a replaced forward
    items: ItemEncoder | None  # encoder of images, videos and sounds
    ranks: Ranks | None  # processes with the other parts of the model
    release: Callable[[], None]
    """Restore the model unless another engine uses the model. Idempotent."""

    @property
    def shapes(self) -> dict[int, LayerShape]:
        """KV shape of each layer."""
        return self.probe.shapes

    @property
    def heads(self) -> dict[int, int]:
        """Number of query heads of each layer."""
        return self.probe.heads

    @property
    def dtype(self) -> torch.dtype:
        return self.probe.dtype

    @property
    def scratch_bytes(self) -> int:
        """Memory for the decoded weights of one module; 0 without packed weights."""
        return decoded_elements(self.model) * self.dtype.itemsize


def load_decoder(
    model: str | Path | PreTrainedModel,
    device: str = "auto",
    dtype: str = "auto",
    fused: bool = True,
    memory_limit: float | None = None,
    deterministic: bool = False,
    compiled: bool = False,
    probed: Callable[[LayerProbe, torch.device], None] = lambda probe, device: None,
    context_length: int | None = None,
    processor: Any = None,
    quantize: str | None = None,
    ranks: Ranks | None = None,
) -> Decoder:
    """Load a decoder from a local folder or hub id, or adopt a loaded model. Reads only
    safetensors.

    Args:
        dtype: "auto" is the checkpoint's dtype on a GPU, and float32 on a CPU (faster than half).
        memory_limit: GiB.
        deterministic: The model is batch-invariant.
        compiled: Run layers through torch.compile; `fused` then applies outside the layers.
        probed: Called with the layers' attention requirements and the device once known.
        context_length: Requested by the user; see `fixed_length`.
        processor: Processor of a multimodal model; None for the folder's. Without a processor,
            prompts are text.
        quantize: See `load_module`; for models from files only.
        ranks: Load this rank's part of the model; all ranks call `load_decoder`.

    Raises:
        ModelError: The model is missing, unreadable, too large, not a decoder, in use with another
            setup, or fails the logits check. See also `compile_layers`.
    """
    if not isinstance(model, (str, Path, PreTrainedModel)) or model == "":
        hint = "give a folder, a hub id, 'tiny', or a transformers model"
        raise ModelError(f"{model!r} is not a model", hint)

    if quantize is not None and isinstance(model, PreTrainedModel):
        message = f"quantize={quantize!r} applies while weights are read, and the model is loaded"
        raise ModelError(message, "give the model's folder, or load without quantize")

    target = pick_device(device)
    torch_dtype = pick_dtype(dtype, target)
    on_gpu = target.type == "cuda"

    if on_gpu:
        load_triton()

    # kernels launch on the current device
    with torch.cuda.device(target) if on_gpu else nullcontext():
        if isinstance(model, PreTrainedModel):
            name, module = type(model).__name__, model
        else:
            name = str(model)
            module = load_module(name, target, torch_dtype, memory_limit, quantize, ranks)
            processor = processor or load_processor(name)

        torch_dtype = torch_dtype or next(module.parameters()).dtype
        length = fixed_length(module, context_length)
        setup = ModelSetup(target, torch_dtype, fused, deterministic, compiled, length)
        use = share_model(name, module, setup)
        try:
            if use.prepared is None:
                use.prepared = _prepare(name, module, setup, probed, processor, ranks)
                if use.prepared.states and ranks is not None:
                    raise indivisible(name, "it has recurrent layers")
            else:
                _check_processor(name, use.prepared, processor)
                probed(use.prepared.probe, target)
        except BaseException:
            cancel_unclaimed()
            use.release()
            raise
        return replace(use.prepared, release=use.release)


def _prepare(
    name: str,
    module: PreTrainedModel,
    setup: ModelSetup,
    probed: Callable[[LayerProbe, torch.device], None],
    processor: Any,
    ranks: Ranks | None,
) -> Decoder:
    """Place the model, give layers sgnb's attention and fused forwards, and check the logits."""
    check_layers(name, module)
    eos = _eos_token_ids(name, module)
    context = _context_length(name, module, setup)
    with ExitStack() as undo:
        _keep_modes(module, undo)
        module.eval()
        place_module(module, setup.device, setup.dtype)
        if setup.rope_length is not None:
            warn_of_factors(name, module, setup.rope_length)
            undo.callback(fix_factors(module, setup.rope_length))

        # All ranks check the logits, because a rank cannot skip its part of the sums.
        record = None if ranks else passed_record(module, setup)
        item_check = _begin_item_check(module, processor, undo)
        try:
            probe, mixers, check = _set_attention(name, module, setup, context, record, undo)
        except ModelError:
            raise
        except Exception as error:  # any error of the model's code
            raise refusal(name, module, error) from error

        probed(probe, setup.device)
        announce("replacing modules by fused kernels")
        swaps = _fuse(name, module, setup, probe, item_check, ranks)
        undo.callback(unfuse, swaps)
        if check is not None:
            announce("checking the logits")
            try:
                check()
            except Exception as error:
                raise refusal(name, module, error) from error
            if record is not None:
                record.write(b"passed")
        if item_check is not None:
            announce("checking images, videos and sounds")
            item_check.run(probe, mixers, blocks=not (setup.deterministic or setup.compile))
        ready = undo.pop_all()
    return Decoder(
        model=module,
        name=name,
        probe=probe,
        states=shapes_of(mixers),
        pads_prompts=support_padding(mixers),
        device=setup.device,
        context_length=context,
        vocab_size=len(module.get_input_embeddings().weight),  # type: ignore[arg-type]
        eos_token_ids=eos,
        fused=swaps,
        items=None if item_check is None else item_check.encoder,
        ranks=ranks,
        release=ready.close,
    )


def _context_length(name: str, module: PreTrainedModel, setup: ModelSetup) -> int:
    """Return the maximum number of positions. Raises ModelError for a damaged limit."""
    check_positions(name, module.config)
    context = position_limit(module.config.get_text_config()) or UNLIMITED
    return min(context, setup.rope_length or context)


def _begin_item_check(module: PreTrainedModel, processor: Any, undo: ExitStack) -> ItemCheck | None:
    """Compute prompts with items by the model's own attention, then set the attention of encoders.
    None for a model of text, or without a processor."""
    decoder = text_decoder(module)
    if processor is not None and not hasattr(processor, "tokenizer"):
        message = f"processor={shown(processor)} is not a processor of transformers"
        raise ModelError(message, "give AutoProcessor.from_pretrained(...)")
    if processor is None or decoder is module:
        return None
    announce("computing the logits of prompts with images, videos and sounds")
    encoder = ItemEncoder(module, decoder, processor)
    undo.callback(encoder.substitution.remove)
    check = ItemCheck(module, encoder)
    if encoder.modalities:
        use_segments(module, check.sample_rows, undo)
    return check


def _check_processor(name: str, decoder: Decoder, processor: Any) -> None:
    """Raise ModelError for a processor other than the processor of the first engine on the
    model."""
    items = decoder.items
    if processor is not None and (items is None or items.processor is not processor):
        raise ModelError(
            f"{name} is in use by an engine without this processor",
            "close that engine first, or give both engines the same processor",
        )


def _set_attention(
    name: str,
    module: PreTrainedModel,
    setup: ModelSetup,
    context: int,
    record: CacheFile | None,
    undo: ExitStack,
) -> tuple[LayerProbe, list[Mixer], Callable[[], None] | None]:
    """Probe the layers and set sgnb's attention. Returns the probe, the recurrent layers and the
    pending check of the logits; None after an earlier check of the same architecture."""
    injection_hooks = inject_backend(module, undo)
    texts = draw_texts(module, context)
    announce("probing the layers")
    mixers = find_mixers(module)
    check_options(name, module, setup, bool(mixers))
    expected = None
    if record is None or record.read() is None:
        announce("computing the logits of the model's own attention")
        expected = reference_logits(module, texts, mixers)

    use_pool(mixers, undo)
    probe, hooks = run_probe(module, {mixer.layer for mixer in mixers})
    for hook in hooks:
        undo.callback(hook.remove)
    if not probe.was_injected:
        for hook in injection_hooks:
            hook.remove()
    check_cache(probe, module, context)
    set_attention(module, ATTENTION)
    if expected is None:
        return probe, mixers, None
    return probe, mixers, partial(check_logits, module, probe, mixers, texts, expected)


def _fuse(
    name: str,
    module: PreTrainedModel,
    setup: ModelSetup,
    probe: LayerProbe,
    item_check: ItemCheck | None,
    ranks: Ranks | None,
) -> list[Swap]:
    """Replace forwards as the setup asks."""
    if setup.deterministic:
        return fuse_invariant(module, probe.options)
    has_items = item_check is not None and item_check.encoder.modalities
    encode = item_check.sample_rows if item_check is not None and has_items else None
    swaps = fuse(module, probe.options, encode=encode, ranks=ranks) if setup.fuse else []
    return compile_layers(name, module, swaps, probe) if setup.compile else swaps


def _keep_modes(module: PreTrainedModel, undo: ExitStack) -> None:
    """Restore the training mode and the attention of each module on `undo`."""

    def restore() -> None:
        for part, training in modes:
            part.training = training
        for config, attention in attentions:
            config._attn_implementation = attention

    modes = [(part, part.training) for part in module.modules()]
    configs = {id(m.config): m.config for m in module.modules() if isinstance(m, PreTrainedModel)}
    attentions = [(config, config._attn_implementation) for config in configs.values()]
    undo.callback(restore)


def _eos_token_ids(name: str, module: PreTrainedModel) -> frozenset[int]:
    ids: list[Any] = []
    generation = getattr(module, "generation_config", None)
    for config in (generation, module.config, module.config.get_text_config()):
        eos = getattr(config, "eos_token_id", None)
        ids += eos if isinstance(eos, (list, tuple)) else [] if eos is None else [eos]
    for eos in ids:
        if not isinstance(eos, int):
            raise ModelError(
                f"{name}: {eos!r} in eos_token_id is not a token id",
                "correct eos_token_id in config.json",
            )
    return frozenset(ids)
