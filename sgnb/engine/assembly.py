"""Parts of an engine, made to fit its options and its device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import torch

from ..errors import OptionError
from .attention import check_backend
from .cache.radix import RadixTree
from .cache.slot_allocator import SlotAllocator
from .model.decoder import Decoder, Probe
from .model.loading import pick_device
from .options import EngineOptions
from .request.tokenizer import Tokenizer
from .sampling.sampler import Sampler, TorchSampler, TritonSampler
from .scheduler import Scheduler


def check_options(options: EngineOptions) -> None:
    """Raise what an engine with these options would here, as far as that is known without a model:
    ModelError for the device, OptionError for what does not go with it."""
    device = pick_device(options.device)
    if options.deterministic and (device.type != "cuda" or find_spec("triton") is None):
        raise OptionError(
            "deterministic=True needs a GPU and the kernels in Triton",
            "load without it, or on a GPU",
        )
    check_backend(options.attention, device, options.deterministic)


def make_scheduler(
    options: EngineOptions, pool_tokens: int, context_length: int, emit: Callable[[Any], None]
) -> Scheduler:
    """options: those of the device, see `EngineOptions.on`."""
    assert options.max_step_tokens and options.max_running_requests
    return Scheduler(
        RadixTree(emit, options.eviction_policy),
        SlotAllocator(pool_tokens),
        context_length=context_length,
        max_step_tokens=options.max_step_tokens,
        max_running=options.max_running_requests,
        policy=options.schedule_policy,
        max_overtaking=options.max_overtaking,
        prefix_cache=options.prefix_cache,
        emit=emit,
    )


def precompile_attention(options: EngineOptions, probe: Probe, device: torch.device) -> None:
    """Begin to compile attention's kernels, which take the longest; `ModelRunner.precompile` will
    ask for them.

    options: as the user gave them. probe: what the model's layers ask for.
    """
    if (
        not options.on(device.type).precompiles
        or options.attention == "torch"
        or find_spec("triton") is None
    ):
        return
    from .attention.triton_backend import precompile_layers

    with suppress(
        torch.OutOfMemoryError
    ):  # whoever needs the memory in earnest says what does not fit
        precompile_layers(
            probe.shapes, probe.heads, probe.options, probe.dtype, device, options.deterministic
        )


def make_sampler(
    decoder: Decoder, rows: int, tokenizer: Tokenizer | None, eos: frozenset[int]
) -> Sampler:
    """rows: of a step, at most."""
    if decoder.device.type != "cuda" or find_spec("triton") is None:
        return TorchSampler(rows, decoder.device)
    vocabulary = None if tokenizer is None else lambda: tokenizer.vocabulary
    return TritonSampler(decoder.vocab_size, rows, decoder.device, eos, vocabulary)
